"""Memory of a broker: idle, after millions of messages were consumed, and after a while without work.

Messages go by batches, and are acknowledged. Single calls, as older clients make them, carry a thousandth as many: they
take hours. What stays beyond idle may be the cache's bound and 30 % of idle.
"""

import asyncio
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

from bench.result import Figure
from danube.client import Consumer, DanubeClient, DanubeClientBuilder, DispatchStrategy, Producer
from danube.model.limits.broker import CACHE_BYTES_MAX, MIB
from danube.testing.processes.broker import BrokerProcess
from danube.testing.processes.child import cpu_s

MESSAGES = 5_000_000
QUICK_MESSAGES = 50_000
TURN = 100_000
SIZE = 100
SINGLE_SHARE = 1_000
LARGE_SHARE = 50
"""One message in so many is sent again with LARGE_SIZE bytes."""
LARGE_SIZE = 4_096
REST_S = 10.0
IDLE_MB_MAX = 70
OVER_IDLE = 1.3


def run() -> Iterator[Figure]:
    """Five million messages, some minutes."""
    yield from _figures(MESSAGES, REST_S)


def run_quick() -> Iterator[Figure]:
    """A few."""
    yield from _figures(QUICK_MESSAGES, 1.0)


def _figures(messages: int, rest_s: float) -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as name:
        flags = ["--durability", "os", "--log-level", "warning"]
        with BrokerProcess(Path(name) / "danube", flags=flags) as broker:
            time.sleep(rest_s / 2)
            idle = broker.resident_bytes()
            used_s = cpu_s(broker.pid)
            peak = asyncio.run(_load(broker, messages))
            used_s = cpu_s(broker.pid) - used_s
            time.sleep(rest_s)
            after = broker.resident_bytes()
    bound = OVER_IDLE * idle + CACHE_BYTES_MAX
    yield Figure("idle", idle / MIB, "MiB", f"goal: below {IDLE_MB_MAX}")
    yield Figure("highest while it worked", peak / MIB, "MiB")
    note = (
        f"bound: {OVER_IDLE} of idle and the cache, {bound / MIB:.0f} MiB: {'within' if after <= bound else 'PASSED'}"
    )
    yield Figure(f"after {messages:,} messages and {rest_s:g} s", after / MIB, "MiB", note)
    yield Figure("processor time", used_s, "s")


async def _load(broker: BrokerProcess, messages: int) -> int:
    """Send and consume so many; answers the most memory that was seen."""
    peak = 0
    async with await DanubeClientBuilder().service_url(broker.endpoints.service_url).build() as client:
        async with _ends(client, "/default/batches", streams=True) as (producer, consumer):
            for _ in range(messages // TURN or 1):
                await _turn(producer, consumer, min(TURN, messages), SIZE)
                peak = max(peak, broker.resident_bytes())
            await _turn(producer, consumer, messages // LARGE_SHARE, LARGE_SIZE)
            peak = max(peak, broker.resident_bytes())
        async with _ends(client, "/default/single", streams=False) as (producer, consumer):
            await _turn(producer, consumer, messages // SINGLE_SHARE, SIZE)
    return max(peak, broker.resident_bytes())


@asynccontextmanager
async def _ends(client: DanubeClient, topic: str, *, streams: bool) -> AsyncIterator[tuple[Producer, Consumer]]:
    building = client.new_producer().with_topic(topic).with_name("p")
    async with building.with_dispatch_strategy(DispatchStrategy.RELIABLE).build() as producer:
        reading = client.new_consumer().with_topic(topic).with_subscription("s").with_consumer_name("c")
        async with reading.with_streams(streams).build() as consumer:
            yield producer, consumer


async def _turn(producer: Producer, consumer: Consumer, messages: int, size: int) -> None:
    async with asyncio.TaskGroup() as both:
        both.create_task(producer.send_many([bytes(size)] * messages))
        both.create_task(_receive(consumer, messages))


async def _receive(consumer: Consumer, messages: int) -> None:
    while messages:
        found = await consumer.receive_many()
        messages -= len(found)
        await consumer.ack_up_to(found[-1], waits=False)
    await consumer.flush_acks()
