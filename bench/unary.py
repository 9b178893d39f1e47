"""The compatible path, call by call, over both engines in one run: messages a second and the broker's processor time.

Two brokers run, one for each engine, measured in turns by the same client; figures are medians. Rates say something of
a quiet machine only, and of a client in Python; processor time for each message holds elsewhere, too.
"""

import asyncio
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.result import Figure, median, percentile_ms
from danube.model.calls.client import OutgoingMessage
from danube.model.topic import TopicName
from danube.rpc.carrier import Channel
from danube.rpc.engines import RpcEngine, client_carrier
from danube.runtime.clock import SystemClock
from danube.testing.peers.client import BROKER_URL, Peer
from danube.testing.processes.broker import BrokerProcess
from danube.testing.processes.child import cpu_s
from danube.wire import encode

IN_FLIGHT = (1, 64)
PAYLOAD = bytes(1_024)
ROUNDS = 5
RUN_S = 2.0
CONSUMED = 3_000
SEND = "/danube.ProducerService/SendMessage"


@dataclass(frozen=True, slots=True)
class Measured:
    """One run."""

    messages: int
    elapsed_s: float
    broker_s: float
    latencies_s: list[float]


Load = Callable[[Channel, TopicName], Coroutine[Any, Any, tuple[float, list[float]]]]


def run() -> Iterator[Figure]:
    """SendMessage with fsync, one and many in flight; then sent, delivered and acknowledged one by one."""
    loads: dict[str, Load] = {f"SendMessage, {count} in flight": _sending(count) for count in IN_FLIGHT}
    loads["send + deliver + ack"] = _consuming
    with ExitStack() as running:
        brokers = {engine: _start(engine, running) for engine in RpcEngine}
        measured: dict[tuple[str, RpcEngine], list[Measured]] = defaultdict(list)
        for number in range(ROUNDS):
            for name, load in loads.items():
                for engine, broker in brokers.items():
                    measured[name, engine].append(_measure(broker, load, number))
        for name in loads:
            for engine in RpcEngine:
                yield from _figures(f"{name}, {engine.value}", measured[name, engine])
            yield from _ratios(name, measured[name, RpcEngine.HTTP2], measured[name, RpcEngine.GRPC])


def _start(engine: RpcEngine, running: ExitStack) -> BrokerProcess:
    folder = running.enter_context(tempfile.TemporaryDirectory())
    flags = ["--durability", "fsync", "--log-level", "warning", "--rpc-engine", engine.value]
    return running.enter_context(BrokerProcess(Path(folder) / "data", flags=flags))


def _measure(broker: BrokerProcess, load: Load, number: int) -> Measured:
    async def go() -> Measured:
        channel = client_carrier(SystemClock(), engine=RpcEngine.HTTP2).connect(broker.endpoints.broker)
        topic = TopicName("default", f"bench-{number}-{time.monotonic_ns()}")
        try:
            used_s = cpu_s(broker.pid)
            elapsed_s, latencies_s = await load(channel, topic)
            return Measured(len(latencies_s), elapsed_s, cpu_s(broker.pid) - used_s, latencies_s)
        finally:
            await channel.close()

    return asyncio.run(go())


def _request(topic: TopicName, producer_id: int) -> bytes:
    return encode.send_message(OutgoingMessage(1, producer_id, str(topic), BROKER_URL, PAYLOAD, 1, "producer"))


def _sending(in_flight: int) -> Load:
    async def load(channel: Channel, topic: TopicName) -> tuple[float, list[float]]:
        request = _request(topic, await Peer(channel).create_producer(topic))
        latencies_s: list[float] = []
        started_s = time.monotonic()
        end_s = started_s + RUN_S

        async def send() -> None:
            while (before_s := time.monotonic()) < end_s:
                await channel.call(SEND, request, timeout_s=30)
                latencies_s.append(time.monotonic() - before_s)

        await asyncio.gather(*(send() for _ in range(in_flight)))
        return time.monotonic() - started_s, latencies_s

    return load


async def _consuming(channel: Channel, topic: TopicName) -> tuple[float, list[float]]:
    """Send and consume at once; acknowledgements are not waited for one by one."""
    peer = Peer(channel)
    request = _request(topic, await peer.create_producer(topic))
    inbox = await peer.receive(await peer.subscribe(topic))
    started_s = time.monotonic()
    latencies_s: list[float] = []
    left = iter(range(CONSUMED))

    async def send() -> None:
        for _ in left:
            await channel.call(SEND, request, timeout_s=30)

    async def acknowledge(offset: int) -> None:
        await peer.acknowledge(topic, offset)
        latencies_s.append(time.monotonic() - started_s)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(64):
            tasks.create_task(send())
        for _ in range(CONSUMED):
            tasks.create_task(acknowledge((await inbox.next()).offset))
    inbox.close()
    return time.monotonic() - started_s, latencies_s


def _figures(name: str, runs: list[Measured]) -> Iterator[Figure]:
    latencies_s = [latency_s for run in runs for latency_s in run.latencies_s]
    note = f"p50 {percentile_ms(latencies_s, 50):.2f} ms, p99 {percentile_ms(latencies_s, 99):.2f} ms"
    rate = median([run.messages / run.elapsed_s for run in runs])
    yield Figure(f"{name}, 1 KiB, fsync", rate, "msg/s", note if "in flight" in name else "")
    yield Figure(f"{name}: broker's processor time", _cost_us(runs), "us/msg")


def _ratios(name: str, ours: list[Measured], grpc: list[Measured]) -> Iterator[Figure]:
    rates = [median([run.messages / run.elapsed_s for run in runs]) for runs in (ours, grpc)]
    yield Figure(f"{name}: messages a second, http2 to grpc", rates[0] / rates[1], "times")
    yield Figure(f"{name}: processor time, grpc to http2", _cost_us(grpc) / _cost_us(ours), "times")


def _cost_us(runs: list[Measured]) -> float:
    return median([run.broker_s / run.messages * 1e6 for run in runs])
