"""Peers on this machine, in turns: ours beside NATS JetStream, Redis Streams and Kafka, from producer to consumer.

Each syncs before it acknowledges: `durability: fsync` here, `sync_interval: always` (NATS), `appendfsync always`
(Redis), `flush.messages=1` (Kafka). One that cannot be had here is skipped, with the reason. The clients are those of
`danube bench --compare`, in this process; the broker's processor time is its process's.
"""

import asyncio
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from bench.peer_servers import KafkaServer, NatsServer, PeerServer, RedisServer
from bench.result import Figure, median, percentile_ms
from danube.cli.compare.compare import connected
from danube.cli.compare.peer import Peer, latencies_s, throughput
from danube.client import DanubeClientBuilder
from danube.model.errors import UnavailableError
from danube.testing.processes.broker import BrokerProcess
from danube.testing.processes.child import cpu_s

SIZES = (100, 1_024)
OTHERS: tuple[type[PeerServer], ...] = (NatsServer, RedisServer, KafkaServer)


@dataclass(frozen=True, slots=True)
class Load:
    """Messages of one run, and runs of each."""

    messages: int
    synced_each: int
    """Of NATS, which syncs each message."""
    latency_messages: int
    runs: int
    rate: int = 1_000


FULL = Load(messages=200_000, synced_each=5_000, latency_messages=3_000, runs=5)
QUICK = Load(messages=500, synced_each=100, latency_messages=50, runs=1)


@dataclass(slots=True)
class Runs:
    """Figures of one broker, one of each run."""

    rates: dict[int, list[float]] = field(default_factory=lambda: {size: [] for size in SIZES})
    """By the size of messages."""
    cpu_us: dict[int, list[float]] = field(default_factory=lambda: {size: [] for size in SIZES})
    p50_ms: list[float] = field(default_factory=list)
    p99_ms: list[float] = field(default_factory=list)


def run() -> Iterator[Figure]:
    """All peers that can be had."""
    yield from _figures(FULL)


def run_quick() -> Iterator[Figure]:
    """A few messages."""
    yield from _figures(QUICK)


def _figures(load: Load) -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as name, ExitStack() as running:
        flags = ["--durability", "fsync", "--log-level", "warning"]
        broker = running.enter_context(BrokerProcess(Path(name) / "danube", flags=flags))
        servers = list(_started(Path(name), running))
        pids = [broker.pid, *(server.pid for server in servers)]
        url = broker.endpoints.service_url
        measured = asyncio.run(_measure(url, [server.url for server in servers], pids, load))
    names = list(measured)
    for name, runs in measured.items():
        for size in SIZES:
            rate = median(runs.rates[size])
            beside = median(measured[names[0]].rates[size]) / rate
            yield Figure(f"{name}: end to end, {size} bytes", rate, "messages/s", f"ours to it: {beside:.2f}")
            yield Figure(f"{name}: broker's processor time, {size} bytes", median(runs.cpu_us[size]), "us/message")
        yield Figure(f"{name}: {load.rate} a second, {SIZES[-1]} bytes: p50", median(runs.p50_ms), "ms")
        yield Figure(f"{name}: {load.rate} a second, {SIZES[-1]} bytes: p99", median(runs.p99_ms), "ms")


def _started(folder: Path, running: ExitStack) -> Iterator[PeerServer]:
    for kind in OTHERS:
        reason = kind.missing()
        if reason is None:
            try:
                server = running.enter_context(kind(folder / kind.name))
                yield server
                continue
            except UnavailableError as error:
                reason = str(error)
        print(f"  {kind.name} is skipped: {reason}", file=sys.stderr)


async def _measure(url: str, others: list[str], pids: list[int], load: Load) -> dict[str, Runs]:
    async with (
        await DanubeClientBuilder().service_url(url).build() as client,
        connected(client, "/default/peers", others) as peers,
    ):
        found = {peer.name: Runs() for peer in peers}
        for _ in range(load.runs):
            for size in SIZES:
                for peer, pid in zip(peers, pids, strict=True):
                    await _run(peer, pid, size, load, found[peer.name])
            for peer in peers:
                times_s = await latencies_s(peer, load.rate, load.latency_messages, SIZES[-1])
                found[peer.name].p50_ms.append(percentile_ms(times_s, 50))
                found[peer.name].p99_ms.append(percentile_ms(times_s, 99))
        return found


async def _run(peer: Peer, pid: int, size: int, load: Load, runs: Runs) -> None:
    messages = load.synced_each if peer.name.startswith("NATS") else load.messages
    before_s = cpu_s(pid)
    done = await throughput(peer, messages, size)
    runs.rates[size].append(done.rate)
    runs.cpu_us[size].append((cpu_s(pid) - before_s) / messages * 1e6)
