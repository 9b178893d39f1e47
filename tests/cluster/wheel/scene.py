"""What the scenarios are made of: a consumer with its queue, short ways to make members, and the table of them all."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from danube import Consumer, DanubeClient, DispatchStrategy, Producer, SubType

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


def payloads(count: int, prefix: str = "m") -> list[bytes]:
    return [f"{prefix}-{index}".encode() for index in range(count)]


async def send_all(producer: Producer, messages: list[bytes]) -> None:
    for message in messages:
        await producer.send(message)
