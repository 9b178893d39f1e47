"""A steady load of single messages, and how long each took from the application that sends to the one that receives."""

import asyncio
import struct
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from bench.result import percentile_ms
from danube.client import Consumer, DanubeClientBuilder, DispatchStrategy, Producer

MESSAGE_BYTES = 1_024

_HEAD = struct.Struct("<Qd")  # number of the message, when it was due


@dataclass(frozen=True, slots=True)
class Latency:
    """Of the messages of one round."""

    p50_ms: float
    p99_ms: float


@dataclass(frozen=True, slots=True)
class LiveLoad:
    """A producer and a consumer of one topic, connected."""

    producer: Producer
    consumer: Consumer

    async def run(self, per_second: int, seconds: float) -> Latency:
        """Send so many messages at their times, whether or not those before have arrived; wait until all have.

        A message counts from when it was due: what waited for a busy machine has waited.
        """
        count = round(per_second * seconds)
        receiving = asyncio.ensure_future(self._receive(count))
        await self.producer.send_many(_when_due(count, per_second))
        latencies_s = await receiving
        await self.consumer.flush_acks()
        return Latency(percentile_ms(latencies_s, 50), percentile_ms(latencies_s, 99))

    async def _receive(self, count: int) -> list[float]:
        queue = await self.consumer.receive()
        missing, latencies_s = set(range(count)), []
        while missing:
            message = await queue.get()
            number, due_s = _HEAD.unpack_from(message.payload)
            latencies_s.append(time.monotonic() - due_s)
            missing.discard(number)
            await self.consumer.ack_later(message)
        return latencies_s


async def _when_due(count: int, per_second: int) -> AsyncIterator[bytes]:
    """Messages, each at its time."""
    started_s = time.monotonic() + 0.01
    for number in range(count):
        due_s = started_s + number / per_second
        if (wait_s := due_s - time.monotonic()) > 0:
            await asyncio.sleep(wait_s)
        yield _HEAD.pack(number, due_s).ljust(MESSAGE_BYTES, b".")


@asynccontextmanager
async def live_load(url: str, topic: str) -> AsyncIterator[LiveLoad]:
    """Connect both to a reliable topic."""
    async with AsyncExitStack() as parts:
        client = await parts.enter_async_context(await DanubeClientBuilder().service_url(url).build())
        builder = client.new_producer().with_topic(topic).with_name("live")
        producer = await parts.enter_async_context(builder.with_dispatch_strategy(DispatchStrategy.RELIABLE).build())
        reader = client.new_consumer().with_topic(topic).with_consumer_name("live").with_subscription("live")
        yield LiveLoad(producer, await parts.enter_async_context(reader.build()))
