"""Runs of a topic's batches outside the broker's own journal: segments, and the tails in former owners' journals.

A part may move to another place while it is read: then a read fails, or is short. All parts read alike:

- `read` begins with the batch that holds an offset within the part, and answers at least one and what fits of this
  part, fewer before a fault. It raises DamagedDataError, StorageUnavailableError when the first cannot be read, and
  ShuttingDownError when the thread that reads is closed.
- `offset_at` answers the first offset of the first batch appended at a time or later, `end_offset` when there is none.
- `append_time_ms` answers the append time of a record, `append_time_at_hand` only what memory knows.
"""

from bisect import bisect_left, bisect_right
from operator import attrgetter

from danube.runtime.blocking import BlockingRunner
from danube.storage.batches.stored_batch import StoredBatch
from danube.storage.journal.index import FileTable, IndexRun, TopicIndex
from danube.storage.journal.reader import JournalReader
from danube.storage.segment.manifest import Manifest, Segment
from danube.storage.segment.reader import SegmentReader

_BASE_OFFSET = attrgetter("base_offset")
_LAST_TIME = attrgetter("last_append_time_ms")


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


class PreviousOwnerTail:
    """Batches in a former owner's journal: one epoch of a topic, sealed at `end_offset`.

    The runner's thread owns the reader, which several tails of one journal may share. No file stays open after a read:
    the journal's folder is removed when everything in it is in segments, and a tail is read only until then.
    """

    def __init__(
        self,
        topic_id: int,
        index: TopicIndex,
        end_offset: int,
        *,
        folder: str,
        files: FileTable,
        reader: JournalReader,
        runner: BlockingRunner,
    ) -> None:
        self._topic_id = topic_id
        self._index = index
        self._reader = reader
        self._runner = runner
        self.folder = folder
        self.files = files
        self.start_offset = index.start_offset
        self.end_offset = max(min(end_offset, index.end_offset), index.start_offset)
        self.body_bytes = sum(self.run().lengths)  # column by column: live messages wait for it

    async def read(self, offset: int, bytes_max: int) -> list[StoredBatch]:
        run = self._index.run_at(offset, bytes_max, self.end_offset)
        return await self._runner.run(lambda: self._read(run))

    async def offset_at(self, append_time_ms: int) -> int:
        return min(self._index.offset_at(append_time_ms), self.end_offset)

    async def append_time_ms(self, offset: int) -> int | None:
        return self._index.append_time_ms(offset)

    def append_time_at_hand(self, offset: int) -> int | None:
        return self._index.append_time_ms(offset)

    def run(self) -> IndexRun:
        """All of its batches, for a `JournalReader`."""
        return self._index.up_to(self.end_offset)

    def _read(self, run: IndexRun) -> list[StoredBatch]:
        try:
            return self._reader.read_run(self._topic_id, run, self.files)
        finally:
            self._reader.close()


LogPart = SegmentsPart | PreviousOwnerTail
