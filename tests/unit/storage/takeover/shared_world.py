"""Brokers over one shared folder and one metadata store, all in one process; each can be paused and killed."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from typing import Any, TypeVar

from danube.metadata.memory import MemoryStore
from danube.metadata.records.storage import StorageRecords
from danube.model.errors import JournalFencedError
from danube.model.plans.durability import Durability
from danube.model.subscription import Cursor
from danube.runtime.blocking import InlineRunner
from danube.runtime.rng import SystemRng
from danube.storage.batches.batch import records
from danube.storage.batches.stored_batch import StoredBatch
from danube.storage.journal import Journal, JournalSettings
from danube.storage.journal.folder import JOURNALS, Fence, journal_folder
from danube.storage.journal.index import TopicBase
from danube.storage.takeover.previous_epochs import read_for_restart
from danube.storage.takeover.release import Release
from danube.storage.takeover.steps import PROTOCOL, Protocol
from danube.storage.takeover.takeover import AcquiredTopic, Takeover
from danube.testing.simulated.clock import SimClock
from danube.testing.simulated.disk import MachineOffError, SimDisk
from tests.unit.storage.journal_world import HeldRunner, Told, log_in

T = TypeVar("T")

NEVER_S = 1e6


class PausedRunner(HeldRunner):
    """A writer's thread that can be paused before its next round."""

    async def aclose(self) -> None:
        return None


class SteppedRunner(InlineRunner):
    """A reader's thread that has something happen after its n-th work."""

    def __init__(self) -> None:
        self.after: dict[int, Callable[[], Awaitable[object]]] = {}
        self._works = 0

    async def run(self, work: Callable[[], T]) -> T:
        result = work()
        self._works += 1
        happens = self.after.pop(self._works, None)
        if happens is not None:
            await happens()
        return result

    def happen_after(self, works: int, what: Callable[[], Awaitable[object]]) -> None:
        self.after[self._works + works] = what


class SharedWorld:
    """The shared folder, the metadata, and the brokers that were started on them."""

    def __init__(self, seed: int = 1) -> None:
        self.disk = SimDisk(seed)
        self.disk.make_folder(JOURNALS)
        self.clock = SimClock()
        self.store = MemoryStore(self.clock)
        self.records = StorageRecords(self.store, SystemRng(seed))
        self.started: list[SharedBroker] = []
        self.rng = SystemRng(seed)
        self.durability = Durability.FSYNC

    async def start(self, number: int, protocol: Protocol = PROTOCOL) -> "SharedBroker":
        """A broker on its journal, or on a new one when that was fenced, with the topics that are in it."""
        broker = SharedBroker(self, number, protocol)
        self.started.append(broker)
        await broker.start()
        return broker

    async def power_cut(self) -> None:
        """Every broker dies, and of the folder is left what a power cut leaves."""
        for broker in self.started:
            broker.kill()
        self.disk = self.disk.power_cut()

    async def end(self) -> None:
        while self.started:
            broker = self.started.pop()
            broker.writes.release()
            with contextlib.suppress(MachineOffError):
                await broker.journal.close()


class SharedBroker:
    """One life of one broker."""

    def __init__(
        self, world: SharedWorld, number: int, protocol: Protocol = PROTOCOL, disk: SimDisk | None = None
    ) -> None:
        self.world = world
        self.number = number
        self.disk = disk or world.disk.join()
        self.writes = PausedRunner()
        self.reads = SteppedRunner()
        self.protocol = protocol
        self.topics: dict[int, AcquiredTopic] = {}
        self.pending: dict[int, list[Told]] = {}
        """What was appended since the broker began, by topic."""
        self.newest: dict[int, Cursor] = {}
        """Where the consumers of a topic stand that this broker heard of last."""
        self.folder = ""
        self.journal: Journal

    async def start(self) -> None:
        for life in range(100):
            journal_id = self.number << 16 | life
            self.folder = journal_folder(journal_id)
            with contextlib.suppress(JournalFencedError):
                return await self._open(journal_id)
        raise AssertionError("every journal is fenced")

    async def _open(self, journal_id: int) -> None:
        all_records = list((await self.world.records.all()).values())
        mine = await read_for_restart(self.disk, all_records, journal_id, {}, self.reads)
        self.journal = await Journal.open(
            self.disk,
            self.world.clock,
            rng=self.world.rng,
            runner=self.writes,
            read_runner=self.reads,
            settings=JournalSettings(idle_mark_delay_s=NEVER_S, file_bytes_max=4_096, durability=self.world.durability),
            broker_id=self.number,
            known_topics=mine.bases,
            bases=mine.bases,
            folder=self.folder,
            fence=Fence(self.disk, self.folder),
            journal_id=journal_id,
        )
        for record in all_records:
            if record.topic_id in mine.bases:
                log = log_in(self.journal, record.topic_id, record.epochs[-1].epoch)
                self.topics[record.topic_id] = AcquiredTopic(record, log, mine.parts.get(record.topic_id, ()))

    async def acquire(self, *topic_ids: int, bases: Mapping[int, TopicBase] | None = None) -> dict[int, AcquiredTopic]:
        """Own topics: new ones, given ones, or those of a broker that seems dead."""
        takeover = Takeover(
            self.disk,
            self.world.records,
            self.journal,
            self.reads,
            broker_id=self.number,
            fence=Fence(self.disk, self.folder),
            protocol=self.protocol,
        )
        taken = await takeover.acquire(topic_ids, bases)
        self.topics |= taken
        return taken

    @property
    def owned(self) -> set[int]:
        """The topics that the journal keeps in memory."""
        return {topic_id for topic_id in range(10) if self.journal.index(topic_id) is not None}

    async def release(
        self, topic_id: int, cursors: Mapping[int, Cursor] | None = None, stopped: asyncio.Event | None = None
    ) -> None:
        async def stop() -> Mapping[int, Cursor]:
            if stopped is not None:
                stopped.set()
            for told in self.pending.pop(topic_id, []):
                await told.outcome()
            return cursors or ({5: newest} if newest else {})

        taken = self.topics.pop(topic_id)
        newest = self.newest.pop(topic_id, None)
        old_owner = Release(self.world.records, self.journal, protocol=self.protocol)
        await old_owner.run(taken.record, taken.log, stop=stop)

    def append(self, topic_id: int, record: bytes) -> Told:
        told = Told()
        self.topics[topic_id].log.append_record(record, told)
        self.pending.setdefault(topic_id, []).append(told)
        return told

    async def store(self, topic_id: int, several: Iterable[bytes]) -> list[int]:
        return [await self.append(topic_id, record).offset() for record in several]

    async def save(self, topic_id: int, position: int) -> None:
        saved = Told()
        self.topics[topic_id].log.save_cursor(5, Cursor(position), saved)
        assert await saved.outcome() is None

    def position(self, topic_id: int) -> int | None:
        cursor = self.topics[topic_id].log.cursor(5)
        return cursor.position if cursor else None

    async def content(self, topic_id: int) -> list[bytes]:
        """Every record of the topic: offsets have no gap and no double."""
        taken = self.topics[topic_id]
        found: list[bytes] = []
        for part in taken.parts:
            assert part.start_offset == len(found)
            while len(found) < part.end_offset:
                found += _records(await part.read(len(found), 1), len(found))
        while batches := await taken.log.read(len(found), 1_000_000):
            found += _records(batches, len(found))
        assert len(found) == taken.log.durable_end
        return found

    async def die_in(self, work: Coroutine[Any, Any, Any], change: int) -> bool:
        """Do `work`, but the broker dies in its `change`-th change of the disk; answers whether it came to that."""
        self.disk.stop_at(change)
        task = asyncio.ensure_future(work)
        for _ in range(1_000):
            if self.disk.is_off or task.done():
                break
            await asyncio.sleep(0)
        died = self.disk.is_off
        while not task.done():
            task.cancel()
            await asyncio.sleep(0)
        self.disk.clear_faults()
        with contextlib.suppress(MachineOffError, asyncio.CancelledError):
            task.result()
        return died

    def kill(self) -> None:
        """As `kill -9`: what was written stays, and nothing more is."""
        self.disk.process_kill()


def _records(batches: list[StoredBatch], offset: int) -> list[bytes]:
    found: list[bytes] = []
    for batch in batches:
        assert batch.base_offset <= offset < batch.end_offset
        found += records(batch.body, offset - batch.base_offset, batch.count)
        offset = batch.end_offset
    return found
