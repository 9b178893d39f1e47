"""Reading topics from their first offset to their last, wherever they are kept, against a plain `read` of a file.

The file holds the same bodies one after the other, and is read a mebibyte at a time. Both take turns, and everything is
in the page cache: what is compared is the work, which is the same on every disk. Beside it stands the same with all
files dropped from the page cache before each turn: what is compared then is how well the disk is kept busy. "Of its
files" compares with a plain read of the very files that the batches are in, one after the other: many small ones, where
many topics have little each.

The plain read hands its mebibyte to nobody. "Summed" compares with reading body by body, checking the CRC-32C of each
as the broker must, and keeping the last mebibyte of them: no reader that answers checked batches can be faster.
"""

import asyncio
import os
import tempfile
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.result import Figure, median
from bench.storage_load import batch_of, opened, publish
from danube.model.limits.broker import READ_BYTES_MAX
from danube.runtime.checksum import is_intact
from danube.storage.log.topic_log import TopicLog
from danube.storage.store import Storage

CUT_TIMEOUT_S = 180
TIERS = ("cache", "journal", "segments")


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """Size of the workload."""

    total_bytes: int = 64 << 20
    topic_bytes_min: int = 4 << 20
    """Of each topic, so that a reader has something to go on with."""
    file_bytes: int = 8 << 20
    """Of a journal file."""
    batch_bytes: Sequence[int] = (1_024, 64 * 1_024)
    topics: Sequence[int] = (1, 100)
    """Whose batches come by turns."""
    rounds: int = 5

    def bytes_of(self, topics: int) -> int:
        """Bytes of this many topics together."""
        return max(self.total_bytes, topics * self.topic_bytes_min)


FULL = Size()
QUICK = Size(
    total_bytes=2 << 20, topic_bytes_min=1 << 17, file_bytes=1 << 20, batch_bytes=(1_024,), topics=(1, 10), rounds=1
)


def run(size: Size = FULL) -> Iterator[Figure]:
    """Each tier, size of batches and number of topics in turn."""
    for batch_bytes in size.batch_bytes:
        for topics in size.topics:
            for tier in TIERS:
                with tempfile.TemporaryDirectory() as folder:
                    yield asyncio.run(_reads(Path(folder), tier, topics, batch_bytes, size))


async def _reads(folder: Path, tier: str, topics: int, batch_bytes: int, size: Size) -> Figure:
    total_bytes = size.bytes_of(topics)
    cache_bytes = 4 * total_bytes if tier == "cache" else 0
    async with opened(folder, cache_bytes=cache_bytes, file_bytes=size.file_bytes) as storage:
        logs = [storage.topic(number + 1, 1) for number in range(topics)]
        body, turns = batch_of(batch_bytes), total_bytes // batch_bytes // topics
        await publish(logs, topics, body, turns)
        if tier == "segments":
            await _cut(storage, logs, body)
        plain = folder / "plain"
        plain.write_bytes(body * turns * topics)
        expected_bytes = len(body) * turns * topics
        hot = [(await _read(logs, expected_bytes), _read_plain([plain])) for _ in range(size.rounds)]
        summed = [(await _read(logs, expected_bytes), _read_summed(plain, len(body))) for _ in range(size.rounds)]
        places = [[plain], _files_of(folder / tier)] if tier != "cache" else []
        cold = [
            [await _read_dropped(folder, logs, expected_bytes, each) for _ in range(size.rounds)] for each in places
        ]
    name = f"read {batch_bytes >> 10:>2} KiB batches, {topics:>3} topics by turns, {tier}"
    note = f"{_share(hot):.2f} of plain, {_share(summed):.2f} of plain summed"
    if cold:
        note += f"; from the disk {_share(cold[0]):.2f}, {_share(cold[1]):.2f} of its files"
    return Figure(name, expected_bytes / median([ours_s for ours_s, _ in hot]) / 1e6, "MB/s", note)


def _share(rounds: Sequence[tuple[float, float]]) -> float:
    """Our rate by the plain one, of the seconds that both took."""
    return median([plain_s / ours_s for ours_s, plain_s in rounds])


async def _read_dropped(
    folder: Path, logs: Sequence[TopicLog], expected_bytes: int, plain: Sequence[Path]
) -> tuple[float, float]:
    """Seconds of ours and of the plain way, nothing in the page cache before."""
    _drop_cached(folder)
    ours_s = await _read(logs, expected_bytes)
    _drop_cached(folder)
    return ours_s, _read_plain(plain)


def _files_of(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _drop_cached(folder: Path) -> None:
    for path in _files_of(folder):
        descriptor = os.open(path, os.O_RDONLY)
        os.fsync(descriptor)  # what is not on the disk yet cannot be dropped
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)


async def _cut(storage: Storage, logs: Sequence[TopicLog], body: bytes) -> None:
    """Have all there is in segments: another topic fills the journal's last file, so that it is closed."""
    filler, end = storage.topic(len(logs) + 1, 1), storage.stats.journal.files
    while storage.stats.journal.files == end:
        await publish([filler], 16, body, 4)
    async with asyncio.timeout(CUT_TIMEOUT_S):
        while any(log.offset_in_journal(0) < log.durable_end for log in logs):  # it waits for the index of the file
            await storage.flush()


async def _read(logs: Sequence[TopicLog], expected_bytes: int) -> float:
    total, started_s = 0, time.monotonic()
    for log in logs:
        offset = log.start_offset
        while batches := await log.read(offset, READ_BYTES_MAX):
            offset = batches[-1].end_offset
            total += sum(len(batch.body) for batch in batches)
    elapsed_s = time.monotonic() - started_s
    if total != expected_bytes:
        raise RuntimeError(f"read {total} bytes instead of {expected_bytes}")
    return elapsed_s


def _read_plain(paths: Sequence[Path]) -> float:
    started_s = time.monotonic()
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        while os.read(descriptor, READ_BYTES_MAX):
            pass
        os.close(descriptor)
    return time.monotonic() - started_s


def _read_summed(path: Path, body_bytes: int) -> float:
    kept: deque[bytes] = deque(maxlen=max(1, READ_BYTES_MAX // body_bytes))
    descriptor, started_s = os.open(path, os.O_RDONLY), time.monotonic()
    while body := os.read(descriptor, body_bytes):
        if not is_intact(body):
            raise RuntimeError(f"a body of {path} is not what was written")
        kept.append(body)
    elapsed_s = time.monotonic() - started_s
    os.close(descriptor)
    return elapsed_s
