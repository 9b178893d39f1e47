"""Contents of one journal file besides its batches: topics, the last cursors, the last numbers. Pure."""

from collections import deque
from dataclasses import dataclass, field

from danube.model.limits.broker import DEDUPLICATION_BATCHES_MAX, DEDUPLICATION_PRODUCERS_MAX
from danube.model.subscription import Cursor
from danube.storage.batches.producer_state import StoredNumbers
from danube.storage.journal.index import ClosedFile, FileStart
from danube.storage.log.cursors import CursorKey

_NEVER_MS = 2**63 - 1


@dataclass(slots=True)
class FileContents:
    """Contents of a file, gathered while it is written, or read."""

    start: FileStart
    topics: set[int] = field(default_factory=set)
    """Every topic with a record in it."""
    unlisted: set[int] = field(default_factory=set)
    """Those of them with records that were left out when the file was read."""
    bytes_of: dict[int, int] = field(default_factory=dict)
    """By topic, of its records; of a file that was found by its index nothing."""
    cursors: dict[CursorKey, tuple[int, Cursor]] = field(default_factory=dict)
    """The last one of each subscription, and the position of its record."""
    rows: dict[tuple[int, int], deque[StoredNumbers]] = field(default_factory=dict)
    """By topic and row, the last numbered batches; the row that stored nothing for longest comes first.

    As many rows of a topic as its log remembers: a file has room for a million.
    """
    _rows_of: dict[int, dict[int, None]] = field(default_factory=dict, init=False)
    """By topic, its rows in the same order."""
    oldest_append_ms: int = _NEVER_MS
    newest_append_ms: int = 0

    def note(self, topic_id: int, append_time_ms: int, record_bytes: int) -> None:
        """A record of the topic is in the file."""
        self.topics.add(topic_id)
        self.bytes_of[topic_id] = self.bytes_of.get(topic_id, 0) + record_bytes
        if append_time_ms != self.newest_append_ms:  # nearly never, within a round
            self.oldest_append_ms = min(self.oldest_append_ms, append_time_ms)
            self.newest_append_ms = max(self.newest_append_ms, append_time_ms)

    def note_numbers(self, topic_id: int, stored: StoredNumbers) -> None:
        """A numbered batch of the topic is in the file."""
        key = topic_id, stored.batch.numbering_id
        row = self.rows.pop(key, None)
        if row is None:
            row = deque(maxlen=DEDUPLICATION_BATCHES_MAX)
        row.append(stored)
        self.rows[key] = row
        rows_of = self._rows_of.setdefault(topic_id, {})
        rows_of.pop(stored.batch.numbering_id, None)
        rows_of[stored.batch.numbering_id] = None
        if len(rows_of) > DEDUPLICATION_PRODUCERS_MAX:
            oldest = next(iter(rows_of))
            del rows_of[oldest], self.rows[topic_id, oldest]

    def closed(self, end_position: int) -> ClosedFile:
        """The file, once it ends there."""
        return ClosedFile(
            sequence=self.start.sequence,
            base_position=self.start.base_position,
            end_position=end_position,
            topics=frozenset(self.topics),
            oldest_append_ms=min(self.oldest_append_ms, self.newest_append_ms),
            newest_append_ms=self.newest_append_ms,
        )
