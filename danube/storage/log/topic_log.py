"""One topic's log wherever its batches are kept: cache, segments, journals. Ordered and without a gap.

1. Offsets of a topic are contiguous from 0 for its whole life.
2. `done` is called after the batch is as durable as its topic's durability says, never before.
3. `durable_end`, `read` and `on_durable` show nothing that is not durable.
4. A body whose checksum or counts are wrong is refused before it is written.
5. A failed append leaves nothing behind: its offsets go to the next one.
6. An append that fails makes later ones to the same topic that are still pending fail, too: stored batches keep the
   order of appends, also when all failed ones are appended again.
7. A log whose history cannot be read (`fault`) stores nothing and changes nothing: it may be repaired or restored.

A cold read goes to the part that holds the offset, and answers as far as that part goes. The parts change while it is
under way: a journal file is flushed, segments are merged or removed. Then its file may be gone, and the read starts
again from the parts as they are then. Cold reads never enter the cache: a replay takes nothing from readers of new
messages. All calls are made, and all callbacks run, on the event loop's thread.
"""

from bisect import bisect_right
from collections.abc import Awaitable, Callable, Container
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TypeVar

from danube.model.errors import DamagedDataError, InternalError, OffsetTrimmedError, StorageUnavailableError
from danube.model.limits.broker import COLD_READ_ATTEMPTS_MAX
from danube.model.plans.durability import Durability
from danube.model.subscription import Cursor
from danube.objects.use import TopicObjects
from danube.runtime.blocking import BlockingRunner
from danube.runtime.clock import Clock
from danube.storage.batches.producer_state import SequencedBatch
from danube.storage.batches.stored_batch import AppendDone, Saved, StoredBatch
from danube.storage.disk_space import SpaceGate
from danube.storage.journal.index import TopicIndex
from danube.storage.journal.journal import Journal
from danube.storage.journal.round import TopicState
from danube.storage.log.histories import TopicHistories, TopicHistory, Trimmed
from danube.storage.log.parts import LogPart, SegmentsPart
from danube.storage.log.read_ahead import ReadAhead
from danube.storage.read_throttle import ColdReadThrottle
from danube.storage.segment.reader import SegmentReader

T = TypeVar("T")

_BASE_OFFSET = attrgetter("base_offset")
_EMPTY = TopicIndex()


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicStorageStats:
    """Size and age of one topic's log, without asking a disk."""

    start_offset: int
    end_offset: int
    body_bytes: int
    """Of all batches that can be read."""
    segments: int
    segment_file_bytes: int
    oldest_append_ms: int | None
    """Of the first record that can be read; None when there is none."""
    newest_append_ms: int | None
    unsynced_bytes: int
    """Of batches that are acknowledged and not synced; 0 with durability fsync."""


@dataclass(frozen=True, slots=True)
class ColdStore:
    """Shared parts of all topics' reads of sealed history."""

    reader: SegmentReader
    runner: BlockingRunner
    clock: Clock
    histories: TopicHistories
    gate: SpaceGate
    throttle: ColdReadThrottle
    objects: Callable[[int, TopicIndex, TopicHistory | None], TopicObjects | None]
    """The topic with this id, index and history, in an object store."""
    ahead: ReadAhead = field(default_factory=ReadAhead)


class TopicLog:
    """The log of one topic; any number of them may be open."""

    def __init__(
        self,
        topic: TopicState,
        journal: Journal,
        cold: ColdStore | None = None,
        *,
        uses_reserve: bool = False,
        fault: str | None = None,
    ) -> None:
        """Without `cold` it is the topic's log in the journal alone.

        `uses_reserve` says that it is appended to also while too little room is left for others. `fault` is the text
        that clients get of a log that cannot be read.
        """
        self._topic = topic
        self._journal = journal
        self._cold = cold
        self._gate = None if cold is None or uses_reserve else cold.gate
        self.fault = fault
        self._listeners: list[Callable[[int], None]] = []
        self._trimmed: list[Trimmed] = []

    # What there is

    @property
    def topic_id(self) -> int:
        """The topic's id, which is never used again, not even by a topic of the same name."""
        return self._topic.topic_id

    @property
    def start_offset(self) -> int:
        """The first offset that can be read; retention moves it on.

        From the moment metadata is asked to drop the first segments, this is the offset after them: a subscription
        created here skips no message. A reader below it reads on for as long as they last.
        """
        beginning = self._cold.histories.beginning(self.topic_id) if self._cold is not None else 0
        return max(self._first_kept, beginning)

    @property
    def durable_end(self) -> int:
        """The offset after the last durable record."""
        return self._topic.durable_end

    @property
    def body_bytes(self) -> int:
        """Bytes of the bodies of all batches that can be read."""
        return self._index.body_bytes + sum(part.body_bytes for part in self._parts())

    @property
    def stats(self) -> TopicStorageStats:
        """Size and age."""
        history = self._history
        newest = self._last_append_ms(history)
        return TopicStorageStats(
            start_offset=self.start_offset,
            end_offset=self.durable_end,
            body_bytes=self.body_bytes,
            segments=len(history.manifest.segments) if history is not None else 0,
            segment_file_bytes=history.file_bytes if history is not None else 0,
            oldest_append_ms=self.append_time_at_hand(self.start_offset),
            newest_append_ms=newest if self.start_offset < self.durable_end else None,
            unsynced_bytes=self._index.body_bytes_from(self._journal.synced_to),
        )

    @property
    def objects(self) -> TopicObjects | None:
        """The topic in an object store; None where there is none."""
        return self._cold.objects(self.topic_id, self._index, self._history) if self._cold is not None else None

    @property
    def oldest_in_last_file_ms(self) -> int | None:
        """Append time of the first record in the journal's last file; None when there is none."""
        return self._index.first_append_ms_from(self._journal.last_file_position)

    def refusal(self) -> StorageUnavailableError:
        """The error of every use of a log with a `fault`."""
        return StorageUnavailableError(self.fault or "")

    # Appends

    def append_record(self, record: bytes, done: AppendDone) -> None:
        """Add one encoded StreamMessage to the batch that is being formed for the next round.

        Raises OverloadedError when the backlog is at its bound, StorageUnavailableError when the journal has stopped.
        """
        self._check(len(record))
        self._journal.commit.append_record(self._topic, record, done)
        self._admitted(len(record))

    def append_batch(self, body: bytes, done: AppendDone) -> None:
        """Append a client-made batch. Raises as `append_record`, and InvalidBatchError when the body is wrong."""
        self._check(len(body))
        self._journal.commit.append_batch(self._topic, body, done)
        self._admitted(len(body))

    def set_durability(self, durability: Durability | None) -> None:
        """Set when appends are acknowledged; None is the broker's setting.

        Appends and cursors that wait at a change to fsync are acknowledged after their sync. In a shared folder
        everything is, whatever is set.
        """
        commit = self._journal.commit
        commit.set_durability(self._topic, commit.durability if durability is None else durability)

    def confirm(self, offset: int, done: AppendDone) -> None:
        """Acknowledge the batch at `offset` once more, when it is as durable as appends are now.

        Raises StorageUnavailableError when the journal has stopped, ShuttingDownError.
        """
        self._check_readable()
        self._journal.commit.confirm(self._topic, offset, done)

    def next_sequence(self, numbering_id: int) -> int:
        """The sequence number after the last durable one of a row, restarts included; 0 of an unknown row."""
        self._check_readable()
        return self._topic.producer_states.next_sequence(numbering_id) if self._topic.producer_states else 0

    def offset_of(self, batch: SequencedBatch) -> int | None:
        """The offset of this very batch, if it is durable and one of the last DEDUPLICATION_BATCHES_MAX of its row."""
        return self._topic.producer_states.offset_of(batch) if self._topic.producer_states else None

    # Cursors

    def save_cursor(self, subscription_id: int, cursor: Cursor, saved: Saved | None = None) -> None:
        """Write a subscription's cursor with a coming round; the last one wins.

        With `saved` a round is started for it; without, it waits up to CURSOR_INTERVAL_S for one.
        """
        if self.fault is None:
            self._journal.commit.save_cursor(self._topic, subscription_id, cursor, saved)
        elif saved is not None:
            saved(self.refusal())

    def cursor(self, subscription_id: int) -> Cursor | None:
        """The last cursor saved for the subscription, restarts included; None when there never was one."""
        return self._topic.cursors.get(subscription_id) if self._topic.cursors else None

    def forget_cursor(self, subscription_id: int) -> None:
        """Drop the cursor of a deleted subscription, also one that waits to be written."""
        if self.fault is None:
            self._journal.commit.forget_cursor(self._topic, subscription_id)
            self._journal.forget_cursor(self.topic_id, subscription_id)

    def forget_other_cursors(self, subscription_ids: Container[int]) -> None:
        """Drop the cursors of all subscriptions but these; a start recovers the last cursors of deleted ones."""
        for subscription_id in [each for each in self._topic.cursors or () if each not in subscription_ids]:
            self.forget_cursor(subscription_id)

    # Reads

    def read_hot(self, offset: int, bytes_max: int) -> list[StoredBatch] | None:
        """Batches from the one that holds `offset`, as far as they are in memory; None when that one is not.

        At least one batch, then as many as fit in `bytes_max`; empty at the durable end.
        """
        return self._journal.reads.hot(self._topic, offset, bytes_max) if self.fault is None else None

    async def read(self, offset: int, bytes_max: int) -> list[StoredBatch]:
        """Batches from the one that holds `offset`: at least one, then as many as fit and are kept in the same place.

        Empty at the durable end. Raises OffsetTrimmedError for what retention removed; DamagedDataError and
        StorageUnavailableError when that batch cannot be read: what is sound before a fault is answered first.
        """
        found = self.read_hot(offset, bytes_max)
        if found is not None:
            return found
        return await self._with_retries(lambda: self._read_cold(offset, bytes_max))

    async def offset_at(self, append_time_ms: int) -> int:
        """The first offset of the first batch appended at this time or later; `durable_end` when there is none.

        Raises DamagedDataError, StorageUnavailableError.
        """
        return await self._with_retries(lambda: self._find_time(append_time_ms))

    def offset_in_journal(self, append_time_ms: int) -> int:
        """As `offset_at`, at once, of what is in the journal only."""
        return self._index.offset_at(append_time_ms)

    async def append_time_ms(self, offset: int) -> int | None:
        """Append time of the durable record at this offset; None when there is none. Raises as `offset_at`."""
        return await self._with_retries(lambda: self._find_append_time(offset))

    def append_time_at_hand(self, offset: int) -> int | None:
        """The same, when memory knows it; None also when it does not."""
        if not self._first_kept <= offset < self.durable_end:
            return None
        part = self._holding(offset)
        return self._index.append_time_ms(offset) if part is None else part.append_time_at_hand(offset)

    def segment_newest_ms(self, offset: int) -> int | None:
        """Append time of the newest record in the segment of this one; None while it is in no segment."""
        history = self._history
        if history is None or offset >= history.manifest.end_offset or not history.manifest.segments:
            return None
        segments = history.manifest.segments
        return segments[bisect_right(segments, offset, key=_BASE_OFFSET) - 1].last_append_time_ms

    # Listeners

    def on_durable(self, listener: Callable[[int], None]) -> None:
        """Have `listener` called with `durable_end` once a round in which it grew."""
        self._listeners.append(listener)
        self._topic.listeners = (*self._topic.listeners, listener)

    def on_trimmed(self, listener: Trimmed) -> None:
        """Have `listener` called with `start_offset` when retention has moved it."""
        if self._cold is not None:
            self._trimmed.append(listener)
            self._cold.histories.listen(self.topic_id, listener)

    def close(self) -> None:
        """Drop listeners and memory; the data stays."""
        if self._cold is not None:
            self._cold.histories.unlisten(self.topic_id, self._trimmed)
            self._cold.ahead.forget(self.topic_id)
        mine, self._listeners, self._trimmed = self._listeners, [], []
        self._topic.listeners = tuple(one for one in self._topic.listeners if one not in mine)
        self._journal.reads.drop_cached(self._topic)

    # Inside

    @property
    def _index(self) -> TopicIndex:
        return self._topic.index if self._topic.index is not None else _EMPTY

    @property
    def _history(self) -> TopicHistory | None:
        return self._cold.histories.get(self.topic_id) if self._cold is not None else None

    @property
    def _first_kept(self) -> int:
        history = self._history
        return history.manifest.start_offset if history is not None else self._index.start_offset

    def _check_readable(self) -> None:
        if self.fault is not None:
            raise self.refusal()

    def _check(self, size: int) -> None:
        if self.fault is not None:
            raise self.refusal()
        if self._gate is not None:
            self._gate.check(size)

    def _admitted(self, size: int) -> None:
        if self._cold is not None:
            self._cold.gate.admitted_bytes += size

    def _parts(self) -> tuple[LogPart, ...]:
        """The parts before the own journal, in order."""
        history = self._history
        if history is None or self._cold is None:
            return ()
        return (
            SegmentsPart(history.manifest, history.body_bytes, self._cold.reader, self._cold.runner),
            *history.tails,
        )

    def _holding(self, offset: int) -> LogPart | None:
        """The part that holds an offset below the durable end; None for the own journal."""
        if offset < self._first_kept:
            start_offset = self.start_offset
            raise OffsetTrimmedError(
                f"offset {offset} is gone: retention left the offsets from {start_offset} on", start_offset
            )
        for part in self._parts():
            if offset < part.end_offset:
                return part
        if offset >= self.durable_end:
            raise InternalError(f"offset {offset} of topic {self.topic_id} is in no part, though it is durable")
        return None

    async def _read_cold(self, offset: int, bytes_max: int) -> list[StoredBatch]:
        self._check_readable()
        cold = self._cold
        if cold is None:
            return await self._journal.reads.read(self._topic, offset, bytes_max)
        found = self.read_hot(offset, bytes_max)
        if found is not None:
            return found
        part, ahead = self._holding(offset), cold.ahead
        found = ahead.take(self.topic_id, offset, bytes_max)
        if found is not None:
            return found
        bytes_to_read = ahead.bytes_to_read(self.topic_id, offset, bytes_max, cold.clock.monotonic_s())
        if await cold.throttle.wait():
            part, bytes_to_read = self._holding(offset), bytes_max  # it may be elsewhere now
        began_s = cold.clock.monotonic_s()
        if part is None:
            found = await self._journal.reads.read(self._topic, offset, bytes_to_read)
        else:
            found = await part.read(offset, bytes_to_read)
        return ahead.keep(self.topic_id, found, bytes_max, began_s, cold.clock.monotonic_s())

    async def _find_time(self, append_time_ms: int) -> int:
        self._check_readable()
        found = self.offset_in_journal(append_time_ms)  # first: what is flushed meanwhile would be missing from it
        for part in self._parts():
            offset = await part.offset_at(append_time_ms)
            if offset < part.end_offset:
                return offset
        return found

    async def _find_append_time(self, offset: int) -> int | None:
        self._check_readable()
        if not self._first_kept <= offset < self.durable_end:
            return None
        part = self._holding(offset)
        return self._index.append_time_ms(offset) if part is None else await part.append_time_ms(offset)

    async def _with_retries(self, find: Callable[[], Awaitable[T]]) -> T:
        """Try again when the parts have changed meanwhile; a file that was removed is then elsewhere."""
        for _ in range(COLD_READ_ATTEMPTS_MAX - 1):
            before = self._history, self._index.start_offset
            try:
                return await find()
            except (StorageUnavailableError, DamagedDataError):
                if before == (self._history, self._index.start_offset):
                    raise
        return await find()

    def _last_append_ms(self, history: TopicHistory | None) -> int | None:
        if self._index.start_offset < self.durable_end:
            return self._index.last_append_time_ms
        if history is not None and history.tails:
            return history.tails[-1].append_time_at_hand(self.durable_end - 1)
        return history.manifest.last_append_time_ms if history is not None else None
