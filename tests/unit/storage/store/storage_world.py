"""A broker's storage on a simulated or a real disk, its metadata in memory, and what tests ask of both."""

import asyncio
import random
from collections.abc import Callable, Sequence
from typing import Any

from danube.metadata.memory import MemoryStore
from danube.metadata.records.storage import StorageRecords
from danube.metadata.store import Transaction
from danube.runtime.blocking import BlockingRunner, BlockingThread, InlineRunner
from danube.runtime.disk import Disk
from danube.runtime.rng import SystemRng
from danube.storage.batches.batch import encode_messages
from danube.storage.batches.stored_batch import StoredBatch
from danube.storage.environment import StorageEnvironment
from danube.storage.journal import JournalSettings
from danube.storage.log.topic_log import TopicLog
from danube.storage.retention.rules import Retention
from danube.storage.settings import StorageSettings
from danube.storage.store import Storage
from danube.testing.simulated.clock import SimClock, end_tasks
from danube.testing.simulated.disk import SimDisk
from tests.unit.storage.journal_world import BROKER, Told, in_batch

FILE_BYTES = 4_096
ROUND_BYTES = 1_500
SEGMENT_BYTES = 4_096
KEEP_ALL = Retention(None, None)


class StorageWorld:
    """What one broker's storage lives in, over any number of starts."""

    def __init__(self, disk: Disk | None = None, *, threads: bool = False, **settings: Any) -> None:
        self.disk: Disk = disk if disk is not None else SimDisk()
        self.clock = SimClock()
        self.rng = SystemRng(seed=1)
        self.metadata = MemoryStore(self.clock)
        self.records = StorageRecords(self.metadata, self.rng)
        self.settings = storage_settings(**settings)
        names = ("runner", "read_runner", "flush_runner")
        self.runners: dict[str, BlockingRunner] = {
            name: BlockingThread(name) if threads else InlineRunner() for name in names
        }
        self._open: list[Storage] = []

    @property
    def sim(self) -> SimDisk:
        assert isinstance(self.disk, SimDisk)
        return self.disk

    @property
    def storage(self) -> Storage:
        """The one that is open."""
        return self._open[-1]

    async def open(self, *, read_runner: BlockingRunner | None = None, **more: Any) -> Storage:
        runners: dict[str, Any] = {**self.runners, **({"read_runner": read_runner} if read_runner is not None else {})}
        environment = StorageEnvironment(
            disk=self.disk,
            clock=self.clock,
            rng=self.rng,
            records=self.records,
            broker_id=BROKER,
            settings=self.settings,
            **runners,
        )
        storage = await Storage.open(environment, **more)
        self._open.append(storage)
        return storage

    async def reopen(self, **more: Any) -> Storage:
        """Close, then open again."""
        await self.close()
        return await self.open(**more)

    async def after_power_cut(self, **more: Any) -> Storage:
        """End this life as a power cut does, and begin the next on what is left."""
        self.disk = self.sim.power_cut()
        self._open.clear()
        await end_tasks(self.clock)
        return await self.open(**more)

    async def close(self) -> None:
        while self._open:
            await self._open.pop().close()

    async def end(self) -> None:
        """Close everything, threads too."""
        await self.close()
        for runner in self.runners.values():
            await runner.aclose()
        await self.metadata.close()

    def files(self, folder: str) -> list[str]:
        """The names of files in a folder; none where there is no folder."""
        try:
            return self.disk.list(folder)
        except FileNotFoundError:
            return []


class LateAnswer:
    """The next transaction is carried out at once, and its answer comes when it is let go."""

    def __init__(self, metadata: MemoryStore) -> None:
        self._metadata = metadata
        self._transact = metadata.transact
        self._let_go = asyncio.Event()
        metadata.transact = self._carry_out  # type: ignore[method-assign]

    def let_go(self) -> None:
        self._let_go.set()

    async def _carry_out(self, transaction: Transaction) -> int:
        self._metadata.transact = self._transact  # type: ignore[method-assign]
        revision = await self._transact(transaction)
        await self._let_go.wait()
        return revision


def storage_settings(**more: Any) -> StorageSettings:
    """Small files and small segments, so that few records make several of both."""
    file_bytes = more.pop("file_bytes_max", FILE_BYTES)
    journal = {"file_bytes_max": file_bytes, "round_bytes_max": ROUND_BYTES, **more.pop("journal", {})}
    return StorageSettings(
        journal=JournalSettings(**journal), segment_bytes_max=more.pop("segment_bytes_max", SEGMENT_BYTES), **more
    )


async def fill(log: TopicLog, count: int, *, size: int = 200, first: int = 0) -> list[bytes]:
    """Append numbered records, each in a batch of its own, a few in a round; answers them."""
    records = [record_of(log.topic_id, number, size) for number in range(first, first + count)]
    told = [Told() for _ in records]
    for record, one in zip(records, told, strict=True):
        log.append_batch(encode_messages([record]), one)
    offsets = [await one.offset() for one in told]
    assert offsets == list(range(log.durable_end - count, log.durable_end))
    return records


def record_of(topic_id: int, number: int, size: int = 200) -> bytes:
    """The same bytes for the same numbers."""
    return b"%d/%d/" % (topic_id, number) + random.Random(number).randbytes(size)


async def read_all(log: TopicLog, offset: int | None = None, *, bytes_max: int = 1_000) -> list[bytes]:
    """Every record from an offset (or the start) to the durable end; offsets are checked."""
    at = log.start_offset if offset is None else offset
    found: list[bytes] = []
    while batches := await log.read(at, bytes_max):
        found += records_from(batches, at)
        at = batches[-1].end_offset
    assert at == log.durable_end
    return found


def records_from(batches: Sequence[StoredBatch], offset: int) -> list[bytes]:
    """The records from `offset` on, in batches that follow on each other."""
    found: list[bytes] = []
    for batch in batches:
        assert batch.base_offset <= offset < batch.end_offset
        found += in_batch(batch, offset)
        offset = batch.end_offset
    return found


async def flush_all(storage: Storage) -> None:
    """Have everything that is in the journal cut, and wait until its files are gone."""
    await storage.journal.rotate()
    for _ in storage.journal.closed_files():
        report = await storage.flush()
        assert not report.failed
    assert not storage.journal.closed_files()


def always(retention: Retention) -> Callable[[int], Retention]:
    """The same for every topic."""
    return lambda _: retention
