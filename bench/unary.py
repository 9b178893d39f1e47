"""SendMessage over gRPC: messages a second, latency, and the broker's processor time for each."""

import asyncio
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench.result import Figure, percentile_ms
from danube.model.topic import TopicName
from danube.rpc.grpc_carrier import GrpcCarrier
from danube.runtime.clock import SystemClock
from danube.testing.peer import Peer
from danube.testing.process import BrokerProcess

IN_FLIGHT = (1, 16, 64)
PAYLOAD = bytes(1_024)
RUN_S = 4.0
WARM_UP_S = 1.0
TOPIC = TopicName("default", "bench")


def run() -> Iterator[Figure]:
    """One broker process per durability; one client process (this one), which is a limit of its own."""
    for durability in ("fsync", "os"):
        with tempfile.TemporaryDirectory() as folder:
            flags = ["--durability", durability, "--log-level", "warning"]
            with BrokerProcess(Path(folder) / "data", flags=flags) as broker:
                for in_flight in IN_FLIGHT:
                    yield from _figures(f"{durability}, {in_flight} in flight", *asyncio.run(_load(broker, in_flight)))


def _figures(name: str, count: int, elapsed_s: float, cpu_s: float, latencies_s: list[float]) -> Iterator[Figure]:
    note = f"p50 {percentile_ms(latencies_s, 50):.2f} ms, p99 {percentile_ms(latencies_s, 99):.2f} ms"
    yield Figure(f"SendMessage 1 KiB, {name}", count / elapsed_s, "msg/s", note)
    yield Figure(f"broker processor time, {name}", cpu_s / count * 1e6, "us/msg")


async def _load(broker: BrokerProcess, in_flight: int) -> tuple[int, float, float, list[float]]:
    channel = GrpcCarrier(SystemClock()).connect(broker.endpoints.broker)
    peer = Peer(channel)
    identity = await peer.create_producer(TOPIC)

    async def send_until(end_s: float, latencies_s: list[float]) -> None:
        while (before := time.monotonic()) < end_s:
            await peer.send(TOPIC, identity, PAYLOAD)
            latencies_s.append(time.monotonic() - before)

    async def round_of(duration_s: float) -> list[float]:
        latencies_s: list[float] = []
        end_s = time.monotonic() + duration_s
        await asyncio.gather(*(send_until(end_s, latencies_s) for _ in range(in_flight)))
        return latencies_s

    try:
        await round_of(WARM_UP_S)
        cpu_s, started_s = broker.cpu_s(), time.monotonic()
        latencies_s = await round_of(RUN_S)
        return len(latencies_s), time.monotonic() - started_s, broker.cpu_s() - cpu_s, latencies_s
    finally:
        await channel.close()
