"""The parts of a topic's log: runs of batches, each kept in one place, that follow on each other."""

from bisect import bisect_left, bisect_right
from operator import attrgetter
from typing import Protocol

from danube.runtime.blocking import BlockingRunner
from danube.storage.log.protocol import StoredBatch
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
