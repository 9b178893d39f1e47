"""Storages of several brokers over one object store and one metadata store, all in one process."""

import contextlib
import random

from danube.metadata.memory import MemoryStore
from danube.metadata.records.journals import JournalRecords
from danube.metadata.records.storage import StorageRecords, add_ownership
from danube.metadata.transaction_builder import TransactionBuilder
from danube.objects.bill import Bill, Cause
from danube.objects.memory import MemoryObjects
from danube.objects.retrying import Patience, Pause, RetryingStore
from danube.objects.store import ObjectStore
from danube.runtime.blocking import BlockingRunner, InlineRunner
from danube.runtime.rng import SystemRng
from danube.storage.journal.folder import listed_journals
from danube.storage.object_store.object_disk import ObjectDisk
from danube.storage.object_store.object_tier import BlockCache, ObjectTier
from danube.storage.settings import JournalSettings, StorageSettings
from danube.storage.takeover.object_storage import ObjectEnvironment, ObjectStorage
from danube.testing.simulated.clock import SimClock
from danube.testing.simulated.disk import MachineOffError, SimDisk
from danube.testing.simulated.objects import Faults, FaultyObjects


class NoPause(Pause):
    """Waits that take no time."""

    def wait(self, seconds: float) -> None:
        del seconds


class ObjectsWorld:
    """The bucket, the metadata, and the storages that were opened on them."""

    def __init__(
        self,
        *,
        seed: int = 1,
        faults: Faults | None = None,
        file_bytes_max: int = 20_000,
        batch_timeout_s: float = 0,
        is_local: bool = False,
    ) -> None:
        """With `is_local` disks acknowledge, and are kept; `ObjectStorage.upload` uploads the journals."""
        self.is_local = is_local
        self.disks: dict[int, SimDisk] = {}
        self.bucket: ObjectStore = MemoryObjects()
        self.runner: BlockingRunner = InlineRunner()
        """Runs what blocks: at once in a simulation, in a thread where the bucket is a real one."""
        self.faults = faults or Faults()
        self.chance = random.Random(seed)  # noqa: S311 - a seed is for replay
        self.clock = SimClock()
        self.rng = SystemRng(seed=seed)
        self.metadata = MemoryStore(self.clock)
        self.records = StorageRecords(self.metadata, self.rng)
        self.journals = JournalRecords(self.metadata, self.rng)
        self.settings = StorageSettings(
            journal=JournalSettings(
                idle_mark_delay_s=1e6, file_bytes_max=file_bytes_max, batch_timeout_s=batch_timeout_s
            ),
            segment_bytes_max=8_000,
        )
        self.ways: dict[int, FaultyObjects] = {}
        self.all_ways: list[FaultyObjects] = []
        """Of dead processes, too: what they sent may still arrive."""
        self.bills: dict[int, Bill] = {}
        self._open: dict[int, ObjectStorage] = {}
        self._dead: list[ObjectStorage] = []

    async def create(self, *topic_ids: int) -> None:
        """Have topics created in the metadata."""
        builder = TransactionBuilder(self.metadata)
        for topic_id in topic_ids:
            add_ownership(builder, topic_id)
        await self.metadata.transact(builder.transaction(f"create {topic_ids}"))

    async def start(self, number: int, *, cluster_id: str = "", retries_max: int = 20) -> ObjectStorage:
        """Open a broker's storage on an empty disk of its own."""
        way = self.ways[number] = FaultyObjects(self.bucket, self.chance, self.faults)
        self.all_ways.append(way)
        bill = self.bills[number] = Bill(self.clock.monotonic_s())
        patience = Patience(retries_max=retries_max)
        store = RetryingStore(
            way, self.clock, self.rng, bill=bill, cause=Cause.SEGMENT, patience=patience, pause=NoPause()
        )
        scratch = self.disks.setdefault(number, SimDisk(seed=number)) if self.is_local else SimDisk()
        await self._remove_copies(number, scratch)
        disk = ObjectDisk(store, scratch, self.rng, round_patience=patience, threads=0, is_local=self.is_local)
        cache = BlockCache(store, disk.ahead)
        environment = ObjectEnvironment(
            disk=disk,
            objects=disk,
            cache=cache,
            url="s3://bucket/",
            make_tier=lambda: ObjectTier(store, cache),
            remove_journal=disk.remove_journal,
            records=StorageRecords(self.metadata, self.rng),
            upload_runner=InlineRunner() if self.is_local else None,
            journals=self.journals,
            clock=self.clock,
            rng=self.rng,
            broker_id=number,
            settings=self.settings,
            runner=self.runner,
            read_runner=self.runner,
            flush_runner=self.runner,
            cluster_id=cluster_id,
        )
        storage = self._open[number] = await ObjectStorage.open_objects(environment)
        return storage

    async def stop(self, number: int) -> None:
        """Close a broker's storage."""
        await self._open.pop(number).close()

    def kill(self, number: int, *, power: bool = False) -> None:
        """End a broker as `kill -9` does, or a power cut. Its disk is lost unless it has the journal."""
        self.ways[number].kill()
        self._dead.append(self._open.pop(number))
        if number in self.disks:
            disk = self.disks[number]
            self.disks[number] = disk.power_cut() if power else disk.process_kill()

    async def _remove_copies(self, number: int, scratch: SimDisk) -> None:
        """As a broker does at its start: what is left are its own journals."""
        own = {one.journal_id for one in (await self.journals.all()).values() if one.broker_id == number}
        for journal_id, folder in listed_journals(scratch).items():
            if journal_id not in own:
                for name in scratch.list(folder):
                    scratch.remove(f"{folder}/{name}")

    async def end(self) -> None:
        for storage in (*self._open.values(), *self._dead):
            with contextlib.suppress(MachineOffError):
                await storage.close()
        await self.metadata.close()
