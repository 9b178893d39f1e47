"""Data folders as brokers that stand alone leave them, killed or stopped, with all that was acknowledged in them."""

import asyncio
import random
import shutil
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from danube.broker.cluster.metadata_store import open_meta_store
from danube.broker.config.metadata_store import MetaStoreSettings
from danube.broker.ownership.owner import TopicOwner
from danube.data_folder.data_folder import JOURNAL, DataFolder, open_data_folder
from danube.metadata.raft.sequencer import RaftSequencer
from danube.metadata.records.catalog import Records, TopicRecord
from danube.metadata.records.cluster import own_cluster_id
from danube.metadata.records.storage import StorageRecords
from danube.model.limits.metadata import RAFT_MARK_DELAY_S
from danube.model.ranges import RangeSet
from danube.model.subscription import Cursor, SubscriptionType
from danube.model.topic import DispatchStrategy, TopicName
from danube.runtime.blocking import BlockingThread
from danube.runtime.rng import SystemRng
from danube.storage.environment import StorageEnvironment
from danube.storage.journal import JournalSettings
from danube.storage.log.topic_log import TopicLog
from danube.storage.settings import StorageSettings
from danube.storage.store import Storage
from danube.testing.peers.stream import payload_batch
from danube.testing.simulated.clock import START_MS, SimClock
from lab.kernel.chance import weighted

SUBSCRIPTION = "s"
_SUBSCRIPTION_ID = 11
_NAMES = [TopicName("default", name) for name in ("orders", "clicks", "idle", "bills")]
_TICK_S = 0.25
_QUIET_S = 2.0  # until the journal's mark says all: an end that goes before that is missed by nobody (decision 15)
_SETTINGS = StorageSettings(
    journal=JournalSettings(file_bytes_max=4_096, round_bytes_max=1_500), segment_bytes_max=2_048
)


@dataclass(slots=True)
class StoredTopic:
    """Acknowledged messages and offsets of one topic."""

    messages: list[bytes] = field(default_factory=list)  # by offset
    acknowledged: RangeSet | None = None  # by its subscription; None where it has none


@dataclass(slots=True)
class Stored:
    """All that was acknowledged in a folder."""

    topics: dict[TopicName, StoredTopic] = field(default_factory=dict)
    deleted: set[TopicName] = field(default_factory=set)
    life: str = ""  # how the last broker ended
    settings: dict[str, Any] = field(default_factory=dict)
    """With which a broker is started on the folder, beside its place."""


Maker = Callable[[Path, Path, random.Random], Stored]
"""Makes a folder, and an older copy of it at the second path."""


def make_alone(path: Path, older: Path, chance: random.Random) -> Stored:
    """The folder of a broker that stands alone."""
    stored, work = Stored(), path.with_name(f"{path.name}-work")
    lives, is_killed = chance.randint(2, 3), chance.random() < 0.6
    for number in range(lives):
        is_last = number == lives - 1
        if is_last:
            shutil.copytree(work, older)
        _live(work, stored, chance, path if is_last and is_killed else None)
    if not is_killed:
        work.rename(path)
    stored.life = "killed" if is_killed else "stopped"
    return stored


MAKERS: dict[str, Maker] = {"alone": make_alone}
"""Each kind of folder, in turn by seed; one that has files of its own names them in `folder_damage.TARGETS`, too."""


@dataclass(frozen=True, slots=True)
class _Machine:
    """The machine of a life."""

    chance: random.Random
    clock: SimClock
    runner: BlockingThread


@dataclass(slots=True)
class _Life:
    """One broker at work in a folder, without the broker."""

    storage: Storage
    records: Records
    owner: TopicOwner
    machine: _Machine
    stored: Stored
    metadata: RaftSequencer
    logs: dict[TopicName, tuple[TopicRecord, TopicLog]] = field(default_factory=dict)

    @property
    def chance(self) -> random.Random:
        return self.machine.chance

    async def open_topics(self) -> None:
        for name in self.stored.topics:
            record = await self.records.topic(name)
            assert record is not None  # noqa: S101 - this life made it
            await self.owner.acquire([record])
            self._open(record)

    async def pass_time(self, seconds: float) -> None:
        """Have what is due be done, on the thread too."""
        for _ in range(round(seconds / _TICK_S)):
            await self.machine.clock.run_for(_TICK_S)
            await self.machine.runner.run(lambda: None)

    async def step(self) -> None:
        await self.pass_time(0.5)
        steps = {self._append: 9, self._acknowledge: 4, self._create: 3, self._flush: 2, self._delete: 0.5}
        await weighted(self.chance, steps)()

    async def _create(self) -> None:
        free = [name for name in _NAMES if name not in self.stored.topics and name not in self.stored.deleted]
        if not free:
            return
        record = await self.records.create_topic(free[0], DispatchStrategy.RELIABLE, self.machine.clock.now_ms())
        self.stored.topics[free[0]] = StoredTopic()
        await self.owner.acquire_new([record])
        self._open(record)

    async def _subscribe(self, name: TopicName) -> RangeSet:
        kind, now_ms = SubscriptionType.EXCLUSIVE, self.machine.clock.now_ms()
        await self.records.create_subscription(name, SUBSCRIPTION, kind, _SUBSCRIPTION_ID, now_ms)
        return RangeSet()

    def _open(self, record: TopicRecord) -> None:
        self.logs[record.name] = record, self.storage.topic(record.topic_id, self.storage.epoch(record.topic_id))

    async def _append(self) -> None:
        for name in self._some():
            stored, log = self.stored.topics[name].messages, self.logs[name][1]
            first = len(stored)
            new = [
                b"%s#%d#%s" % (str(name).encode(), offset, self.chance.randbytes(self.chance.randint(0, 300)))
                for offset in range(first, first + self.chance.randint(1, 5))
            ]
            told = asyncio.get_running_loop().create_future()
            log.append_batch(payload_batch(name, new), told.set_result)
            if await told != first:
                raise RuntimeError(f"the storage of the world itself failed: {told.result()!r}")
            stored += new

    async def _acknowledge(self) -> None:
        for name in self._some():
            topic = self.stored.topics[name]
            if topic.acknowledged is None:
                topic.acknowledged = await self._subscribe(name)
            start = self.chance.randint(0, len(topic.messages))
            topic.acknowledged.add(start, min(start + self.chance.randint(1, 9), len(topic.messages)))
            ranges = list(topic.acknowledged)
            position = ranges.pop(0).end if ranges and ranges[0].start == 0 else 0
            told = asyncio.get_running_loop().create_future()
            self.logs[name][1].save_cursor(_SUBSCRIPTION_ID, Cursor(position, tuple(ranges)), told.set_result)
            await told

    async def _flush(self) -> None:
        await self.storage.journal.rotate()  # otherwise only age does it
        await self.storage.flush()

    async def _delete(self) -> None:
        for name in self._some()[:1] if len(self.stored.topics) > 2 else []:
            record, _ = self.logs.pop(name)
            await self.records.delete_topic(record)
            self.storage.forget(record.topic_id)
            del self.stored.topics[name]
            self.stored.deleted.add(name)

    def _some(self) -> list[TopicName]:
        names = [*self.stored.topics]
        return self.chance.sample(names, min(len(names), self.chance.randint(1, 2)))


def _live(path: Path, stored: Stored, chance: random.Random, copy: Path | None) -> None:
    """One life; what a kill at its end leaves is put at `copy`."""
    folder = open_data_folder(path, SystemRng(chance.getrandbits(63)))
    try:
        clock = SimClock(start_ms=START_MS + 1_000_000 * folder.disk.exists(JOURNAL))
        asyncio.run(_work(folder, stored, chance, clock, copy))
    finally:
        folder.lock.release()


async def _work(folder: DataFolder, stored: Stored, chance: random.Random, clock: SimClock, copy: Path | None) -> None:
    async with AsyncExitStack() as parts:
        runner = BlockingThread("storage")  # one for all: what comes first follows from the seed
        parts.push_async_callback(runner.aclose)
        life = await _open(folder, stored, _Machine(chance, clock, runner), parts)
        await life.open_topics()
        for _ in range(chance.randint(12, 20)):
            await life.step()
        await life.pass_time(_QUIET_S)
        await _pass_time_of_metadata(life.metadata)
        if copy is not None:
            await runner.run(lambda: shutil.copytree(folder.path, copy))


async def _pass_time_of_metadata(sequencer: RaftSequencer) -> None:
    """As `_QUIET_S`, for the log of the metadata, which goes by the machine's clock."""

    def ring() -> None:
        member = sequencer._local_node.member  # noqa: SLF001 - to save the seconds
        assert member is not None  # noqa: S101 - the store is open
        for _ in range(RAFT_MARK_DELAY_S + 1):
            member._parts.log.onOneSecondTimer()  # noqa: SLF001 - as above

    await sequencer._thread.call(ring)  # noqa: SLF001 - as above


async def _open(folder: DataFolder, stored: Stored, machine: _Machine, parts: AsyncExitStack) -> _Life:
    rng, clock, runner = SystemRng(machine.chance.getrandbits(63)), machine.clock, machine.runner
    settings = MetaStoreSettings.model_validate({})
    opened = await open_meta_store(settings, folder, clock, rng, runner, is_alone=True)
    parts.push_async_callback(opened.store.close)
    cluster_id = await own_cluster_id(opened.store, rng)
    records = Records(opened.store, rng, broker_id=folder.broker_id)
    owners = StorageRecords(opened.store, rng)
    await records.ensure_namespace("default")
    environment = StorageEnvironment(
        disk=folder.disk,
        clock=clock,
        rng=rng,
        records=owners,
        runner=runner,
        read_runner=runner,
        flush_runner=runner,
        broker_id=folder.broker_id,
        settings=_SETTINGS,
    )
    known_topics = {record.topic_id for record in await records.topics()}
    storage = await Storage.open(environment, known_topics=known_topics, has_begun=folder.identity.has_journal)
    parts.push_async_callback(storage.close)
    await runner.run(lambda: folder.adopt(cluster_id, is_shared=False, has_journal=True))
    owner = TopicOwner(storage, owners, folder.broker_id, is_alone=True)
    assert isinstance(opened.membership, RaftSequencer)  # noqa: S101 - of any that stands alone
    return _Life(storage, records, owner, machine, stored, opened.membership)
