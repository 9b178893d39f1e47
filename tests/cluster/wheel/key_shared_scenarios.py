"""Key-Shared subscriptions: each key at one consumer and in order; filters; who stays away loses its keys."""

import asyncio

from danube import DanubeClient, SubType
from tests.cluster.wheel.administering import retry_blocked
from tests.cluster.wheel.keyed import (
    check_all_came_once,
    check_each_key_is_at_one_consumer_in_order,
    key_readers,
    keyed,
    send_keyed,
)
from tests.cluster.wheel.scene import close, covers, new_producer, new_reader, new_topic, reading, scenario, settle

GRACE_S = 3.0
"""For which a broker keeps the keys of a consumer that has gone."""


async def only_consumer(client: DanubeClient, *, reliable: bool) -> None:
    topic = new_topic()
    producer = await new_producer(client, topic, reliable=reliable)
    readers = await key_readers(client, topic, 1)
    await settle(readers)
    sent = keyed(20, keys=4)
    await send_keyed(producer, sent)
    await readers[0].take(20)
    check_each_key_is_at_one_consumer_in_order(readers, sent)
    await close(readers)


@covers("key_shared_basic.single_consumer_non_reliable")
async def key_shared_gives_everything_to_its_only_consumer_without_reliability(client: DanubeClient) -> None:
    await only_consumer(client, reliable=False)


@scenario
async def key_shared_gives_everything_to_its_only_consumer(client: DanubeClient) -> None:
    await only_consumer(client, reliable=True)


async def affinity(client: DanubeClient, *, reliable: bool) -> None:
    topic = new_topic()
    producer = await new_producer(client, topic, reliable=reliable)
    readers = await key_readers(client, topic, 3)
    await settle(readers)
    sent = keyed(60, keys=12)
    await send_keyed(producer, sent)
    await settle(readers, 60)
    check_all_came_once(readers, sent)
    check_each_key_is_at_one_consumer_in_order(readers, sent)
    await close(readers)


@covers("key_shared_basic.reliable_per_key_affinity")
async def key_shared_keeps_each_key_at_one_consumer_and_in_order(client: DanubeClient) -> None:
    await affinity(client, reliable=True)


@covers("key_shared_basic.per_key_affinity_non_reliable")
async def key_shared_keeps_each_key_at_one_consumer_without_reliability(client: DanubeClient) -> None:
    await affinity(client, reliable=False)


@scenario
async def key_shared_takes_the_producers_name_for_the_key_of_what_has_none(client: DanubeClient) -> None:
    topic = new_topic()
    producer = await new_producer(client, topic)
    readers = await key_readers(client, topic, 3)
    await settle(readers)
    for number in range(20):
        await producer.send(b"%d" % number)
    await settle(readers, 20)
    assert sorted(len(reader.got) for reader in readers) == [0, 0, 20]
    await close(readers)


@covers("key_shared_basic.reliable_out_of_order_ack")
async def key_shared_takes_acknowledgements_in_any_order(client: DanubeClient) -> None:
    topic = new_topic()
    producer = await new_producer(client, topic)
    reader = await new_reader(client, topic, kind=SubType.KEY_SHARED)
    await send_keyed(producer, keyed(5, keys=5))
    messages = [await reader.queue.get() for _ in range(5)]
    for message in reversed(messages[1:]):
        await reader.consumer.ack(message)
    assert await retry_blocked(topic) == 0
    await reader.consumer.close()
    async with reading(client, topic, kind=SubType.KEY_SHARED) as again:
        assert await again.drain(1) == [messages[0].payload]
        assert await retry_blocked(topic) == 5


@covers("key_shared_safety.inactive_consumer_eviction")
async def keys_of_a_consumer_that_stays_away_go_to_the_one_that_is_left(client: DanubeClient) -> None:
    """It keeps them for the broker's time of grace."""
    topic = new_topic()
    producer = await new_producer(client, topic)
    leaving, staying = await key_readers(client, topic, 2)
    await settle([leaving, staying])
    await send_keyed(producer, [(f"key-{number}", f"key-{number}".encode()) for number in range(40)])
    await settle([leaving, staying], 40)
    assert staying.got
    key = leaving.last.routing_key
    await producer.send_with_key(b"unfinished", None, key)
    await leaving.take(1, ack=False)
    before_s = asyncio.get_running_loop().time()
    await leaving.consumer.close()
    await producer.send_with_key(b"new", None, key)
    assert await staying.take(1) == [b"unfinished"]
    assert asyncio.get_running_loop().time() - before_s > 0.9 * GRACE_S
    assert await staying.take(1) == [b"new"]
    await staying.consumer.close()
