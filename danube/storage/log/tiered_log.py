"""One topic's log wherever its batches are kept: cache, segments, journals. Ordered and without a gap.

A cold read goes to the part that holds the offset, and answers as far as that part goes. The parts change while it is
under way: a journal file is flushed, segments are merged or removed. Then its file may be gone, and the read starts
again from the parts as they are then. Cold reads never enter the cache: a replay takes nothing from readers of new
messages.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Protocol, TypeVar

from danube.model.errors import DamagedDataError, InternalError, OffsetTrimmedError, StorageUnavailableError
from danube.model.limits.broker import COLD_READ_ATTEMPTS_MAX
from danube.objects.use import TopicObjects
from danube.runtime.blocking import BlockingRunner
from danube.runtime.clock import Clock
from danube.storage.disk_space import SpaceGate
from danube.storage.flush.topic_histories import TopicHistories, TopicHistory, Trimmed
from danube.storage.journal.index import TopicIndex
from danube.storage.journal.journal import Journal, JournalTopicLog
from danube.storage.journal.round import TopicState
from danube.storage.log.protocol import AppendDone, StoredBatch, TopicStorageStats
from danube.storage.log.read_ahead import ReadAhead
from danube.storage.log.read_throttle import ColdReadThrottle
from danube.storage.segment.manifest import Manifest, Segment
from danube.storage.segment.reader import SegmentReader

_BASE_OFFSET = attrgetter("base_offset")
_LAST_TIME = attrgetter("last_append_time_ms")


class LogPart(Protocol):
    """One run of a topic's batches. It may move to another place while it is read: then a read fails or is short."""

    @property
    def start_offset(self) -> int:
        """The offset of its first record; `end_offset` when it is empty."""

    @property
    def end_offset(self) -> int:
        """The offset after its last record."""

    @property
    def body_bytes(self) -> int:
        """Bytes of the bodies of its batches."""

    async def read(self, offset: int, bytes_max: int) -> list[StoredBatch]:
        """From the batch that holds `offset`, which is within the part: at least one, and what fits of this part.

        Fewer before a fault. Raises DamagedDataError, StorageUnavailableError when the first cannot be read, and
        ShuttingDownError when the thread that reads is closed.
        """

    async def offset_at(self, append_time_ms: int) -> int:
        """The first offset of the first batch appended at this time or later; `end_offset` when there is none."""

    async def append_time_ms(self, offset: int) -> int | None:
        """Append time of the record at this offset; None when the part does not have it."""

    def append_time_at_hand(self, offset: int) -> int | None:
        """The same, when memory knows it; None when it does not."""


class SegmentsPart:
    """The sealed history of a topic, as one manifest lists it."""

    def __init__(self, manifest: Manifest, body_bytes: int, reader: SegmentReader, runner: BlockingRunner) -> None:
        self._manifest = manifest
        self._reader = reader
        self._runner = runner
        self.start_offset, self.end_offset, self.body_bytes = manifest.start_offset, manifest.end_offset, body_bytes

    async def read(self, offset: int, bytes_max: int) -> list[StoredBatch]:
        topic_id, segments = self._manifest.topic_id, self._manifest.segments
        return await self._runner.run(lambda: self._reader.read(topic_id, segments, offset, bytes_max))

    async def offset_at(self, append_time_ms: int) -> int:
        segments = self._manifest.segments
        number = bisect_left(segments, append_time_ms, key=_LAST_TIME)
        if number == len(segments):
            return self.end_offset
        topic_id, segment = self._manifest.topic_id, segments[number]
        if append_time_ms <= segment.first_append_time_ms:
            return segment.base_offset
        return await self._runner.run(lambda: self._reader.offset_at(topic_id, segment, append_time_ms))

    async def append_time_ms(self, offset: int) -> int:
        topic_id, segment = self._manifest.topic_id, self._holding(offset)
        if segment.first_append_time_ms == segment.last_append_time_ms:
            return segment.first_append_time_ms
        return await self._runner.run(lambda: self._reader.append_time_ms(topic_id, segment, offset))

    def append_time_at_hand(self, offset: int) -> int | None:
        segment = self._holding(offset)
        if offset == segment.base_offset or segment.first_append_time_ms == segment.last_append_time_ms:
            return segment.first_append_time_ms
        return segment.last_append_time_ms if offset == segment.end_offset - 1 else None

    def _holding(self, offset: int) -> Segment:
        segments = self._manifest.segments
        return segments[bisect_right(segments, offset, key=_BASE_OFFSET) - 1]


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ColdStore:
    """Shared parts of all topics' reads of sealed history."""

    reader: SegmentReader
    runner: BlockingRunner
    clock: Clock
    histories: TopicHistories
    gate: SpaceGate
    synced_to: Callable[[], int]
    """Position up to which the journal is synced."""
    last_file_from: Callable[[], int]
    """Position at which the journal's last file begins."""
    throttle: ColdReadThrottle
    objects: Callable[[int, TopicIndex, TopicHistory | None], TopicObjects | None]
    """The topic with this id, index and history, in an object store."""
    ahead: ReadAhead = field(default_factory=ReadAhead)


class TieredLog(JournalTopicLog):
    """The log of one topic, a `TopicLog`; any number of them may be open.

    It is the topic's log in the journal, with the sealed history and the former owners' tails in front.
    """

    def __init__(self, topic: TopicState, journal: Journal, cold: ColdStore, *, uses_reserve: bool = False) -> None:
        """`uses_reserve` says that it is appended to also while too little room is left for others."""
        super().__init__(topic, journal)
        self._own = JournalTopicLog(topic, journal)
        self._cold = cold
        self._uses_reserve = uses_reserve
        self._trimmed: list[Trimmed] = []

    # What there is

    @property
    def start_offset(self) -> int:
        """The first offset that can be read; retention moves it on.

        From the moment metadata is asked to drop the first segments, this is the offset after them: a subscription
        created here skips no message. A reader below it reads on for as long as they last.
        """
        return max(self._first_kept, self._cold.histories.beginning(self.topic_id))

    @property
    def body_bytes(self) -> int:
        return sum(part.body_bytes for part in self._parts())

    @property
    def stats(self) -> TopicStorageStats:
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
            unsynced_bytes=self._index.body_bytes_from(self._cold.synced_to()),
        )

    @property
    def objects(self) -> TopicObjects | None:
        return self._cold.objects(self.topic_id, self._index, self._history)

    @property
    def oldest_in_last_file_ms(self) -> int | None:
        """Append time of the first record in the journal's last file; None when there is none."""
        return self._index.first_append_ms_from(self._cold.last_file_from())

    # Appends

    def append_record(self, record: bytes, done: AppendDone) -> None:
        gate = self._cold.gate
        if not self._uses_reserve:
            gate.check(len(record))
        self._journal.commit.append_record(self._topic, record, done)
        gate.admitted_bytes += len(record)

    def append_batch(self, body: bytes, done: AppendDone) -> None:
        if not self._uses_reserve:
            self._cold.gate.check(len(body))
        super().append_batch(body, done)
        self._cold.gate.admitted_bytes += len(body)

    # Reads

    def read_hot(self, offset: int, bytes_max: int) -> list[StoredBatch] | None:
        return None if offset < self._index.start_offset else super().read_hot(offset, bytes_max)

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
        return await self._with_retries(lambda: self._find_time(append_time_ms))

    async def append_time_ms(self, offset: int) -> int | None:
        return await self._with_retries(lambda: self._find_append_time(offset))

    def append_time_at_hand(self, offset: int) -> int | None:
        if not self._first_kept <= offset < self.durable_end:
            return None
        return self._holding(offset).append_time_at_hand(offset)

    def segment_newest_ms(self, offset: int) -> int | None:
        history = self._history
        if history is None or offset >= history.manifest.end_offset or not history.manifest.segments:
            return None
        segments = history.manifest.segments
        return segments[bisect_right(segments, offset, key=_BASE_OFFSET) - 1].last_append_time_ms

    def on_trimmed(self, listener: Trimmed) -> None:
        """Have `listener` called with `start_offset` when retention has moved it."""
        self._trimmed.append(listener)
        self._cold.histories.listen(self.topic_id, listener)

    def close(self) -> None:
        self._cold.histories.unlisten(self.topic_id, self._trimmed)
        self._trimmed = []
        self._cold.ahead.forget(self.topic_id)
        super().close()

    @property
    def _history(self) -> TopicHistory | None:
        return self._cold.histories.get(self.topic_id)

    @property
    def _first_kept(self) -> int:
        history = self._history
        return history.manifest.start_offset if history is not None else self._index.start_offset

    def _parts(self) -> Sequence[LogPart]:
        history = self._history
        if history is None:
            return (self._own,)
        sealed = SegmentsPart(history.manifest, history.body_bytes, self._cold.reader, self._cold.runner)
        return (sealed, *history.tails, self._own)

    async def _read_cold(self, offset: int, bytes_max: int) -> list[StoredBatch]:
        found = self.read_hot(offset, bytes_max)
        if found is not None:
            return found
        part, ahead = self._holding(offset), self._cold.ahead
        found = ahead.take(self.topic_id, offset, bytes_max)
        if found is not None:
            return found
        bytes_to_read = ahead.bytes_to_read(self.topic_id, offset, bytes_max, self._cold.clock.monotonic_s())
        if await self._cold.throttle.wait():
            part, bytes_to_read = self._holding(offset), bytes_max  # it may be elsewhere now
        began_s = self._cold.clock.monotonic_s()
        found = await part.read(offset, bytes_to_read)
        return ahead.keep(self.topic_id, found, bytes_max, began_s, self._cold.clock.monotonic_s())

    async def _find_time(self, append_time_ms: int) -> int:
        found = self.offset_in_journal(append_time_ms)  # first: what is flushed meanwhile would be missing from it
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
