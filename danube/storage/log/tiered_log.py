"""One topic's log wherever its batches are kept: cache, segments, journals. Ordered and without a gap.

A cold read goes to the part that holds the offset, and answers as far as that part goes. The parts change while it is
under way: a journal file is cut, segments are merged or let go. Then its file may be gone, and it is tried again from
what is true then. Cold reads never enter the cache: a replay takes nothing from those who read what is new.
"""

from collections.abc import Awaitable, Callable, Container, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from danube.model.errors import DamagedDataError, InternalError, OffsetTrimmedError, StorageUnavailableError
from danube.model.limits.broker import COLD_READ_ATTEMPTS_MAX
from danube.model.plans.durability import Durability
from danube.model.subscription import Cursor
from danube.runtime.blocking import BlockingRunner
from danube.runtime.clock import Clock
from danube.storage.batches.producer_state import SequencedBatch
from danube.storage.disk_space import SpaceGate
from danube.storage.flush.manifest_versions import Histories, History, Trimmed
from danube.storage.log.parts import LogPart, SegmentsPart
from danube.storage.log.protocol import AppendDone, Saved, StoredBatch, TopicStorageStats
from danube.storage.log.read_ahead import ReadAhead
from danube.storage.log.read_throttle import ColdReadThrottle
from danube.storage.log.topic_log import JournalTopicLog
from danube.storage.segment.reader import SegmentReader

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ColdStore:
    """What reads of sealed history go through, shared by all topics."""

    reader: SegmentReader
    runner: BlockingRunner
    clock: Clock
    histories: Histories
    gate: SpaceGate
    synced_to: Callable[[], int]
    """Up to which position the journal is synced."""
    last_file_from: Callable[[], int]
    """The position at which the journal's last file begins."""
    turn: ColdReadThrottle
    ahead: ReadAhead = field(default_factory=ReadAhead)


class TieredLog:
    """The log of one topic; as many as one likes may be open. It keeps the promises of `storage/log.py`."""

    def __init__(self, journal_log: JournalTopicLog, cold: ColdStore, *, uses_reserve: bool = False) -> None:
        """`uses_reserve` says that it is appended to also while too little room is left for others."""
        self.topic_id = journal_log.topic_id
        self._journal = journal_log
        self._cold = cold
        self._uses_reserve = uses_reserve
        self._trimmed: list[Trimmed] = []

    # What there is

    @property
    def start_offset(self) -> int:
        """The first offset that can be read; retention moves it on.

        While metadata is told that the first segments go, and until it is known whether it heard, this is the offset
        after them already: who begins here is not led past anything. Who is below reads on for as long as they last.
        """
        return max(self._first_kept, self._cold.histories.beginning(self.topic_id))

    @property
    def durable_end(self) -> int:
        return self._journal.durable_end

    @property
    def body_bytes(self) -> int:
        return sum(part.body_bytes for part in self._parts())

    @property
    def stats(self) -> TopicStorageStats:
        """What it takes, and how old it is."""
        history = self._history
        segments = history.manifest.segments if history is not None else ()
        newest = self._last_append_ms(history)
        return TopicStorageStats(
            start_offset=self.start_offset,
            end_offset=self.durable_end,
            body_bytes=self.body_bytes,
            segments=len(segments),
            segment_file_bytes=history.file_bytes if history is not None else 0,
            oldest_append_ms=self.append_time_at_hand(self.start_offset),
            newest_append_ms=newest if self.start_offset < self.durable_end else None,
            unsynced_bytes=self._journal.body_bytes_from(self._cold.synced_to()),
        )

    @property
    def oldest_in_last_file_ms(self) -> int | None:
        """When the first record that is in the journal's last file was appended; None when there is none."""
        return self._journal.first_append_ms_from(self._cold.last_file_from())

    def offset_in_journal(self, append_time_ms: int) -> int:
        """As `offset_at`, at once, of what is in the journal only."""
        return self._journal.offset_at(append_time_ms)

    # Writing

    def append_record(self, record: bytes, done: AppendDone) -> None:
        if not self._uses_reserve:
            self._cold.gate.check(len(record))
        self._journal.append_record(record, done)
        self._cold.gate.admitted_bytes += len(record)

    def append_batch(self, body: bytes, done: AppendDone) -> None:
        if not self._uses_reserve:
            self._cold.gate.check(len(body))
        self._journal.append_batch(body, done)
        self._cold.gate.admitted_bytes += len(body)

    def set_durability(self, durability: Durability | None) -> None:
        self._journal.set_durability(durability)

    def confirm(self, offset: int, done: AppendDone) -> None:
        self._journal.confirm(offset, done)

    # Reading

    def read_hot(self, offset: int, bytes_max: int) -> list[StoredBatch] | None:
        if offset < self._journal.start_offset:
            return None
        return self._journal.read_hot(offset, bytes_max)

    async def read(self, offset: int, bytes_max: int) -> list[StoredBatch]:
        """Batches from the one that holds `offset`: at least one, then as many as fit and are kept in the same place.

        Empty at the durable end. Raises OffsetTrimmedError for what retention let go of; DamagedDataError and
        StorageUnavailableError when that batch cannot be read: what is sound before a fault is answered first.
        """
        found = self.read_hot(offset, bytes_max)
        if found is not None:
            return found
        return await self._patiently(lambda: self._read_cold(offset, bytes_max))

    async def offset_at(self, append_time_ms: int) -> int:
        """The first offset of the first batch appended at this time or later; `durable_end` when there is none."""
        return await self._patiently(lambda: self._find_time(append_time_ms))

    async def append_time_ms(self, offset: int) -> int | None:
        """When the durable record at this offset was appended; None when there is none."""
        return await self._patiently(lambda: self._find_append_time(offset))

    def append_time_at_hand(self, offset: int) -> int | None:
        """The same, when memory knows it; None also when it does not."""
        if not self._first_kept <= offset < self.durable_end:
            return None
        for part in self._parts():
            if offset < part.end_offset:
                return part.append_time_at_hand(offset)
        return None

    # Cursors and numbers

    def save_cursor(self, subscription_id: int, cursor: Cursor, saved: Saved | None = None) -> None:
        self._journal.save_cursor(subscription_id, cursor, saved)

    def cursor(self, subscription_id: int) -> Cursor | None:
        return self._journal.cursor(subscription_id)

    def forget_cursor(self, subscription_id: int) -> None:
        self._journal.forget_cursor(subscription_id)

    def forget_other_cursors(self, subscription_ids: Container[int]) -> None:
        self._journal.forget_other_cursors(subscription_ids)

    def next_sequence(self, numbering_id: int) -> int:
        return self._journal.next_sequence(numbering_id)

    def offset_of(self, batch: SequencedBatch) -> int | None:
        return self._journal.offset_of(batch)

    # Listeners

    def on_durable(self, listener: Callable[[int], None]) -> None:
        self._journal.on_durable(listener)

    def on_trimmed(self, listener: Trimmed) -> None:
        """Have `listener` called with `start_offset` when retention has moved it."""
        self._trimmed.append(listener)
        self._cold.histories.listen(self.topic_id, listener)

    def close(self) -> None:
        self._cold.histories.unlisten(self.topic_id, self._trimmed)
        self._trimmed = []
        self._cold.ahead.forget(self.topic_id)
        self._journal.close()

    # Inside

    @property
    def _history(self) -> History | None:
        return self._cold.histories.get(self.topic_id)

    @property
    def _first_kept(self) -> int:
        history = self._history
        return history.manifest.start_offset if history is not None else self._journal.start_offset

    def _parts(self) -> Sequence[LogPart]:
        history = self._history
        own = JournalPart(self._journal)
        if history is None:
            return (own,)
        sealed = SegmentsPart(history.manifest, history.body_bytes, self._cold.reader, self._cold.runner)
        return (sealed, *history.foreign, own)

    async def _read_cold(self, offset: int, bytes_max: int) -> list[StoredBatch]:
        found = self.read_hot(offset, bytes_max)
        if found is not None:
            return found
        part, ahead = self._holding(offset), self._cold.ahead
        found = ahead.take(self.topic_id, offset, bytes_max)
        if found is not None:
            return found
        bytes_to_read = ahead.bytes_to_read(self.topic_id, offset, bytes_max, self._cold.clock.monotonic_s())
        if await self._cold.turn.come():
            part, bytes_to_read = self._holding(offset), bytes_max  # it may be elsewhere now
        began_s = self._cold.clock.monotonic_s()
        found = await part.read(offset, bytes_to_read)
        return ahead.keep(self.topic_id, found, bytes_max, began_s, self._cold.clock.monotonic_s())

    async def _find_time(self, append_time_ms: int) -> int:
        found = self._journal.offset_at(append_time_ms)  # first: what is cut meanwhile would be missing from it
        for part in self._parts()[:-1]:
            offset = await part.offset_at(append_time_ms)
            if offset < part.end_offset:
                return offset
        return found

    async def _find_append_time(self, offset: int) -> int | None:
        if not self._first_kept <= offset < self.durable_end:
            return None
        return await self._holding(offset).append_time_ms(offset)

    def _holding(self, offset: int) -> LogPart:
        """The part that holds an offset below the durable end."""
        if offset < self._first_kept:
            start_offset = self.start_offset
            raise OffsetTrimmedError(
                f"offset {offset} is gone: retention left the offsets from {start_offset} on", start_offset
            )
        for part in self._parts():
            if offset < part.end_offset:
                return part
        raise InternalError(f"offset {offset} of topic {self.topic_id} is in no part, though it is durable")

    async def _patiently(self, look: Callable[[], Awaitable[T]]) -> T:
        """Look again when what was looked into has changed meanwhile; a file that went away is then elsewhere."""
        for _ in range(COLD_READ_ATTEMPTS_MAX - 1):
            before = self._history, self._journal.start_offset
            try:
                return await look()
            except (StorageUnavailableError, DamagedDataError):
                if before == (self._history, self._journal.start_offset):
                    raise
        return await look()

    def _last_append_ms(self, history: History | None) -> int | None:
        own = JournalPart(self._journal)
        if own.start_offset < own.end_offset:
            return own.append_time_of(own.end_offset - 1)
        if history is not None and history.foreign:
            return history.foreign[-1].append_time_at_hand(own.end_offset - 1)
        return history.manifest.last_append_time_ms if history is not None else None


class JournalPart:
    """What of a topic is in the broker's own journal and in no segment yet."""

    def __init__(self, log: JournalTopicLog) -> None:
        self._log = log

    @property
    def start_offset(self) -> int:
        return self._log.start_offset

    @property
    def end_offset(self) -> int:
        return self._log.durable_end

    @property
    def body_bytes(self) -> int:
        return self._log.body_bytes

    @property
    def first_append_ms(self) -> int | None:
        """Of the first record; None when there is none."""
        return self._log.append_time_ms(self.start_offset)

    async def read(self, offset: int, bytes_max: int) -> list[StoredBatch]:
        return await self._log.read(offset, bytes_max)

    async def offset_at(self, append_time_ms: int) -> int:
        return self._log.offset_at(append_time_ms)

    async def append_time_ms(self, offset: int) -> int:
        return self.append_time_of(offset)

    def append_time_at_hand(self, offset: int) -> int | None:
        return self._log.append_time_ms(offset)

    def append_time_of(self, offset: int) -> int:
        """As `append_time_ms`, at once: the journal's index is in memory."""
        found = self._log.append_time_ms(offset)
        if found is None:
            raise InternalError(f"offset {offset} is not in the journal")
        return found
