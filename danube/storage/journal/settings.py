"""What an administrator may set about the journal, and what it tells about itself."""

from dataclasses import dataclass, field

from danube.model.limits.broker import (
    CACHE_BYTES_MAX,
    CURSOR_INTERVAL_S,
    IDLE_MARK_DELAY_S,
    JOURNAL_BACKLOG_BYTES_MAX,
    JOURNAL_FILE_BYTES_MAX,
    JOURNAL_ROUND_BYTES_MAX,
    JOURNAL_SYNC_INTERVAL_S,
)
from danube.model.plans.durability import Durability
from danube.storage.journal.histogram import LatencyHistogram


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalSettings:
    """How one journal works; the defaults are the broker's."""

    durability: Durability = Durability.FSYNC
    sync_interval_s: float = JOURNAL_SYNC_INTERVAL_S
    """For `Durability.INTERVAL`."""
    file_bytes_max: int = JOURNAL_FILE_BYTES_MAX
    round_bytes_max: int = JOURNAL_ROUND_BYTES_MAX
    backlog_bytes_max: int = JOURNAL_BACKLOG_BYTES_MAX
    cache_bytes_max: int = CACHE_BYTES_MAX
    cursor_interval_s: float = CURSOR_INTERVAL_S
    idle_mark_delay_s: float = IDLE_MARK_DELAY_S


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
    """How long the disk took for each sync, whatever it was for, those that failed too."""
