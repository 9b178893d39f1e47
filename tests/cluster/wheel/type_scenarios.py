"""The same by the other types of subscription: Failover and Key-Shared."""

import asyncio
from collections import Counter
from itertools import chain

from danube import DanubeClient, Producer, SubType
from tests.cluster.wheel.scene import new_producer, new_reader, new_topic, payloads, reading, scenario, send_all


@scenario
async def failover_passes_on_to_the_next_consumer(client: DanubeClient) -> None:
    topic = new_topic()
    producer = await new_producer(client, topic)
    active = await new_reader(client, topic, "s", "c0", SubType.FAILOVER)
    async with reading(client, topic, "s", "c1", SubType.FAILOVER) as standby:
        await send_all(producer, payloads(10))
        await active.take(5)
        await active.take(1, ack=False)
        assert await standby.drain() == []
        await active.consumer.close()
        assert await standby.take(5) == payloads(10)[5:]


def keyed(count: int, keys: int) -> list[tuple[str, bytes]]:
    return [(f"key-{index % keys}", b"%d" % index) for index in range(count)]


async def send_keyed(producer: Producer, messages: list[tuple[str, bytes]]) -> None:
    for key, payload in messages:
        await producer.send_with_key(payload, None, key)


async def key_affinity(client: DanubeClient, *, reliable: bool, partitions: int = 0) -> None:
    topic = new_topic()
    producer = await new_producer(client, topic, reliable=reliable, partitions=partitions)
    readers = [await new_reader(client, topic, "s", f"c{index}", SubType.KEY_SHARED) for index in range(3)]
    await asyncio.gather(*(reader.drain() for reader in readers))
    sent = keyed(60, keys=12)
    await send_keyed(producer, sent)
    await asyncio.gather(*(reader.drain() for reader in readers))
    assert Counter(chain.from_iterable(reader.got for reader in readers)) == Counter(payload for _, payload in sent)
    for key in {key for key, _ in sent}:
        own = [payload for of_key, payload in sent if of_key == key]
        assert [[one for one in reader.got if one in own] for reader in readers if set(reader.got) & set(own)] == [own]
    for reader in readers:
        await reader.consumer.close()


@scenario
async def key_shared_keeps_each_key_at_one_consumer_and_in_order(client: DanubeClient) -> None:
    await key_affinity(client, reliable=True)


@scenario
async def key_shared_keeps_each_key_at_one_consumer_without_reliability(client: DanubeClient) -> None:
    await key_affinity(client, reliable=False)


@scenario
async def key_shared_keeps_each_key_at_one_consumer_of_all_partitions(client: DanubeClient) -> None:
    await key_affinity(client, reliable=True, partitions=2)


@scenario
async def key_shared_gives_everything_to_its_only_consumer(client: DanubeClient) -> None:
    topic = new_topic()
    producer = await new_producer(client, topic)
    async with reading(client, topic, kind=SubType.KEY_SHARED) as reader:
        sent = keyed(20, keys=4)
        await send_keyed(producer, sent)
        assert sorted(await reader.take(20)) == sorted(payload for _, payload in sent)


@scenario
async def key_shared_takes_acknowledgements_in_any_order(client: DanubeClient) -> None:
    topic = new_topic()
    producer = await new_producer(client, topic)
    reader = await new_reader(client, topic, kind=SubType.KEY_SHARED)
    await send_keyed(producer, keyed(5, keys=5))
    messages = [await reader.queue.get() for _ in range(5)]
    for message in reversed(messages[1:]):
        await reader.consumer.ack(message)
    await reader.consumer.close()
    async with reading(client, topic, kind=SubType.KEY_SHARED) as again:
        assert await again.drain() == [messages[0].payload]


@scenario
async def key_shared_nacked_message_comes_again(client: DanubeClient) -> None:
    topic = new_topic()
    producer = await new_producer(client, topic)
    async with reading(client, topic, kind=SubType.KEY_SHARED) as reader:
        await producer.send_with_key(b"bad", None, "key")
        await reader.take(1, ack=False)
        await reader.consumer.nack(reader.last, delay_ms=10, reason="try again")
        assert await reader.take(1) == [b"bad"]


@scenario
async def key_shared_filters_keep_keys_apart(client: DanubeClient) -> None:
    for reliable in (True, False):
        topic = new_topic()
        producer = await new_producer(client, topic, reliable=reliable)
        users = await new_reader(client, topic, "s", "users", SubType.KEY_SHARED, key_filters=["user-*"])
        orders = await new_reader(client, topic, "s", "orders", SubType.KEY_SHARED, key_filters=["order-*", "bill-?"])
        await asyncio.gather(users.drain(), orders.drain())
        keys = ["user-1", "order-1", "bill-7", "user-2"] * 5
        await send_keyed(producer, [(key, key.encode()) for key in keys])
        assert set(await users.take(10)) == {b"user-1", b"user-2"}
        assert set(await orders.take(10)) == {b"order-1", b"bill-7"}
        await users.consumer.close()
        await orders.consumer.close()
