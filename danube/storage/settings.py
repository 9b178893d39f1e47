"""What an administrator may set about storage, and what it tells about itself."""

from dataclasses import dataclass, field

from danube.model.limits.broker import SEGMENT_BYTES_MAX, STORAGE_CHECK_INTERVAL_S
from danube.storage.journal import JournalSettings, JournalStats
from danube.storage.segment.codec import Codec
from danube.storage.watermarks import SpaceLevel, Watermarks


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageSettings:
    """How a broker's storage works; the defaults are the broker's."""

    journal: JournalSettings = field(default_factory=JournalSettings)
    watermarks: Watermarks = field(default_factory=Watermarks)
    journal_file_age_s: float = 0
    """After which a new journal file begins though the last one is small; 0 is when retention by time asks for it."""
    segment_bytes_max: int = SEGMENT_BYTES_MAX
    codec: Codec = Codec.NONE
    """How new segments are compressed; those that are there stay as they are."""
    check_interval_s: float = STORAGE_CHECK_INTERVAL_S


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageStats:
    """Counters since the storage was opened, and where it stands."""

    journal: JournalStats
    topics: int
    """That have a history outside the journal."""
    segments: int
    segment_body_bytes: int
    segment_file_bytes: int
    passes: int
    """Of cutting journal files into segments."""
    cut_bytes: int
    """Written by them."""
    merged_segments: int
    """Small ones that became a part of larger ones."""
    dropped_segments: int
    """That retention let go of."""
    freed_bytes: int
    """Of journal files that went."""
    troubled_topics: int
    """Whose storage is left as it is for now; the log says why."""
    refused_topics: int
    """Whose manifests cannot be read."""
    space_level: SpaceLevel
    free_bytes: int | None
    """On the disk, as last seen."""
    read_wait_s: float = 0.0
    """That cold reads gave way to the journal's syncs, all together."""
