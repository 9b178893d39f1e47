"""Metadata, store by store: changes, reads, watches, memory.

Each store runs as it does in production, its members in processes of their own on this machine, and is measured from
inside one member, which is not the leader where there is one. The measure of changes is a loop that writes a few bytes
and syncs them, on the same disk in the same run.
"""

import asyncio
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.result import Figure, median, percentile_ms
from danube.model.errors import UnavailableError
from lab.metadata.clusters import CLUSTERS, ProcessCluster
from lab.metadata.member import MemberProcess

PROGRAM = "bench.metadata_program"
IN_FLIGHT = (1, 32)


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """Size of the workload."""

    keys: Sequence[int] = (100, 100_000)
    writes: int = 200
    """One after the other; ten times as many where more are in flight."""
    reads: int = 20_000
    """Local ones."""
    linearizable_reads: int = 100
    """One after the other; as many of each where more are in flight."""
    stamps: int = 200
    repeats: int = 3
    plain: int = 200


FULL = Size()
QUICK = Size(keys=(50,), writes=10, reads=200, linearizable_reads=5, stamps=10, repeats=1, plain=20)


class MemoryProcess(ProcessCluster):
    """The store in memory, in a process like the others."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, 1)

    def _arguments(self, node: int) -> Sequence[str]:  # noqa: ARG002 - there is one
        return ("memory",)


Maker = Callable[[Path], ProcessCluster]
STORES: dict[str, Maker] = {"memory": MemoryProcess, **CLUSTERS}


def run(size: Size = FULL) -> Iterator[Figure]:
    """Every store that can be had."""
    with tempfile.TemporaryDirectory() as folder:
        for name, make in STORES.items():
            below = Path(folder) / name
            below.mkdir()
            plain = _plain_rate(below, size.plain)  # anew for each, as near to it as can be
            yield Figure(f"plain write and sync of 100 bytes, before {name}", plain, "1/s")
            try:
                yield from asyncio.run(_measure(name, make, below, size, plain))
            except UnavailableError as error:
                yield Figure(f"{name} is not there", 0, "figures", str(error).splitlines()[0])


def run_quick() -> Iterator[Figure]:
    """To see that it runs."""
    return run(QUICK)


async def _measure(name: str, make: Maker, folder: Path, size: Size, plain: float) -> Sequence[Figure]:
    cluster = make(folder)
    cluster.program, cluster.log_entries = PROGRAM, 0
    try:
        await cluster.start()
        led, leading = await _roles(cluster)
        measuring = _Measuring(name, led, leading, size, plain)
        return [figure for keys in size.keys for figure in await measuring.all(keys)]
    finally:
        await cluster.close()


async def _roles(cluster: ProcessCluster) -> tuple[MemberProcess, MemberProcess]:
    """The member that is measured (a follower if any), and the one that watches: the leader, or any other."""
    members = list(cluster.members())
    leader = await cluster.leader()
    first = leader if leader is not None else members[0]
    last = next((member for member in reversed(members) if member != first), first)
    return cluster.process(last), cluster.process(first)


@dataclass(frozen=True, slots=True)
class _Measuring:
    """The measurements of one store."""

    name: str
    measured: MemberProcess
    other: MemberProcess
    size: Size
    plain: float

    async def all(self, keys: int) -> list[Figure]:
        """All figures with so many keys."""
        title, size = f"{self.name}, {keys:,} keys", self.size
        await self.measured.call("fill", keys)
        figures = []
        for in_flight in IN_FLIGHT:
            count = size.writes * (10 if in_flight > 1 else 1)
            rate, note = await self._rate("writes", count, in_flight, keys)
            more = f"{note}, {rate / self.plain:.2f} of plain"
            figures.append(Figure(f"{title}: changes, {in_flight} in flight", rate, "1/s", more))
        rate, note = await self._rate("reads", size.reads, 1, keys, 0)
        figures.append(Figure(f"{title}: local reads", rate, "1/s", note))
        for in_flight in IN_FLIGHT:
            rate, note = await self._rate("reads", size.linearizable_reads * in_flight, in_flight, keys, 1)
            figures.append(Figure(f"{title}: linearizable reads, {in_flight} in flight", rate, "1/s", note))
        figures.append(await self._watching(title))
        resident = await self.measured.call("resident")
        return [*figures, Figure(f"{title}: memory of the member", resident / 1e6, "MB")]

    async def _rate(self, method: str, count: int, *arguments: int) -> tuple[float, str]:
        """The median of the runs, and the latencies of all of them."""
        rates, latencies = [], list[float]()
        for _ in range(self.size.repeats):
            elapsed_s, *each = await self.measured.call(method, count, *arguments)
            rates.append(count / elapsed_s)
            latencies += each
        return median(rates), _latency(latencies)

    async def _watching(self, title: str) -> Figure:
        """From a change at one member to the watcher at another, or at the same where there is one."""
        await self.other.call("follow")
        await self.measured.call("stamp", self.size.stamps)
        latencies = await self.other.call("followed")
        where = "at its own" if self.other is self.measured else "at another member's"
        p50 = percentile_ms(latencies, 50) if latencies else 0
        return Figure(f"{title}: change to a watch {where}, p50", p50 * 1e3, "us", _latency(latencies))


def _latency(latencies: Sequence[float]) -> str:
    if not latencies:
        return "nothing arrived"
    return f"p50 {percentile_ms(latencies, 50):.3f} ms, p99 {percentile_ms(latencies, 99):.3f} ms"


def _plain_rate(folder: Path, count: int) -> float:
    """By the median: other work on the disk makes the mean wander."""
    descriptor = os.open(folder / "plain", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    each_s = []
    for _ in range(count):
        began_s = time.monotonic()
        os.write(descriptor, bytes(100))
        os.fdatasync(descriptor)
        each_s.append(time.monotonic() - began_s)
    os.close(descriptor)
    return 1 / median(each_s)
