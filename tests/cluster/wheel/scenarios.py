"""What the published `danube-client` wheel must be able to do against our broker. Runs in the wheel's own environment.

    python scenarios.py SERVICE_URL SCENARIO

Prints a line of JSON with what was imported; ends with a traceback where the broker did not do what the clients expect.
"""

import asyncio
import importlib.metadata
import json
import sys
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import chain
from typing import Any

import danube
from danube import Consumer, DanubeClient, DanubeClientBuilder, DispatchStrategy, Producer, SubType

WAIT_S = 20
QUIET_S = 0.4

Scenario = Callable[[DanubeClient], Awaitable[None]]
SCENARIOS: dict[str, Scenario] = {}


def scenario(function: Scenario) -> Scenario:
    SCENARIOS[function.__name__] = function
    return function


class Reader:
    """A consumer with its queue."""

    def __init__(self, consumer: Consumer, queue: asyncio.Queue[Any]) -> None:
        self.consumer = consumer
        self.queue = queue
        self.got: list[bytes] = []
        self.offsets: list[int] = []

    async def take(self, count: int, *, ack: bool = True) -> list[bytes]:
        start = len(self.got)
        async with asyncio.timeout(WAIT_S):
            while len(self.got) < start + count:
                await self._one(ack)
        return self.got[start:]

    async def drain(self, *, ack: bool = True) -> list[bytes]:
        """Whatever comes until nothing came for a while."""
        start = len(self.got)
        while True:
            try:
                async with asyncio.timeout(QUIET_S):
                    message = await self.queue.get()
            except TimeoutError:
                return self.got[start:]
            await self._note(message, ack)

    async def _one(self, ack: bool) -> None:
        await self._note(await self.queue.get(), ack)

    async def _note(self, message: Any, ack: bool) -> None:
        self.got.append(message.payload)
        self.offsets.append(message.msg_id.topic_offset)
        self.last = message
        if ack:
            await self.consumer.ack(message)


def new_topic() -> str:
    return f"/default/t-{uuid.uuid4().hex}"


async def new_producer(
    client: DanubeClient, topic: str, name: str = "p", *, reliable: bool = True, partitions: int = 0
) -> Producer:
    strategy = DispatchStrategy.RELIABLE if reliable else DispatchStrategy.NON_RELIABLE
    builder = client.new_producer().with_topic(topic).with_name(name).with_dispatch_strategy(strategy)
    producer = builder.with_partitions(partitions).build() if partitions else builder.build()
    await producer.create()
    return producer


async def new_reader(
    client: DanubeClient, topic: str, subscription: str = "s", name: str = "c", kind: SubType = SubType.EXCLUSIVE
) -> Reader:
    consumer = (
        client.new_consumer()
        .with_topic(topic)
        .with_consumer_name(name)
        .with_subscription(subscription)
        .with_subscription_type(kind)
        .build()
    )
    await consumer.subscribe()
    return Reader(consumer, await consumer.receive())


@asynccontextmanager
async def reading(
    client: DanubeClient, topic: str, subscription: str = "s", name: str = "c", kind: SubType = SubType.EXCLUSIVE
) -> AsyncIterator[Reader]:
    reader = await new_reader(client, topic, subscription, name, kind)
    try:
        yield reader
    finally:
        await reader.consumer.close()


def payloads(count: int, prefix: str = "m") -> list[bytes]:
    return [f"{prefix}-{index}".encode() for index in range(count)]


async def send_all(producer: Producer, messages: list[bytes]) -> None:
    for message in messages:
        await producer.send(message)


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
async def partitions_are_read_together(client: DanubeClient) -> None:
    topic = new_topic()
    producer = await new_producer(client, topic, partitions=3)
    async with reading(client, topic) as reader:
        await send_all(producer, payloads(30))
        assert sorted(await reader.take(30)) == sorted(payloads(30))


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


async def main(url: str, name: str) -> None:
    version = importlib.metadata.version("danube-client")
    print(json.dumps({"version": version, "file": danube.__file__, "scenario": name}), flush=True)
    client = await DanubeClientBuilder().service_url(url).build()
    await SCENARIOS[name](client)


if __name__ == "__main__":
    if sys.argv[1:] == ["--list"]:
        print("\n".join(SCENARIOS))
    else:
        asyncio.run(main(*sys.argv[1:]))
