"""Storage against the same bytes handled plainly: appends, the start of a broker, reads.

Appends: some writers send batches, each waits for the acknowledgement of its last one. The measure is a loop that
writes as many bytes in as many rounds, each one `writev` and one `fdatasync`, on the same disk. Both take turns. With
one writer the same stands beside it done in another thread, each round handed over by an event loop and waited for: no
broker whose loop never waits for the disk can be faster.
"""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bench import storage_reads
from bench.result import Figure, median
from bench.storage_load import batch_of, opened, publish
from danube.runtime.blocking import BlockingThread

PROGRAM = Path(__file__).with_name("recovery_program.py")
ROUNDS = {1: 300, 16: 150, 256: 60}


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """Size of the workload."""

    rounds: Mapping[int, int] = field(default_factory=lambda: ROUNDS)
    """Batches of each writer, by how many writers there are."""
    topics: Sequence[int] = (1, 100, 1_000)
    batch_bytes: Sequence[int] = (1_024, 64 * 1_024)
    many: int = 1_000
    """Batches a round when topics are compared."""
    repeats: int = 9
    """Of appends. With three, a disk that others share too moved a median by a third from run to run."""
    journals: Sequence[tuple[int, int]] = ((128 << 20, 1), (128 << 20, 100), (1 << 30, 100))
    """Bytes, and topics."""
    reads: storage_reads.Size = storage_reads.FULL


FULL = Size()
QUICK = Size(
    rounds={1: 5, 16: 2},
    topics=(1, 10),
    batch_bytes=(1_024,),
    many=50,
    repeats=1,
    journals=((1 << 20, 10),),
    reads=storage_reads.QUICK,
)


@dataclass(frozen=True, slots=True)
class Appended:
    """Result of one run."""

    elapsed_s: float
    rounds: int
    bytes_written: int
    batch_bytes: int


def run(size: Size = FULL) -> Iterator[Figure]:
    """Every part in turn."""
    for batch_bytes in size.batch_bytes:
        for writers in size.rounds:
            for topics in size.topics:
                yield _appends(writers, topics, batch_bytes, size)
    yield from _topics_compared(size)
    for journal_bytes, topics in size.journals:
        with tempfile.TemporaryDirectory() as folder:
            yield from _starts(Path(folder), journal_bytes, topics)
    yield from storage_reads.run(size.reads)


def run_quick() -> Iterator[Figure]:
    """To see that it runs."""
    return run(QUICK)


def _appends(writers: int, topics: int, batch_bytes: int, size: Size) -> Figure:
    """Both ways, taking turns, medians."""
    each = size.rounds[writers]
    rates, shares, handed_over = [], [], []
    for _ in range(size.repeats):
        with tempfile.TemporaryDirectory() as folder:
            ours = asyncio.run(_journal(Path(folder), writers, topics, batch_bytes, each))
            shares.append(_plain(Path(folder), ours) / ours.elapsed_s)
            if writers == 1:
                handed_over.append(asyncio.run(_handed_over(Path(folder), ours)) / ours.elapsed_s)
        rates.append(writers * each / ours.elapsed_s)
    rate = median(rates)
    name = f"append {batch_bytes >> 10:>2} KiB, {writers:>3} writers, {topics:>4} topics"
    in_one = writers * each / ours.rounds
    note = f"{rate * batch_bytes / 1e6:,.0f} MB/s, {in_one:,.1f} a round, {median(shares):.2f} of plain"
    return Figure(
        name, rate, "batches/s", note + (f", {median(handed_over):.2f} of handed over" if handed_over else "")
    )


def _topics_compared(size: Size) -> Iterator[Figure]:
    """Rounds of the same number of batches: of one topic, and of as many topics."""
    many = size.many
    for batch_bytes in size.batch_bytes:
        elapsed: dict[int, list[float]] = {1: [], many: []}
        for _ in range(size.repeats):
            for topics, found in elapsed.items():
                with tempfile.TemporaryDirectory() as folder:
                    found.append(asyncio.run(_journal(Path(folder), many, topics, batch_bytes, 10)).elapsed_s)
        one, all_of_them = median(elapsed[1]), median(elapsed[many])
        name = f"append {batch_bytes >> 10:>2} KiB, {many} writers, {many} topics to 1 topic"
        yield Figure(name, one / all_of_them, "ratio", f"{many * 10 / all_of_them:,.0f} batches/s")


async def _journal(folder: Path, writers: int, topics: int, batch_bytes: int, each: int) -> Appended:
    async with opened(folder) as storage:
        logs = [storage.topic(index + 1, 1) for index in range(topics)]
        body = batch_of(batch_bytes)
        await publish(logs, writers, body, max(1, each // 10))
        before, started_s = storage.stats.journal, time.monotonic()
        await publish(logs, writers, body, each)
        after, elapsed_s = storage.stats.journal, time.monotonic() - started_s
    return Appended(elapsed_s, after.rounds - before.rounds, after.bytes_written - before.bytes_written, batch_bytes)


def _plain(folder: Path, ours: Appended) -> float:
    """The same bytes in as many rounds."""
    with _rounds_into(folder / "plain", ours) as write:
        started_s = time.monotonic()
        for _ in range(ours.rounds):
            write()
        return time.monotonic() - started_s


async def _handed_over(folder: Path, ours: Appended) -> float:
    """The same, each round handed to a thread."""
    thread = BlockingThread("plain")
    with _rounds_into(folder / "handed over", ours) as write:
        await thread.run(lambda: None)
        started_s = time.monotonic()
        for _ in range(ours.rounds):
            await thread.run(write)
        elapsed_s = time.monotonic() - started_s
    await thread.aclose()
    return elapsed_s


@contextmanager
def _rounds_into(path: Path, ours: Appended) -> Iterator[Callable[[], None]]:
    """Average bytes of a round in a file: one batch again and again, as the writers do."""
    batches, rest = divmod(ours.bytes_written // ours.rounds, ours.batch_bytes)
    block = [os.urandom(ours.batch_bytes)] * batches + [os.urandom(rest)]
    descriptor = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND)

    def write() -> None:
        os.writev(descriptor, block)
        os.fdatasync(descriptor)

    try:
        yield write
    finally:
        os.close(descriptor)


def _starts(folder: Path, journal_bytes: int, topics: int) -> Iterator[Figure]:
    """On a journal of this size with batches of 1 KiB, that was closed, and once more without its indexes."""
    asyncio.run(_fill(folder, journal_bytes, topics))
    name = f"start, {journal_bytes >> 20:,} MiB journal, {topics} topics"
    with_indexes = _start(folder)
    yield Figure(name, with_indexes["opened_s"], "s", f"{with_indexes['rss_mb']:,.0f} MB more memory")
    for index in folder.glob("journal/*.index"):
        index.unlink()
    without = _start(folder)
    yield Figure(f"{name} without indexes", without["opened_s"], "s", f"{without['rss_mb']:,.0f} MB more memory")


async def _fill(folder: Path, journal_bytes: int, topics: int) -> None:
    body = batch_of(1_024)
    async with opened(folder) as storage:
        logs = [storage.topic(index + 1, 1) for index in range(topics)]
        while storage.stats.journal.size_bytes < journal_bytes:
            await publish(logs, 4_000, body, 1)


def _start(folder: Path) -> dict[str, float]:
    """In a process of its own, for its memory."""
    ran = subprocess.run([sys.executable, str(PROGRAM), str(folder)], stdout=subprocess.PIPE, check=True, timeout=300)
    result: dict[str, float] = json.loads(ran.stdout)
    return result
