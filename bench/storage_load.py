"""Shared parts of the storage benchmarks: a storage in a folder, and writers that fill it."""

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from danube.metadata.memory import MemoryStore
from danube.metadata.records.storage import StorageRecords
from danube.model.limits.broker import JOURNAL_FILE_BYTES_MAX
from danube.runtime.blocking import BlockingThread
from danube.runtime.clock import SystemClock
from danube.runtime.disk import LocalDisk
from danube.runtime.rng import SystemRng
from danube.storage.batches.batch import encode_payloads
from danube.storage.environment import StorageEnvironment
from danube.storage.log.topic_log import TopicLog
from danube.storage.settings import JournalSettings, StorageSettings
from danube.storage.store import Storage


def batch_of(size: int) -> bytes:
    """A body with one payload of `size` bytes."""
    return encode_payloads(b"shared", [os.urandom(size)])


@asynccontextmanager
async def opened(
    folder: Path, *, cache_bytes: int = 8 << 20, file_bytes: int = JOURNAL_FILE_BYTES_MAX
) -> AsyncIterator[Storage]:
    """A storage without background work, with threads of its own."""
    threads = [BlockingThread(name) for name in ("journal", "storage-read", "storage-cut")]
    clock, rng = SystemClock(), SystemRng(1)
    environment = StorageEnvironment(
        disk=LocalDisk(folder),
        clock=clock,
        rng=rng,
        records=StorageRecords(MemoryStore(clock), rng),
        runner=threads[0],
        read_runner=threads[1],
        flush_runner=threads[2],
        broker_id=1,
        settings=StorageSettings(journal=JournalSettings(cache_bytes_max=cache_bytes, file_bytes_max=file_bytes)),
    )
    storage = await Storage.open(environment)
    try:
        yield storage
    finally:
        await storage.close()
        for thread in threads:
            await thread.aclose()


async def publish(logs: Sequence[TopicLog], writers: int, body: bytes, each: int) -> None:
    """Have writers go from topic to topic; each sends its next batch when it is told of the one before."""
    left = writers
    over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def write(number: int, rest: int) -> None:
        nonlocal left
        if rest:
            logs[number % len(logs)].append_batch(body, lambda _: write(number + writers, rest - 1))
            return
        left -= 1
        if not left:
            over.set_result(None)

    for number in range(writers):
        write(number, each)
    await over
