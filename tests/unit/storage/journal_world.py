"""A journal on a simulated disk and clock, and callers that note what they are told."""

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from danube.model.errors import DanubeError
from danube.model.plans.durability import Durability
from danube.runtime.blocking import InlineRunner
from danube.runtime.disk import Disk
from danube.runtime.rng import SystemRng
from danube.storage.batches.batch import records
from danube.storage.batches.stored_batch import StoredBatch
from danube.storage.journal import Journal, JournalSettings
from danube.storage.log.topic_log import TopicLog
from danube.testing.patience import PATIENCE_S
from danube.testing.simulated.clock import SimClock
from danube.testing.simulated.disk import SimDisk

T = TypeVar("T")

BROKER = 7
FIRST_FILE = "journal/0000000001.journal"
SECOND_FILE = "journal/0000000002.journal"
MARK = "journal/mark"


class World:
    """What a broker's journal lives in; `reopen` is the next start on the same disk."""

    def __init__(self, disk: SimDisk | None = None, **settings: Any) -> None:
        self.disk = disk or SimDisk()
        self.clock = SimClock()
        self.settings = JournalSettings(**settings)
        self.writes = HeldRunner()
        self.reads = HeldRunner()
        self._open: list[Journal] = []
        self._later: list[World] = []

    async def open(self, **more: Any) -> Journal:
        journal = await open_journal(self.disk, self.clock, self.settings, self.writes, self.reads, **more)
        self._open.append(journal)
        return journal

    async def reopen(self, **more: Any) -> Journal:
        """Close, then open again."""
        await self.close()
        return await self.open(**more)

    def after(self, disk: SimDisk) -> "World":
        """The world after this one's disk had a power cut or its process a kill."""
        later = World(disk)
        later.settings = self.settings
        self._later.append(later)
        return later

    async def close(self) -> None:
        self.writes.release()
        while self._open:
            await self._open.pop().close()
        while self._later:
            await self._later.pop().close()


async def open_journal(
    disk: Disk,
    clock: SimClock,
    settings: JournalSettings | None = None,
    writes: Any = None,
    reads: Any = None,
    **more: Any,
) -> Journal:
    return await Journal.open(
        disk,
        clock,
        rng=SystemRng(seed=1),
        runner=writes or InlineRunner(),
        read_runner=reads or InlineRunner(),
        settings=settings or JournalSettings(),
        **{"broker_id": BROKER, **more},
    )


class HeldRunner:
    """Runs work inline, but only while it is not held."""

    def __init__(self) -> None:
        self._free = asyncio.Event()
        self._free.set()
        self.works = 0

    def hold(self) -> None:
        self._free.clear()

    def release(self) -> None:
        self._free.set()

    async def run(self, work: Callable[[], T]) -> T:
        self.works += 1
        await self._free.wait()
        return work()

    def rest(self) -> None:
        return None

    def close(self) -> None:
        return None

    async def aclose(self) -> None:
        return None


class Told:
    """A callback that notes what it was called with."""

    def __init__(self) -> None:
        self.all: list[Any] = []
        self._called = asyncio.Event()

    def __call__(self, outcome: Any) -> None:
        self.all.append(outcome)
        self._called.set()

    async def outcome(self) -> Any:
        """The first thing it was called with."""
        async with asyncio.timeout(PATIENCE_S):
            await self._called.wait()
        return self.all[0]

    async def offset(self) -> int:
        outcome = await self.outcome()
        assert isinstance(outcome, int), outcome
        return outcome

    async def error(self) -> DanubeError:
        outcome = await self.outcome()
        assert isinstance(outcome, DanubeError), outcome
        return outcome


def log_in(journal: Journal, topic_id: int, epoch: int, durability: Durability | None = None) -> TopicLog:
    """The log of a topic in the journal alone."""
    return TopicLog(journal.open_topic(topic_id, epoch, durability), journal)


def append(log: TopicLog, record: bytes) -> Told:
    told = Told()
    log.append_record(record, told)
    return told


async def store(log: TopicLog, *several: bytes) -> list[int]:
    """Append records one after the other, each in a round of its own; answers their offsets."""
    return [await append(log, record).offset() for record in several]


async def content(log: TopicLog, offset: int = 0) -> list[bytes]:
    """Every record from `offset` on, with the offsets checked."""
    found: list[bytes] = []
    while batches := await log.read(offset, 1_000_000):
        for batch in batches:
            assert batch.base_offset <= offset < batch.end_offset
            found += in_batch(batch, offset)
            offset = batch.end_offset
    assert offset == log.durable_end
    return found


def in_batch(batch: StoredBatch, offset: int = 0) -> list[bytes]:
    return records(batch.body, max(0, offset - batch.base_offset), batch.count)


def sim_disk(files: dict[str, bytes]) -> SimDisk:
    """A disk with these files, all synced."""
    disk = SimDisk()
    disk.make_folder("journal")
    for name, data in files.items():
        file = disk.create(name)
        file.append([data])
        file.sync()
        file.close()
    disk.sync_folder("journal")
    return disk


def journal_files(disk: SimDisk) -> dict[str, bytes]:
    """The journal's own files, without what stands beside them."""
    return {name: data for name, data in disk.contents().items() if name.endswith(".journal")}
