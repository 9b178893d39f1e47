"""`send_many` end to end, synced before each acknowledgement: messages a second, and the broker's processor time.

Beside it, in the same run, the same payloads by single SendMessage calls: what batches are worth; and with
de-duplication: what that costs.
"""

import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path

from bench.result import Figure
from danube.client import DanubeClient, DanubeClientBuilder, DispatchStrategy, Producer
from danube.testing.processes.broker import BrokerProcess

SIZES = (100, 1_024)
BATCHED_BYTES = 200_000_000
BATCHED_MESSAGES_MAX = 1_000_000
SINGLE_MESSAGES = 4_000
SINGLE_IN_FLIGHT = 256
WARM_UP_MESSAGES = 10_000
TOPIC = "/default/bench"


@dataclass(frozen=True, slots=True)
class Cost:
    """Cost of some messages."""

    count: int
    elapsed_s: float
    broker_s: float

    @property
    def rate(self) -> float:
        return self.count / self.elapsed_s

    @property
    def broker_us(self) -> float:
        return self.broker_s / self.count * 1e6


def run() -> Iterator[Figure]:
    """One broker process with durability `fsync`; one client process (this one), which is a limit of its own."""
    for size in SIZES:
        with tempfile.TemporaryDirectory() as folder:
            flags = ["--durability", "fsync", "--log-level", "warning"]
            with BrokerProcess(Path(folder) / "data", flags=flags) as broker:
                yield from asyncio.run(_measure(broker, size))


async def _measure(broker: BrokerProcess, size: int) -> list[Figure]:
    payload = bytes(size)
    count = min(BATCHED_BYTES // size, BATCHED_MESSAGES_MAX)
    async with await DanubeClientBuilder().service_url(broker.endpoints.service_url).build() as client:
        async with _producer(client) as producer:
            await producer.send_many([payload] * WARM_UP_MESSAGES)
            single = await _cost(broker, lambda: _send_singly(producer, payload))
            batched = await _cost(broker, lambda: producer.send_many(payload for _ in range(count)))
        async with _producer(client, deduplicates=True) as producer:
            once = await _cost(broker, lambda: producer.send_many(payload for _ in range(count)))
        fetched = await _cost(broker, lambda: _fetch(client))
    note = (
        f"{batched.rate / single.rate:,.0f} x single sends, {single.broker_us / batched.broker_us:,.0f} x less broker"
    )
    return [
        *_figures(f"SendMessage, fsync, {size} B, {SINGLE_IN_FLIGHT} in flight", single),
        *_figures(f"send_many, fsync, {size} B", batched, note),
        *_figures(
            f"the same with de-duplication, {size} B",
            once,
            f"{once.broker_us / batched.broker_us:.2f} x the broker's time",
        ),
        *_figures(f"fetch, {size} B, a Message each", fetched),
    ]


def _producer(client: DanubeClient, *, deduplicates: bool = False) -> Producer:
    builder = client.new_producer().with_topic(TOPIC).with_name("bench")
    if deduplicates:
        builder.with_deduplication()
    return builder.with_dispatch_strategy(DispatchStrategy.RELIABLE).build()


async def _send_singly(producer: Producer, payload: bytes) -> int:
    left = iter(range(SINGLE_MESSAGES))

    async def send() -> None:
        for _ in left:
            await producer.send(payload)

    await asyncio.gather(*(send() for _ in range(SINGLE_IN_FLIGHT)))
    return SINGLE_MESSAGES


async def _fetch(client: DanubeClient) -> int:
    count = 0
    async with aclosing(client.fetch(TOPIC)) as messages:
        async for _ in messages:
            count += 1
    return count


async def _cost(broker: BrokerProcess, work: Callable[[], Awaitable[int]]) -> Cost:
    used_s, started_s = broker.cpu_s(), time.monotonic()
    count = await work()
    return Cost(count, time.monotonic() - started_s, broker.cpu_s() - used_s)


def _figures(name: str, cost: Cost, note: str = "") -> Iterator[Figure]:
    yield Figure(name, cost.rate, "msg/s", note)
    yield Figure(f"{name}: broker processor time", cost.broker_us, "us/msg")
