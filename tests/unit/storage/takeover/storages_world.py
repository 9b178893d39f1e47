"""Storages of several brokers over one shared folder and one metadata store, all in one process."""

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

from danube.metadata.memory import MemoryStore
from danube.metadata.records.journals import JournalRecords
from danube.metadata.records.storage import StorageRecords, add_ownership, add_tombstone
from danube.metadata.store import Entry, MetadataStore
from danube.metadata.transaction_builder import TransactionBuilder
from danube.model.subscription import Cursor
from danube.runtime.blocking import BlockingRunner, BlockingThread, InlineRunner
from danube.runtime.disk import Disk
from danube.runtime.rng import SystemRng
from danube.storage.journal.folder import JOURNALS
from danube.storage.log.topic_log import TopicLog
from danube.storage.takeover.own_journal import SharedEnvironment
from danube.storage.takeover.shared_storage import SharedStorage
from danube.testing.simulated.clock import SimClock
from danube.testing.simulated.disk import MachineOffError, SimDisk
from tests.unit.storage.journal_world import Told
from tests.unit.storage.store.storage_world import flush_all, storage_settings

SUBSCRIPTION = 5


class StoragesWorld:
    """The folder, the metadata, and the storages that were opened on them."""

    def __init__(self, disk: Disk | None = None, **settings: Any) -> None:
        self.disk: Disk = disk if disk is not None else SimDisk()
        self.clock = SimClock()
        self.rng = SystemRng(seed=1)
        self.metadata = MemoryStore(self.clock)
        self.records = StorageRecords(self.metadata, self.rng)
        self.journals = JournalRecords(self.metadata, self.rng)
        self.settings = storage_settings(**{"journal": {"idle_mark_delay_s": 1e6}, **settings})
        self.disks: dict[int, Disk] = {}
        self._open: dict[int, SharedStorage] = {}
        self._dead: list[SharedStorage] = []
        self._threads: list[BlockingThread] = []

    async def create(self, *topic_ids: int) -> None:
        """Have topics created in the metadata."""
        builder = TransactionBuilder(self.metadata)
        for topic_id in topic_ids:
            add_ownership(builder, topic_id)
        await self.metadata.transact(builder.transaction(f"create {topic_ids}"))

    async def start(
        self, number: int, metadata: MetadataStore | None = None, **runners: BlockingRunner
    ) -> SharedStorage:
        """Open a broker's storage; `metadata` is its own copy of it, if it has one."""
        records, journals = self.records, self.journals
        if metadata is not None:
            records, journals = StorageRecords(metadata, self.rng), JournalRecords(metadata, self.rng)
        disk = self.disks[number] = self.disk.join() if isinstance(self.disk, SimDisk) else self.disk
        writer, reader, flusher = (
            runners.get(name) or self._runner(name) for name in ("runner", "read_runner", "flush_runner")
        )
        environment = SharedEnvironment(
            disk=disk,
            records=records,
            journals=journals,
            clock=self.clock,
            rng=self.rng,
            broker_id=number,
            settings=self.settings,
            runner=writer,
            read_runner=reader,
            flush_runner=flusher,
        )
        storage = await SharedStorage.open_shared(environment)
        self._open[number] = storage
        return storage

    def storage(self, number: int) -> SharedStorage:
        """The one of a broker that is open."""
        return self._open[number]

    async def stop(self, number: int) -> None:
        """Close a broker's storage."""
        await self._open.pop(number).close()

    def kill(self, number: int) -> None:
        """End a broker as `kill -9` does."""
        disk = self.disks[number]
        assert isinstance(disk, SimDisk)
        disk.process_kill()
        self._dead.append(self._open.pop(number))

    async def delete(self, topic_id: int) -> None:
        """Have a topic deleted in the metadata."""
        builder = TransactionBuilder(self.metadata)
        add_tombstone(builder, topic_id)
        await self.metadata.transact(builder.transaction(f"delete {topic_id}"))

    def folders(self) -> list[str]:
        """Of all journals."""
        return self.disk.list(JOURNALS)

    async def end(self) -> None:
        for storage in (*self._open.values(), *self._dead):
            with contextlib.suppress(MachineOffError):
                await storage.close()
        for thread in self._threads:
            await thread.aclose()
        await self.metadata.close()

    def _runner(self, name: str) -> BlockingRunner:
        if isinstance(self.disk, SimDisk):
            return InlineRunner()
        self._threads.append(BlockingThread(name))
        return self._threads[-1]


async def rest() -> None:
    """Let everything go on that waits for nothing but its turn."""
    for _ in range(100):
        await asyncio.sleep(0)


async def save(log: TopicLog, position: int) -> None:
    """Have a cursor stored."""
    told = Told()
    log.save_cursor(SUBSCRIPTION, Cursor(position), told)
    assert await told.outcome() is None


async def stop_at(log: TopicLog) -> Mapping[int, Cursor]:
    """What `give` is told of a topic that nobody appends to."""
    cursor = log.cursor(SUBSCRIPTION)
    return {SUBSCRIPTION: cursor} if cursor is not None else {}


async def flush_whole(storage: SharedStorage) -> None:
    """Have everything cut that this broker owns."""
    await flush_all(storage)
    if storage.topics.histories.with_older_epochs:
        await storage.flush()
    assert not storage.topics.histories.with_older_epochs


def fall_behind(storages: StoragesWorld) -> None:
    """Have lists of metadata show nothing that came since, as a replica does that hears of it late, unless asked to."""
    store, seen = storages.metadata, storages.metadata._state.revision
    original = store.list

    async def late(prefix: str, *, linearizable: bool = False) -> Sequence[Entry]:
        found = await original(prefix)
        return found if linearizable else [entry for entry in found if entry.revision <= seen]

    store.list = late  # type: ignore[method-assign]
