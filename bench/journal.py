"""The journal against the same rounds written plainly: one `writev` and one `fdatasync` each."""

import asyncio
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.result import Figure, median
from danube.model.errors import DanubeError
from danube.runtime.blocking import BlockingThread
from danube.runtime.clock import SystemClock
from danube.runtime.disk import LocalDisk
from danube.runtime.rng import SystemRng
from danube.storage.journal.journal import Journal
from danube.storage.log import TopicLog

SHAPES = ((1, 1, 1_024), (1, 64, 1_024), (100, 1, 1_024), (1_000, 1, 1_024), (100, 16, 1_024))
"""(topics, records of each topic in a round, bytes of a record)"""
ROUNDS = 200
REPEATS = 3


def run() -> Iterator[Figure]:
    """Each shape both ways, interleaved, medians of a few repeats."""
    for topics, records, size in SHAPES:
        ours, plain = [], []
        for _ in range(REPEATS):
            with tempfile.TemporaryDirectory() as folder:
                plain.append(_plain(Path(folder), topics * records * size))
                ours.append(asyncio.run(_journal(Path(folder), topics, records, size)))
        name = f"{topics} topics x {records} x {size} B a round"
        rate, limit = ROUNDS / median(ours), ROUNDS / median(plain)
        note = f"{rate * topics * records:,.0f} records/s, {rate * topics * records * size / 1e6:,.0f} MB/s"
        yield Figure(f"group commit, {name}", rate, "rounds/s", note)
        yield Figure(f"plain writev + fdatasync, {name}", limit, "rounds/s", f"journal / plain = {rate / limit:.2f}")


def _plain(folder: Path, size: int) -> float:
    descriptor = os.open(folder / "plain", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    block = [os.urandom(size)]
    started_s = time.monotonic()
    for _ in range(ROUNDS):
        os.writev(descriptor, block)
        os.fdatasync(descriptor)
    elapsed_s = time.monotonic() - started_s
    os.close(descriptor)
    return elapsed_s


async def _journal(folder: Path, topics: int, records: int, size: int) -> float:
    writer, reader = BlockingThread("journal"), BlockingThread("read")
    journal = await Journal.open(
        LocalDisk(folder), SystemClock(), rng=SystemRng(1), runner=writer, read_runner=reader, broker_id=1
    )
    logs = [journal.topic(index + 1, 1) for index in range(topics)]
    record = os.urandom(size)
    started_s = time.monotonic()
    for _ in range(ROUNDS):
        await _one_round(logs, records, record)
    elapsed_s = time.monotonic() - started_s
    await journal.close()
    await writer.aclose()
    await reader.aclose()
    return elapsed_s


async def _one_round(logs: Sequence[TopicLog], records: int, record: bytes) -> None:
    """Append to every topic, and wait until all of it is durable."""
    left = len(logs) * records
    all_done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def done(result: int | DanubeError) -> None:
        nonlocal left
        left -= 1
        if isinstance(result, DanubeError):
            all_done.set_exception(result)
        elif left == 0:
            all_done.set_result(None)

    for log in logs:
        for _ in range(records):
            log.append_record(record, done)
    await all_done
