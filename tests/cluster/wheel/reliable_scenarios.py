"""Reliable topics by Exclusive, Shared and Failover subscriptions: what is unacknowledged comes again, and in order."""

import asyncio

from danube import DanubeClient, SubType
from tests.cluster.wheel.scene import covers, new_producer, new_reader, new_topic, payloads, reading, scenario, send_all


async def blob(client: DanubeClient, kind: SubType) -> None:
    topic = new_topic()
    producer = await new_producer(client, topic)
    content = bytes(range(256)) * 400
    async with reading(client, topic, kind=kind) as reader:
        for _ in range(20):
            await producer.send(content)
        assert await reader.take(20) == [content] * 20
        assert reader.offsets == list(range(20))


@covers("reliable_dispatch_basic.exclusive")
async def reliable_dispatch_basic_exclusive(client: DanubeClient) -> None:
    await blob(client, SubType.EXCLUSIVE)


@covers("reliable_dispatch_basic.shared")
async def reliable_dispatch_basic_shared(client: DanubeClient) -> None:
    await blob(client, SubType.SHARED)


@covers("reliable_dispatch_reconnection.reliable_exclusive_reconnection")
async def reliable_exclusive_reconnection(client: DanubeClient) -> None:
    topic = new_topic()
    producer = await new_producer(client, topic)
    first = await new_reader(client, topic)
    await send_all(producer, payloads(3))
    await first.take(1)
    await first.take(1, ack=False)
    await first.consumer.close()
    await producer.send(b"newer")
    async with reading(client, topic) as again:
        assert await again.take(3) == [b"m-1", b"m-2", b"newer"]


@covers("reliable_dispatch_reconnection.reliable_shared_reconnection_failover")
async def reliable_shared_reconnection_failover(client: DanubeClient) -> None:
    topic = new_topic()
    producer = await new_producer(client, topic)
    leaving = await new_reader(client, topic, "s", "leaving", SubType.SHARED)
    await producer.send(b"unfinished")
    await leaving.take(1, ack=False)
    async with reading(client, topic, "s", "staying", SubType.SHARED) as staying:
        await leaving.consumer.close()
        assert await staying.take(1) == [b"unfinished"]


@covers("reliable_dispatch_reconnection.reliable_multiple_reconnections")
async def reliable_multiple_reconnections(client: DanubeClient) -> None:
    topic = new_topic()
    producer = await new_producer(client, topic)
    reader = await new_reader(client, topic)
    await producer.send(b"again")
    for _ in range(3):
        assert await reader.take(1, ack=False) == [b"again"]
        await reader.consumer.close()
        reader = await new_reader(client, topic)
    assert await reader.take(1) == [b"again"]
    await reader.consumer.close()
    async with reading(client, topic) as last:
        assert await last.drain() == []


@covers("reliable_dispatch_heartbeat.notification_coalescing_recovery")
async def burst_is_delivered_to_its_end(client: DanubeClient) -> None:
    topic = new_topic()
    producer = await new_producer(client, topic)
    async with reading(client, topic) as reader:
        sent = payloads(100)
        await asyncio.gather(*(producer.send(payload) for payload in sent))
        assert sorted(await reader.take(100)) == sorted(sent)
        assert reader.offsets == list(range(100))


@covers("reliable_dispatch_heartbeat.subscription_creation_race_condition")
async def subscribing_while_messages_come_loses_none_sent_after_it(client: DanubeClient) -> None:
    topic = new_topic()
    producer = await new_producer(client, topic)
    stop = asyncio.Event()
    sent: list[bytes] = []

    async def publish() -> None:
        while not stop.is_set():
            sent.append(b"%d" % len(sent))
            await producer.send(sent[-1])

    publishing = asyncio.gather(publish())
    for index in range(5):
        async with reading(client, topic, f"s{index}", f"c{index}") as reader:
            after = len(sent)
            got = await reader.take(20)
            first = sent.index(got[0])
            assert first <= after
            assert got == sent[first : first + 20]
    stop.set()
    await publishing


@covers("reliable_dispatch_heartbeat.consumer_disconnect_during_notification")
async def what_was_acknowledged_does_not_come_again_after_a_disconnect(client: DanubeClient) -> None:
    topic = new_topic()
    producer = await new_producer(client, topic)
    first = await new_reader(client, topic)
    await send_all(producer, payloads(9))
    await first.take(4)
    await first.take(2, ack=False)
    await first.consumer.close()
    async with reading(client, topic) as again:
        assert await again.take(5) == payloads(9)[4:]
        assert await again.drain() == []


@covers("reliable_dispatch_heartbeat.poll_next_returns_none_recovery")
async def what_comes_after_an_empty_read_is_delivered(client: DanubeClient) -> None:
    topic = new_topic()
    producer = await new_producer(client, topic)
    async with reading(client, topic) as reader:
        assert await reader.drain() == []
        for payload in payloads(50):
            await producer.send(payload)
            assert await reader.take(1) == [payload]
        assert await reader.drain() == []
        await producer.send(b"late")
        assert await reader.take(1) == [b"late"]


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
