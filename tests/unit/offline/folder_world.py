"""Data folders as brokers leave them, on a real disk: journal, segments, manifests and metadata."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from danube.broker.config.metadata_store import MetaStoreSettings
from danube.broker.ownership.owner import TopicOwner
from danube.data_folder.after_repair import apply_repair
from danube.data_folder.data_folder import REPAIRED, DataFolder, open_data_folder, read_identity
from danube.data_folder.metadata_view import MetadataView, view_of
from danube.metadata.backup.raft import read_raft
from danube.metadata.records.catalog import Records
from danube.metadata.records.storage import StorageRecords
from danube.model.subscription import Cursor, SubscriptionType
from danube.model.topic import DispatchStrategy, TopicName
from danube.offline.folder_metadata import FolderMetadata, metadata_of
from danube.offline.metadata.sources import Wanted
from danube.offline.storage.scan.scan import ScanResult, verify
from danube.runtime.blocking import BlockingThread
from danube.runtime.disk import LocalDisk
from danube.runtime.rng import SystemRng
from danube.storage.batches.batch import RecordView
from danube.storage.batches.placeholder import is_placeholder
from danube.storage.environment import StorageEnvironment
from danube.storage.log.topic_log import TopicLog
from danube.storage.store import Storage
from danube.testing.alone_metadata import open_alone
from danube.testing.simulated.clock import SimClock
from tests.unit.storage.journal_world import Told
from tests.unit.storage.store.storage_world import fill, flush_all, storage_settings

T = TypeVar("T")

ORDERS = "/default/orders"


@dataclass
class Life:
    """One start of a storage on the folder."""

    storage: Storage
    metadata: Records
    owner: TopicOwner
    logs: dict[str, TopicLog] = field(default_factory=dict)

    async def topic(self, name: str) -> TopicLog:
        """The log of a topic, made when it is not there."""
        if name not in self.logs:
            parsed = TopicName.parse(name)
            await self.metadata.ensure_namespace(parsed.namespace)
            record = await self.metadata.topic(parsed)
            if record is None:
                record = await self.metadata.create_topic(parsed, DispatchStrategy.RELIABLE, 1_000)
            await self.owner.acquire([record])
            self.logs[name] = self.storage.topic(record.topic_id, self.storage.epoch(record.topic_id))
        return self.logs[name]

    async def fill(self, name: str, count: int, size: int = 200) -> None:
        """Append so many numbered records."""
        log = await self.topic(name)
        await fill(log, count, first=log.durable_end, size=size)

    async def subscribe(self, name: str, subscription: str, subscription_id: int, position: int) -> None:
        """A subscription that stands there, durably."""
        log, parsed = await self.topic(name), TopicName.parse(name)
        if await self.metadata.subscription(parsed, subscription) is None:
            await self.metadata.create_subscription(
                parsed, subscription, SubscriptionType.SHARED, subscription_id, 1_000
            )
        told = Told()
        log.save_cursor(subscription_id, Cursor(position), told)
        assert await told.outcome() is None

    async def flush(self) -> None:
        """Have everything in segments, and the journal's files gone."""
        await flush_all(self.storage)

    async def content(self, name: str) -> dict[int, bytes | None]:
        """Every record that can be read by its offset; None where a marker stands."""
        log = await self.topic(name)
        found: dict[int, bytes | None] = {}
        at = log.start_offset
        while batches := await log.read(at, 10_000):
            for batch in batches:
                assert batch.base_offset == at
                records = RecordView(batch.body).slice(0, batch.count)
                lost = is_placeholder(batch.body)
                found |= {at + number: None if lost else record for number, record in enumerate(records)}
                at = batch.end_offset
        assert at == log.durable_end
        return found


class FolderWorld:
    """One data folder; `live` starts a storage on it, does something, and closes it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.disk = LocalDisk(path)
        self.clock = SimClock()
        self.settings = storage_settings()

    def live(self, work: Callable[[Life], Awaitable[T]]) -> T:
        folder = open_data_folder(self.path, SystemRng())
        try:
            return asyncio.run(self._live(folder, work))
        finally:
            folder.lock.release()

    async def _live(self, folder: DataFolder, work: Callable[[Life], Awaitable[T]]) -> T:
        async with AsyncExitStack() as stack:
            store = await open_alone(self.path, self.clock)
            stack.push_async_callback(store.close)
            runners = [BlockingThread(name) for name in ("write", "read", "cut")]
            for runner in runners:
                stack.push_async_callback(runner.aclose)
            metadata, stored = Records(store, broker_id=folder.broker_id), StorageRecords(store, SystemRng())
            if await runners[0].run(lambda: self.disk.exists(REPAIRED)):
                await apply_repair(store, folder, SystemRng(), runners[0])
            environment = StorageEnvironment(
                disk=self.disk,
                clock=self.clock,
                rng=SystemRng(),
                records=stored,
                runner=runners[0],
                read_runner=runners[1],
                flush_runner=runners[2],
                broker_id=folder.broker_id,
                settings=self.settings,
            )
            known_topics = {record.topic_id for record in await metadata.topics()}
            storage = await Storage.open(environment, known_topics=known_topics, has_begun=folder.identity.has_journal)
            stack.push_async_callback(storage.close)
            await runners[0].run(lambda: folder.adopt("", is_shared=False, has_journal=True))
            return await work(Life(storage, metadata, TopicOwner(storage, stored, folder.broker_id, is_alone=True)))

    def known(self) -> MetadataView:
        return view_of(read_raft(self.disk).snapshot.entries, {read_identity(self.path).broker_id})

    def metadata(self) -> FolderMetadata:
        """As the commands find it."""
        wanted = Wanted(self.path, MetaStoreSettings.model_validate({}))
        return metadata_of(wanted, read_identity(self.path), self.disk)

    def verify(self) -> ScanResult:
        return verify(self.disk, self.metadata().view, has_journal=read_identity(self.path).has_journal)

    def files(self, pattern: str) -> list[Path]:
        """Files of the folder, those set aside left out."""
        return sorted(path for path in self.path.glob(pattern) if "lost-" not in str(path))

    def damaged(self, name: str) -> list[tuple[int | None, int | None]]:
        """The offsets of a topic that are said to be damaged."""
        known = self.known()
        return [
            (one.first_offset, one.end_offset)
            for one in self.verify().findings
            if one.is_damage and one.topic_id == known.find(name)
        ]


def flip(path: Path, at: int) -> None:
    """Change one byte."""
    content = bytearray(path.read_bytes())
    content[at] ^= 0xFF
    path.write_bytes(content)


def bytes_of(path: Path) -> dict[str, bytes]:
    """Every file of a folder."""
    return {str(one.relative_to(path)): one.read_bytes() for one in sorted(path.rglob("*")) if one.is_file()}


def orders_world(path: Path) -> FolderWorld:
    """A folder with one topic in segments and journal, and a subscription."""

    async def live(life: Life) -> None:
        await life.fill(ORDERS, 30)
        await life.subscribe(ORDERS, "billing", 11, 5)
        await life.flush()
        await life.fill(ORDERS, 20)

    world = FolderWorld(path)
    world.live(live)
    return world


def damaged_segment(folder: FolderWorld) -> Path:
    """Damage the first segment of such a folder within a batch; answers which file that is."""
    segment = folder.files("segments/*/*.segment")[0]
    flip(segment, segment.read_bytes().index(b"DnBt", 900) + 20)
    return segment
