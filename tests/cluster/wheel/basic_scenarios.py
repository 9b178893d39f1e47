"""Receiving and acknowledging by Exclusive and Shared subscriptions, and members that come and go."""

import asyncio
from collections import Counter
from itertools import chain

from danube import DanubeClient, SubType
from tests.cluster.wheel.scene import (
    close,
    covers,
    new_producer,
    new_reader,
    new_topic,
    payloads,
    reading,
    scenario,
    send_all,
    settle,
)


async def basic(client: DanubeClient, kind: SubType, *, reliable: bool) -> None:
    topic = new_topic()
    producer = await new_producer(client, topic, reliable=reliable)
    async with reading(client, topic, kind=kind) as reader:
        await producer.send(b"hello", {"colour": "blue"})
        assert await reader.take(1) == [b"hello"]
        assert dict(reader.last.attributes) == {"colour": "blue"}
        assert reader.last.msg_id.topic_name == topic
        assert reader.last.producer_name == "p"


@covers("subscription_basic.basic_subscription_shared")
async def subscription_basic_shared(client: DanubeClient) -> None:
    await basic(client, SubType.SHARED, reliable=False)


@covers("subscription_basic.basic_subscription_exclusive")
async def subscription_basic_exclusive(client: DanubeClient) -> None:
    await basic(client, SubType.EXCLUSIVE, reliable=False)


async def fanout(client: DanubeClient, *, reliable: bool) -> None:
    topic = new_topic()
    producer = await new_producer(client, topic, reliable=reliable)
    readers = [await new_reader(client, topic, f"s{index}", f"c{index}") for index in range(3)]
    sent = payloads(24)
    await send_all(producer, sent)
    for reader in readers:
        assert await reader.take(24) == sent
    await close(readers)


@covers("pubsub_fanout_exclusive.pubsub_fanout_exclusive_unique_subscriptions")
async def pubsub_fanout_exclusive(client: DanubeClient) -> None:
    await fanout(client, reliable=False)


@scenario
async def pubsub_fanout_exclusive_reliable(client: DanubeClient) -> None:
    await fanout(client, reliable=True)


@covers("queuing_shared_round_robin.queue_shared_round_robin_distribution")
async def queuing_shared_round_robin(client: DanubeClient) -> None:
    for reliable in (True, False):
        topic = new_topic()
        producer = await new_producer(client, topic, reliable=reliable)
        readers = [await new_reader(client, topic, "s", f"c{index}", SubType.SHARED) for index in range(3)]
        await settle(readers)
        sent = payloads(36)
        await send_all(producer, sent)
        await asyncio.gather(*(reader.take(12) for reader in readers))
        assert sorted(chain.from_iterable(reader.got for reader in readers)) == sorted(sent)
        await close(readers)


@covers("consumer_churn.churn_shared_queue_join_leave")
async def churn_shared_queue_join_leave(client: DanubeClient) -> None:
    topic = new_topic()
    producer = await new_producer(client, topic)
    readers = [await new_reader(client, topic, "s", f"c{index}", SubType.SHARED) for index in range(2)]
    sent = payloads(45)
    await send_all(producer, sent[:15])
    await settle(readers, 15)
    readers.append(await new_reader(client, topic, "s", "c2", SubType.SHARED))
    await readers[2].drain()
    await send_all(producer, sent[15:30])
    await settle(readers, 30)
    await readers[0].consumer.close()
    await send_all(producer, sent[30:])
    await settle(readers[1:], 45 - len(readers[0].got))
    assert Counter(chain.from_iterable(reader.got for reader in readers)) == Counter(sent)
    assert all(reader.got for reader in readers)
    await close(readers[1:])


@covers("consumer_churn.churn_exclusive_fanout_join_leave")
async def churn_exclusive_fanout_join_leave(client: DanubeClient) -> None:
    topic = new_topic()
    producer = await new_producer(client, topic)
    sent = payloads(30)
    async with reading(client, topic, "s0", "c0") as first:
        await send_all(producer, sent[:10])
        async with reading(client, topic, "s1", "c1") as late:
            await send_all(producer, sent[10:20])
            assert await late.take(10) == sent[10:20]
        await send_all(producer, sent[20:])
        assert await first.take(30) == sent


@covers("producer_reconnect.producer_reconnection_reuse")
async def producer_reconnect(client: DanubeClient) -> None:
    topic = new_topic()
    first = await new_producer(client, topic, "same")
    async with reading(client, topic) as reader:
        await first.send(b"1")
        second = await new_producer(client, topic, "same")
        await second.send(b"2")
        await first.send(b"3")
        assert await reader.take(3) == [b"1", b"2", b"3"]
