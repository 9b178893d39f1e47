"""What the scenarios are made of: a consumer with its queue, short ways to make members, and the table of them all."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from danube import Consumer, DanubeClient, DispatchStrategy, Producer, SubType

WAIT_S = 90
QUIET_S = 0.4

Scenario = Callable[[DanubeClient], Awaitable[None]]
SCENARIOS: dict[str, Scenario] = {}
COVERED: dict[str, tuple[str, ...]] = {}
"""The rows of `acceptance.py` that a scenario covers, by its name."""


def scenario(function: Scenario) -> Scenario:
    SCENARIOS[function.__name__] = function
    return function


def covers(*rows: str) -> Callable[[Scenario], Scenario]:
    """A scenario that shows what these rows of `acceptance.py` ask for."""

    def enter(function: Scenario) -> Scenario:
        COVERED[function.__name__] = rows
        return scenario(function)

    return enter


class Reader:
    """A consumer with its queue."""

    def __init__(self, consumer: Consumer, queue: asyncio.Queue[Any]) -> None:
        self.consumer = consumer
        self.queue = queue
        self.got: list[bytes] = []
        self.offsets: list[int] = []
        self.topics: list[str] = []

    async def take(self, count: int, *, ack: bool = True) -> list[bytes]:
        start = len(self.got)
        async with asyncio.timeout(WAIT_S):
            while len(self.got) < start + count:
                await self._one(ack)
        return self.got[start:]

    async def drain(self, at_least: int = 0, *, ack: bool = True, refuse: bytes | None = None) -> list[bytes]:
        """Whatever comes until nothing came for a while; for a long one, while fewer than `at_least` came.

        What has the payload `refuse` is nacked.
        """
        start = len(self.got)
        while True:
            try:
                async with asyncio.timeout(WAIT_S if len(self.got) < start + at_least else QUIET_S):
                    message = await self.queue.get()
            except TimeoutError:
                return self.got[start:]
            if message.payload == refuse:
                await self._note(message, ack=False)
                await self.nack()
            else:
                await self._note(message, ack)

    async def nack(self) -> None:
        """Refuse the last message."""
        await self.consumer.nack(self.last, delay_ms=10, reason="cannot be read")

    async def _one(self, ack: bool) -> None:
        await self._note(await self.queue.get(), ack)

    async def _note(self, message: Any, ack: bool) -> None:
        self.got.append(message.payload)
        self.offsets.append(message.msg_id.topic_offset)
        self.topics.append(message.msg_id.topic_name)
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
    client: DanubeClient,
    topic: str,
    subscription: str = "s",
    name: str = "c",
    kind: SubType = SubType.EXCLUSIVE,
    *,
    key_filters: Sequence[str] = (),
) -> Reader:
    consumer = (
        client.new_consumer()
        .with_topic(topic)
        .with_consumer_name(name)
        .with_subscription(subscription)
        .with_subscription_type(kind)
        .with_key_filters(list(key_filters))
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


async def settle(readers: Sequence[Reader], at_least: int = 0) -> None:
    """Read on until nothing came to anybody for a while; new ones are attached then.

    While all of them together have fewer than `at_least`, that while is a long one.
    """
    deadline_s = asyncio.get_running_loop().time() + WAIT_S
    await asyncio.gather(*(reader.drain() for reader in readers))
    while sum(len(reader.got) for reader in readers) < at_least and asyncio.get_running_loop().time() < deadline_s:
        await asyncio.gather(*(reader.drain() for reader in readers))


async def close(readers: Sequence[Reader]) -> None:
    await asyncio.gather(*(reader.consumer.close() for reader in readers))


def payloads(count: int, prefix: str = "m") -> list[bytes]:
    return [f"{prefix}-{index}".encode() for index in range(count)]


async def send_all(producer: Producer, messages: Sequence[bytes]) -> None:
    for message in messages:
        await producer.send(message)
