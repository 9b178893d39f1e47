"""Fetch: a reader of stored, durable batches by offset or by time, as fast as the client reads.

One list of batches is in memory at a time, so thousands of readers cost no more than their streams' queues.
"""

import logging
from collections.abc import Sequence
from typing import Protocol

from danube.broker.topics.topic import ReliableTopic
from danube.model.calls.stream import Fetch, FetchedBatch, FetchFrom, FetchTime, TopicBounds
from danube.model.errors import DanubeError, InvalidRequestError, OffsetTrimmedError, StorageUnavailableError
from danube.model.limits.broker import READ_BYTES_MAX
from danube.model.limits.stream import FETCH_ANSWER_BYTES
from danube.runtime.tasks import TaskScope
from danube.storage.batches.stored_batch import StoredBatch
from danube.storage.log.topic_log import TopicLog

_log = logging.getLogger(__name__)


class FetchOutlet(Protocol):
    """The way to the reader."""

    @property
    def room(self) -> int:
        """As `ServerStream.room`."""

    def write(self, batches: Sequence[FetchedBatch]) -> None:
        """Deliver batches; only called where there is room."""

    def finish(self) -> None:
        """Everything that was asked for was delivered."""

    def fail(self, error: DanubeError) -> None:
        """End, for this reason."""


async def resolve(wanted: Fetch, log: TopicLog) -> tuple[int, int | None]:
    """The first offset to read and the one to end before; None is no end.

    Raises InvalidRequestError, OffsetTrimmedError, and DamagedDataError and StorageUnavailableError for a time.
    """
    start = await _start(wanted, log)
    first, durable_end = log.start_offset, log.durable_end
    if 0 <= start < first:
        raise OffsetTrimmedError(
            f"{wanted.topic} has offsets {first} to {durable_end} (not included): retention has trimmed {start}. "
            f"Begin at {first}, or at the earliest",
            first,
        )
    if not first <= start <= durable_end:
        raise InvalidRequestError(
            f"{wanted.topic} has offsets {first} to {durable_end} (not included), and {start} is not among them"
        )
    if wanted.end is None:
        return start, None if wanted.follow else durable_end
    if wanted.end < start or (wanted.end > durable_end and not wanted.follow):
        raise InvalidRequestError(
            f"{wanted.topic} can be read from {start} to at most {durable_end}, and not to {wanted.end}; "
            "to wait for what comes later, follow"
        )
    return start, wanted.end


async def _start(wanted: Fetch, log: TopicLog) -> int:
    match wanted.start:
        case FetchFrom.EARLIEST:
            return log.start_offset
        case FetchFrom.LATEST:
            return log.durable_end
        case FetchTime(append_time_ms):
            found = await log.offset_at(append_time_ms)
            return max(log.start_offset, found)
        case int(offset):
            return offset


async def bounds_of(log: TopicLog, append_times_ms: Sequence[int]) -> TopicBounds:
    """The offsets that can be read now, and those of records by append time. Raises as `TopicLog.offset_at`."""
    found = [await log.offset_at(at_ms) for at_ms in append_times_ms]
    first, durable_end = log.start_offset, log.durable_end
    offsets = tuple(min(max(first, offset), durable_end) for offset in found)
    return TopicBounds(topic_id=log.topic_id, start_offset=first, end_offset=durable_end, offsets=offsets)


class FetchSession:
    """Reads from its position to its end, whenever there is room and something durable to read."""

    def __init__(self, topic: ReliableTopic, wanted: Fetch, outlet: FetchOutlet, tasks: TaskScope) -> None:
        """It does nothing until `begin`."""
        self._topic = topic
        self._wanted = wanted
        self._outlet = outlet
        self._tasks = tasks
        self._at = 0
        self._end: int | None = None
        self._bytes_max = min(wanted.bytes_max or FETCH_ANSWER_BYTES, READ_BYTES_MAX)
        self._ended = False
        self._reading = True
        topic.streams.add(self)

    async def begin(self) -> bool:
        """Find the first offset; answers whether it has begun. For unknown offsets the outlet fails."""
        try:
            self._at, self._end = await resolve(self._wanted, self._topic.log)
        except (StorageUnavailableError, InvalidRequestError, OffsetTrimmedError) as error:
            self._fail(error)
        except DanubeError as error:
            self._unreadable(f"{self._wanted.start}", error)
        if self._ended:
            return False
        if self._wanted.follow:
            self._topic.followers.add(self.pump)
        self._reading = False
        return True

    def pump(self) -> None:
        """Deliver what can be delivered now."""
        while not (self._ended or self._reading):
            if self._at == self._end:
                self.cancel()
                self._outlet.finish()
            elif self._outlet.room <= 0 or self._at >= self._topic.log.durable_end:
                return
            else:
                self._read_next()

    def stop(self, error: DanubeError) -> None:
        """End: the topic is not served here any more."""
        self._fail(error)

    def cancel(self) -> None:
        """The reader has left."""
        self._ended = True
        self._topic.streams.discard(self)
        self._topic.followers.discard(self.pump)

    def _read_next(self) -> None:
        hot = self._topic.log.read_hot(self._at, self._bytes_max)
        if hot is not None:
            self._deliver(hot)
            return
        self._reading = True
        self._tasks.spawn(self._read_cold(), f"fetch from {self._at}")

    async def _read_cold(self) -> None:
        try:
            batches = await self._topic.log.read(self._at, self._bytes_max)
        except OffsetTrimmedError as error:
            self._fail(error)
            return
        except DanubeError as error:
            self._unreadable(f"offset {self._at}", error)
            return
        self._reading = False
        if not self._ended:
            self._deliver(batches)
            self.pump()

    def _deliver(self, stored: Sequence[StoredBatch]) -> None:
        batches = [self._slice(batch) for batch in stored if self._end is None or batch.base_offset < self._end]
        last = batches[-1]
        self._at = last.base_offset + last.end
        self._outlet.write(batches)

    def _slice(self, batch: StoredBatch) -> FetchedBatch:
        """The whole batch and the part of it that was asked for."""
        first = max(0, self._at - batch.base_offset)
        end = batch.count if self._end is None else min(batch.count, self._end - batch.base_offset)
        return FetchedBatch(batch.base_offset, batch.count, batch.append_time_ms, batch.body, first, end)

    def _unreadable(self, what: str, error: DanubeError) -> None:
        _log.error("cannot read %s of %s: %s", what, self._topic.name, error)
        self._fail(StorageUnavailableError("stored messages cannot be read; the broker's log says why"))

    def _fail(self, error: DanubeError) -> None:
        if not self._ended:
            self.cancel()
            self._outlet.fail(error)
