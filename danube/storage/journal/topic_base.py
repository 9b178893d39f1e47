"""What a topic begins with when the journal is opened: that part of its history which is in segments. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from danube.model.subscription import Cursor
from danube.storage.batches.producer_state import StoredNumbers


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicBase:
    """What a topic's manifest says, as far as it matters to a journal."""

    topic_id: int
    end_offset: int
    """The topic's next record in the journal has this offset."""
    last_append_time_ms: int
    cursors: Mapping[int, Cursor] = field(default_factory=dict)
    """By subscription id."""
    producer_states: tuple[tuple[StoredNumbers, ...], ...] = ()
    """A tuple for each row of numbers; the row that stored nothing for longest comes first."""
    covered: Mapping[int, int] = field(default_factory=dict)
    """By journal id: the topic's records below this position of that journal count no more."""


@dataclass(frozen=True, slots=True)
class TopicSnapshot:
    """Where a topic's subscriptions and numberings stand now, all of it durable."""

    cursors: dict[int, Cursor]
    producer_states: tuple[tuple[StoredNumbers, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosedFile:
    """A file of the journal that is written no more, and synced to its end."""

    sequence: int
    base_position: int
    end_position: int
    topics: frozenset[int]
    """Every topic with a record in it, cursors too, deleted topics too."""
    oldest_append_ms: int
    """Of all records in it."""
    newest_append_ms: int

    @property
    def file_bytes(self) -> int:
        """Its length."""
        return self.end_position - self.base_position
