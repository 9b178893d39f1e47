"""What the published `danube-client` must be able to do against our broker, by Exclusive and Shared subscriptions."""

import asyncio
from collections import Counter
from itertools import chain

from danube import DanubeClient, SubType
from tests.cluster.wheel.scene import WAIT_S, new_producer, new_reader, new_topic, payloads, reading, scenario, send_all


async def basic(client: DanubeClient, kind: SubType, *, reliable: bool) -> None:
    topic = new_topic()
    producer = await new_producer(client, topic, reliable=reliable)
    async with reading(client, topic, kind=kind) as reader:
        await producer.send(b"hello", {"colour": "blue"})
        assert await reader.take(1) == [b"hello"]
        assert dict(reader.last.attributes) == {"colour": "blue"}
        assert reader.last.msg_id.topic_name == topic
        assert reader.last.producer_name == "p"


@scenario
async def subscription_basic_shared(client: DanubeClient) -> None:
    await basic(client, SubType.SHARED, reliable=False)


@scenario
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
        await reader.consumer.close()


@scenario
async def pubsub_fanout_exclusive(client: DanubeClient) -> None:
    await fanout(client, reliable=False)


@scenario
async def pubsub_fanout_exclusive_reliable(client: DanubeClient) -> None:
    await fanout(client, reliable=True)


@scenario
async def queuing_shared_round_robin(client: DanubeClient) -> None:
    for reliable in (True, False):
        topic = new_topic()
        producer = await new_producer(client, topic, reliable=reliable)
        readers = [await new_reader(client, topic, "s", f"c{index}", SubType.SHARED) for index in range(3)]
        await asyncio.gather(*(reader.drain() for reader in readers))
        sent = payloads(36)
        await send_all(producer, sent)
        await asyncio.gather(*(reader.take(12) for reader in readers))
        assert sorted(chain.from_iterable(reader.got for reader in readers)) == sorted(sent)
        for reader in readers:
            await reader.consumer.close()


@scenario
async def churn_shared_queue_join_leave(client: DanubeClient) -> None:
    topic = new_topic()
    producer = await new_producer(client, topic)
    readers = [await new_reader(client, topic, "s", f"c{index}", SubType.SHARED) for index in range(2)]
    sent = payloads(45)
    await send_all(producer, sent[:15])
    await asyncio.gather(*(reader.drain() for reader in readers))
    readers.append(await new_reader(client, topic, "s", "c2", SubType.SHARED))
    await readers[2].drain()
    await send_all(producer, sent[15:30])
    await asyncio.gather(*(reader.drain() for reader in readers))
    await readers[0].consumer.close()
    await send_all(producer, sent[30:])
    await asyncio.gather(*(reader.drain() for reader in readers[1:]))
    assert Counter(chain.from_iterable(reader.got for reader in readers)) == Counter(sent)
    assert all(reader.got for reader in readers)
    for reader in readers[1:]:
        await reader.consumer.close()


@scenario
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


@scenario
async def producer_reconnect(client: DanubeClient) -> None:
    topic = new_topic()
    first = await new_producer(client, topic, "same")
    async with reading(client, topic) as reader:
        await first.send(b"1")
        second = await new_producer(client, topic, "same")
        await second.send(b"2")
        await first.send(b"3")
        assert await reader.take(3) == [b"1", b"2", b"3"]


async def blob(client: DanubeClient, kind: SubType) -> None:
    topic = new_topic()
    producer = await new_producer(client, topic)
    content = bytes(range(256)) * 400
    async with reading(client, topic, kind=kind) as reader:
        for _ in range(20):
            await producer.send(content)
        assert await reader.take(20) == [content] * 20
        assert reader.offsets == list(range(20))


@scenario
async def reliable_dispatch_basic_exclusive(client: DanubeClient) -> None:
    await blob(client, SubType.EXCLUSIVE)


@scenario
async def reliable_dispatch_basic_shared(client: DanubeClient) -> None:
    await blob(client, SubType.SHARED)


@scenario
async def reliable_exclusive_reconnection(client: DanubeClient) -> None:
    topic = new_topic()
    producer = await new_producer(client, topic)
    first = await new_reader(client, topic)
    await send_all(producer, payloads(3))
    await first.take(1)
    await first.take(1, ack=False)
    await first.consumer.close()
    async with reading(client, topic) as again:
        assert await again.take(2) == payloads(3)[1:]


@scenario
async def reliable_shared_reconnection_failover(client: DanubeClient) -> None:
    topic = new_topic()
    producer = await new_producer(client, topic)
    leaving = await new_reader(client, topic, "s", "leaving", SubType.SHARED)
    await producer.send(b"unfinished")
    await leaving.take(1, ack=False)
    async with reading(client, topic, "s", "staying", SubType.SHARED) as staying:
        await leaving.consumer.close()
        assert await staying.take(1) == [b"unfinished"]


@scenario
async def reliable_multiple_reconnections(client: DanubeClient) -> None:
    topic = new_topic()
    producer = await new_producer(client, topic)
    readers = await new_reader(client, topic)
    await producer.send(b"again")
    for _ in range(3):
        assert await readers.take(1, ack=False) == [b"again"]
        await readers.consumer.close()
        readers = await new_reader(client, topic)
    assert await readers.take(1) == [b"again"]
    await readers.consumer.close()
    async with reading(client, topic) as last:
        assert await last.drain() == []


@scenario
async def nacked_message_comes_again(client: DanubeClient) -> None:
    topic = new_topic()
    producer = await new_producer(client, topic)
    async with reading(client, topic) as reader:
        await producer.send(b"bad")
        await reader.take(1, ack=False)
        await reader.consumer.nack(reader.last, delay_ms=10, reason="try again")
        assert await reader.take(1) == [b"bad"]


@scenario
async def nacked_message_of_a_shared_subscription_comes_again(client: DanubeClient) -> None:
    topic = new_topic()
    producer = await new_producer(client, topic)
    async with reading(client, topic, kind=SubType.SHARED) as reader:
        await producer.send(b"bad")
        await reader.take(1, ack=False)
        await reader.consumer.nack(reader.last, delay_ms=10, reason="try again")
        assert await reader.take(1) == [b"bad"]
        assert await reader.drain() == []


@scenario
async def burst_is_delivered_to_its_end(client: DanubeClient) -> None:
    topic = new_topic()
    producer = await new_producer(client, topic)
    async with reading(client, topic) as reader:
        sent = payloads(100)
        await asyncio.gather(*(producer.send(payload) for payload in sent))
        assert sorted(await reader.take(100)) == sorted(sent)
        assert reader.offsets == list(range(100))


@scenario
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


@scenario
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


@scenario
async def messages_name_their_topic_or_their_partition(client: DanubeClient) -> None:
    for partitions in (0, 3):
        topic = new_topic()
        producer = await new_producer(client, topic, partitions=partitions)
        names: set[str] = set()
        async with reading(client, topic) as reader:
            await send_all(producer, payloads(9))
            for _ in range(9):
                await reader.take(1)
                names.add(reader.last.msg_id.topic_name)
        assert names == ({f"{topic}-part-{index}" for index in range(partitions)} or {topic})


async def partitioned(client: DanubeClient, kind: SubType, *, reliable: bool) -> None:
    topic = new_topic()
    producer = await new_producer(client, topic, partitions=3, reliable=reliable)
    async with reading(client, topic, kind=kind) as reader:
        await reader.drain()
        await send_all(producer, payloads(30))
        assert sorted(await reader.take(30)) == sorted(payloads(30))


@scenario
async def partitions_are_read_together(client: DanubeClient) -> None:
    await partitioned(client, SubType.EXCLUSIVE, reliable=True)


@scenario
async def partitions_are_read_together_without_reliability(client: DanubeClient) -> None:
    await partitioned(client, SubType.EXCLUSIVE, reliable=False)


@scenario
async def partitions_of_a_shared_subscription_are_read_together(client: DanubeClient) -> None:
    await partitioned(client, SubType.SHARED, reliable=True)


@scenario
async def partitions_are_shared_evenly_and_all_seen_by_each(client: DanubeClient) -> None:
    topic = new_topic()
    producer = await new_producer(client, topic, partitions=3)
    readers = [await new_reader(client, topic, "s", f"c{index}", SubType.SHARED) for index in range(3)]
    await asyncio.gather(*(reader.drain() for reader in readers))
    await send_all(producer, payloads(60))
    await asyncio.gather(*(reader.drain() for reader in readers))
    assert Counter(chain.from_iterable(reader.got for reader in readers)) == Counter(payloads(60))
    assert all(15 <= len(reader.got) <= 25 for reader in readers), [len(reader.got) for reader in readers]
    for reader in readers:
        await reader.consumer.close()


@scenario
async def partitions_are_read_in_full_by_every_subscription(client: DanubeClient) -> None:
    topic = new_topic()
    producer = await new_producer(client, topic, partitions=3)
    readers = [await new_reader(client, topic, f"s{index}", f"c{index}") for index in range(3)]
    await send_all(producer, payloads(45))
    for reader in readers:
        assert sorted(await reader.take(45)) == sorted(payloads(45))
        await reader.consumer.close()


@scenario
async def flooded_consumer_gets_everything(client: DanubeClient) -> None:
    """16 producers, 20,000 messages, one consumer that falls behind."""
    topic = new_topic()
    producers = [await new_producer(client, topic, f"p{index}") for index in range(16)]
    async with reading(client, topic) as reader:

        async def flood(index: int) -> None:
            await send_all(producers[index], payloads(1_250, f"p{index}"))

        floods = asyncio.gather(*(flood(index) for index in range(16)))
        async with asyncio.timeout(150):
            while len(reader.got) < 20_000:
                message = await reader.queue.get()
                reader.got.append(message.payload)
                reader.offsets.append(message.msg_id.topic_offset)
                await reader.consumer.ack(message)
        await floods
        assert len(set(reader.got)) == 20_000
        assert reader.offsets == list(range(20_000))
        for index in range(16):
            own = [payload for payload in reader.got if payload.startswith(f"p{index}-".encode())]
            assert own == payloads(1_250, f"p{index}")


@scenario
async def silent_subscriber_stalls_nobody(client: DanubeClient) -> None:
    """One consumer subscribes and never opens its stream."""
    for reliable in (True, False):
        topic = new_topic()
        producer = await new_producer(client, topic, reliable=reliable)
        silent = client.new_consumer().with_topic(topic).with_consumer_name("silent").with_subscription("quiet")
        await silent.build().subscribe()
        async with reading(client, topic, "loud", "c") as reader:
            async with asyncio.timeout(WAIT_S):
                await send_all(producer, payloads(200))
            assert await reader.take(200) == payloads(200)
