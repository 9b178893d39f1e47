"""Settings of a broker's storage, and the counters that it answers."""

from bisect import bisect_left
from dataclasses import dataclass, field

from danube.model.limits.broker import (
    CACHE_BYTES_MAX,
    CURSOR_INTERVAL_S,
    IDLE_MARK_DELAY_S,
    JOURNAL_BACKLOG_BYTES_MAX,
    JOURNAL_FILE_BYTES_MAX,
    JOURNAL_ROUND_BYTES_MAX,
    JOURNAL_SYNC_INTERVAL_S,
    SEGMENT_BYTES_MAX,
    STORAGE_CHECK_INTERVAL_S,
)
from danube.model.limits.objects import BATCH_BYTES
from danube.model.plans.durability import Durability
from danube.storage.batches.codec import Codec
from danube.storage.disk_space import SpaceLevel, Watermarks

LATENCY_BOUNDS_S = (
    *(0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05),
    *(0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0),
)
"""Upper bounds of the buckets, included: from a fast NVMe's sync to a disk that is about to fail."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalSettings:
    """Settings of one journal; the defaults are the broker's."""

    durability: Durability = Durability.FSYNC
    sync_interval_s: float = JOURNAL_SYNC_INTERVAL_S
    """For `Durability.INTERVAL`."""
    file_bytes_max: int = JOURNAL_FILE_BYTES_MAX
    round_bytes_max: int = JOURNAL_ROUND_BYTES_MAX
    backlog_bytes_max: int = JOURNAL_BACKLOG_BYTES_MAX
    cache_bytes_max: int = CACHE_BYTES_MAX
    cursor_interval_s: float = CURSOR_INTERVAL_S
    idle_mark_delay_s: float = IDLE_MARK_DELAY_S
    batch_timeout_s: float = 0.0
    """Least time from the begin of a round to that of the next, where each round is a request that costs."""
    batch_bytes: int = BATCH_BYTES
    """So many bytes do not wait for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageSettings:
    """Settings of a broker's storage; the defaults are the broker's."""

    journal: JournalSettings = field(default_factory=JournalSettings)
    watermarks: Watermarks = field(default_factory=Watermarks)
    journal_file_age_s: float = 0
    """After which a new journal file begins though the last one is small; 0 is when retention by time asks for it."""
    segment_bytes_max: int = SEGMENT_BYTES_MAX
    codec: Codec = Codec.NONE
    """Compression of new segments; those that are there stay as they are."""
    check_interval_s: float = STORAGE_CHECK_INTERVAL_S


@dataclass(slots=True)
class LatencyHistogram:
    """Counts in fixed buckets, cheap enough for every round of the journal."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(LATENCY_BOUNDS_S) + 1))
    """Of each bucket, not cumulative; the last one is of what took longer than all bounds."""
    total_s: float = 0.0

    def observe(self, seconds: float) -> None:
        """Count one more."""
        self.counts[bisect_left(LATENCY_BOUNDS_S, seconds)] += 1
        self.total_s += seconds

    def cumulative(self) -> list[tuple[float, int]]:
        """Counts of what took at most each bound; the last bound is infinity."""
        found: list[tuple[float, int]] = []
        seen = 0
        for bound_s, count in zip((*LATENCY_BOUNDS_S, float("inf")), self.counts, strict=True):
            seen += count
            found.append((bound_s, seen))
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalStats:
    """Counters since the journal was opened, and where it stands."""

    rounds: int
    """Written with something in them."""
    failed_rounds: int
    bytes_written: int
    """Headers included."""
    syncs: int
    files: int
    size_bytes: int
    """Of all files together."""
    backlog_bytes: int
    """Accepted and not yet written."""
    cache_bytes: int
    last_round_ms: float
    """From gathering the last round to its acknowledgement."""
    round_seconds: LatencyHistogram = field(default_factory=LatencyHistogram)
    """The same of every round: writing it, and with durability fsync its sync."""
    sync_seconds: LatencyHistogram = field(default_factory=LatencyHistogram)
    """Of every sync of the disk, failed ones too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageStats:
    """Counters since the storage was opened, and where it stands."""

    journal: JournalStats
    topics: int
    """With a history outside the journal."""
    segments: int
    segment_body_bytes: int
    segment_file_bytes: int
    flush_passes: int
    flush_bytes: int
    """Written by flush passes."""
    merged_segments: int
    """Small ones that became a part of larger ones."""
    dropped_segments: int
    """Removed by retention."""
    freed_bytes: int
    """Of journal files that were removed."""
    quarantined_topics: int
    """Whose storage is left as it is for now; the log says why."""
    refused_topics: int
    """Whose manifests cannot be read."""
    space_level: SpaceLevel
    free_bytes: int | None
    """On the disk, as last seen."""
    read_wait_s: float = 0.0
    """Time that cold reads gave way to the journal's syncs, all together."""
