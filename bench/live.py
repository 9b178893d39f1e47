"""A steady load of single messages, and how long each took from the application that sends to the one that receives."""

import asyncio
import math
import struct
import time
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from bench.result import percentile_ms
from danube.client import Consumer, DanubeClientBuilder, DispatchStrategy, Message, Producer

MESSAGE_BYTES = 1_024

_HEAD = struct.Struct("<Qd")  # number of the message, when it was due


class Arrival(NamedTuple):
    """One message, in monotonic time."""

    due_s: float
    received_s: float


@dataclass(frozen=True, slots=True)
class Latency:
    """Latency of the messages of one round."""

    p50_ms: float
    p99_ms: float


def latency_of(arrivals: Sequence[Arrival]) -> Latency:
    """A message counts from when it was due: what waited for a busy machine has waited. Of none it is not a number."""
    if not arrivals:
        return Latency(math.nan, math.nan)
    latencies_s = [received_s - due_s for due_s, received_s in arrivals]
    return Latency(percentile_ms(latencies_s, 50), percentile_ms(latencies_s, 99))


class Receiver(Protocol):
    """Receiver of the messages."""

    async def receive(self, count: int) -> list[Arrival]:
        """So many of them."""


@dataclass(frozen=True, slots=True)
class LiveLoad:
    """A producer and a receiver of one topic, connected."""

    producer: Producer
    receiver: Receiver

    async def run(self, per_second: int, seconds: float) -> list[Arrival]:
        """Send so many messages at their times, whether or not those before have arrived; wait until all have."""
        count = round(per_second * seconds)
        receiving = asyncio.ensure_future(self.receiver.receive(count))
        await self.producer.send_many(_when_due(count, per_second))
        return await receiving


@dataclass(frozen=True, slots=True)
class StreamReceiver:
    """Follows the topic with one Fetch stream: no call for any message, so what is measured is the broker."""

    messages: AsyncGenerator[Message, None]

    async def receive(self, count: int) -> list[Arrival]:
        arrivals = []
        for _ in range(count):
            _, due_s = _HEAD.unpack_from((await anext(self.messages)).payload)
            arrivals.append(Arrival(due_s, time.monotonic()))
        return arrivals


@dataclass(frozen=True, slots=True)
class ConsumerReceiver:
    """A consumer that acknowledges each message with a call of its own, as the official clients do."""

    consumer: Consumer

    async def receive(self, count: int) -> list[Arrival]:
        queue = await self.consumer.receive()
        missing, arrivals = set(range(count)), []
        while missing:
            message = await queue.get()
            number, due_s = _HEAD.unpack_from(message.payload)
            arrivals.append(Arrival(due_s, time.monotonic()))
            missing.discard(number)
            await self.consumer.ack_later(message)
        await self.consumer.flush_acks()
        return arrivals


async def _when_due(count: int, per_second: int) -> AsyncIterator[bytes]:
    """Messages, each at its time."""
    started_s = time.monotonic() + 0.01
    for number in range(count):
        due_s = started_s + number / per_second
        if (wait_s := due_s - time.monotonic()) > 0:
            await asyncio.sleep(wait_s)
        yield _HEAD.pack(number, due_s).ljust(MESSAGE_BYTES, b".")


@asynccontextmanager
async def live_load(url: str, topic: str, *, consumes: bool = False) -> AsyncIterator[LiveLoad]:
    """Connect both to a reliable topic; with `consumes` its messages are acknowledged, one by one."""
    async with AsyncExitStack() as parts:
        client = await parts.enter_async_context(await DanubeClientBuilder().service_url(url).build())
        builder = client.new_producer().with_topic(topic).with_name("live")
        producer = await parts.enter_async_context(builder.with_dispatch_strategy(DispatchStrategy.RELIABLE).build())
        if consumes:
            reader = client.new_consumer().with_topic(topic).with_consumer_name("live").with_subscription("live")
            yield LiveLoad(producer, ConsumerReceiver(await parts.enter_async_context(reader.build())))
        else:
            messages = await parts.enter_async_context(aclosing(client.fetch(topic, follow=True)))
            yield LiveLoad(producer, StreamReceiver(messages))
