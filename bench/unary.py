"""SendMessage over gRPC: messages a second, latency, and the broker's processor time for each.

Beside it, in the same run, a plain grpc.aio server that echoes: what is left is ours.
"""

import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

from bench.result import Figure, percentile_ms
from danube.model.calls.client import OutgoingMessage
from danube.model.topic import TopicName
from danube.rpc.carrier import Channel
from danube.rpc.grpc.carrier import GrpcCarrier
from danube.runtime.clock import SystemClock
from danube.testing.peers.client import BROKER_URL, Peer
from danube.testing.processes.broker import BrokerProcess
from danube.testing.processes.child import cpu_s
from danube.wire import encode

IN_FLIGHT = (1, 16, 64)
PAYLOAD = bytes(1_024)
RUN_S = 4.0
WARM_UP_S = 1.0
TOPIC = TopicName("default", "bench")
PATH = "/danube.ProducerService/SendMessage"

Prepare = Callable[[Channel], Awaitable[int]]


def run() -> Iterator[Figure]:
    """One server process for each kind; one client process (this one), which is a limit of its own."""
    yield from _echo()
    for durability in ("fsync", "os"):
        with tempfile.TemporaryDirectory() as folder:
            flags = ["--durability", durability, "--log-level", "warning"]
            with BrokerProcess(Path(folder) / "data", flags=flags) as broker:
                yield from _measure(f"SendMessage, {durability}", broker.endpoints.broker, broker.pid, _attach)


def _echo() -> Iterator[Figure]:
    command = [sys.executable, "-m", "bench.echo_program"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        port = server.stdout.readline().strip()
        yield from _measure("plain grpc.aio echo", f"127.0.0.1:{port}", server.pid, _nothing)
        server.communicate("\n", timeout=20)


async def _attach(channel: Channel) -> int:
    return await Peer(channel).create_producer(TOPIC)


async def _nothing(channel: Channel) -> int:  # noqa: ARG001 - there is nothing to prepare
    return 1


def _measure(name: str, address: str, pid: int, prepare: Prepare) -> Iterator[Figure]:
    for in_flight in IN_FLIGHT:
        elapsed_s, used_s, latencies_s = asyncio.run(_load(address, pid, prepare, in_flight))
        count = len(latencies_s)
        note = f"p50 {percentile_ms(latencies_s, 50):.2f} ms, p99 {percentile_ms(latencies_s, 99):.2f} ms"
        yield Figure(f"{name}, 1 KiB, {in_flight} in flight", count / elapsed_s, "msg/s", note)
        yield Figure(f"{name}, {in_flight} in flight: server processor time", used_s / count * 1e6, "us/msg")


async def _load(address: str, pid: int, prepare: Prepare, in_flight: int) -> tuple[float, float, list[float]]:
    channel = GrpcCarrier(SystemClock()).connect(address)
    message = OutgoingMessage(1, await prepare(channel), str(TOPIC), BROKER_URL, PAYLOAD, 1, "producer")
    request = encode.send_message(message)

    async def send_until(end_s: float, latencies_s: list[float]) -> None:
        while (before_s := time.monotonic()) < end_s:
            await channel.call(PATH, request, timeout_s=10)
            latencies_s.append(time.monotonic() - before_s)

    async def round_of(duration_s: float) -> list[float]:
        latencies_s: list[float] = []
        end_s = time.monotonic() + duration_s
        await asyncio.gather(*(send_until(end_s, latencies_s) for _ in range(in_flight)))
        return latencies_s

    try:
        await round_of(WARM_UP_S)
        used_s, started_s = cpu_s(pid), time.monotonic()
        latencies_s = await round_of(RUN_S)
        return time.monotonic() - started_s, cpu_s(pid) - used_s, latencies_s
    finally:
        await channel.close()
