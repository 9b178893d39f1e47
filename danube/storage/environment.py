"""The environment of a storage: the parts that it is built from."""

from collections.abc import Callable
from dataclasses import dataclass, field

from danube.metadata.records.storage import StorageRecords
from danube.objects.use import ObjectUse
from danube.runtime.blocking import BlockingRunner
from danube.runtime.clock import Clock
from danube.runtime.disk import Disk
from danube.runtime.rng import Rng
from danube.storage.object_store.tiered_tier import SegmentMover
from danube.storage.settings import StorageSettings
from danube.storage.tiers.directory import DirectoryTier
from danube.storage.tiers.tier import SegmentTier


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageEnvironment:
    """Parts that a storage is built from. The runners are a thread each: the caller closes them after the storage."""

    disk: Disk
    clock: Clock
    rng: Rng
    records: StorageRecords
    runner: BlockingRunner
    """The journal's."""
    read_runner: BlockingRunner
    """For cold reads: of the journal, and of segments where no other runner is given."""
    store_runner: BlockingRunner | None = None
    """For whatever asks an object store, so that reads of the disk do not wait behind a store that does not answer."""
    flush_runner: BlockingRunner
    """For making segments."""
    broker_id: int
    settings: StorageSettings = field(default_factory=StorageSettings)
    make_tier: Callable[[], SegmentTier] | None = None
    """Makes a tier for one thread; files of the disk where not given."""
    mover: SegmentMover | None = None
    """Moves older segments into an object store."""
    object_use: Callable[[], ObjectUse] | None = None
    """Answers the use of that store, but for what waits."""
    reading_tier: SegmentTier = field(init=False)
    """Used in the reading thread only."""
    writing_tier: SegmentTier = field(init=False)
    """Used in the flushing thread only."""

    @property
    def tier_runner(self) -> BlockingRunner:
        """The thread of `reading_tier`."""
        return self.store_runner or self.read_runner

    def __post_init__(self) -> None:
        make = self.make_tier or (lambda: DirectoryTier(self.disk))
        object.__setattr__(self, "reading_tier", make())
        object.__setattr__(self, "writing_tier", make())
