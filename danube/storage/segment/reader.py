"""Reads batches back from segments. All of it blocks; a reader is owned by one thread at a time.

Every answered byte was checked against the checksum of its block, and the block against the index and the manifest: a
file in the place of another is damage, too.

Every method raises DamagedDataError, which names file and byte; StorageUnavailableError, whose cause is a
FileNotFoundError when the file is not there (any more); DataFolderError when a later version wrote the file.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from danube.model.errors import DamagedDataError, DataFolderError, StorageUnavailableError
from danube.model.limits.broker import SEGMENT_READ_AHEAD_BYTES_MAX, SEGMENT_READ_BYTES_MAX, SEGMENT_TAIL_BYTES
from danube.storage.batches.codec import BlockCodec, Codec, CodecSource, open_codec
from danube.storage.batches.stored_batch import EncodedBatch, StoredBatch
from danube.storage.segment.block import Content, batches_of, encoded_batches_of, is_taken, open_block, take_batches
from danube.storage.segment.block_index import BlockEntry, BlockIndex
from danube.storage.segment.manifest import Segment, folder_of, segment_name
from danube.storage.segment.opened import OpenedSegments, SegmentKey, run_of
from danube.storage.segment.reader_cache import LruCache
from danube.storage.tiers.tier import SegmentTier

_KEPT_BATCH_BYTES = 200  # what a kept batch costs besides envelope and body, roughly
_LAST_BYTES = SEGMENT_READ_BYTES_MAX + SEGMENT_TAIL_BYTES  # of a file: the last run of it, and its index


@dataclass(frozen=True, slots=True)
class _Source:
    """A segment that is being read."""

    topic_id: int
    segment: Segment
    index: BlockIndex

    @property
    def key(self) -> SegmentKey:
        return self.topic_id, self.segment.base_offset, self.segment.manifest_version

    @property
    def name(self) -> str:
        return segment_name(self.topic_id, self.segment)


class SegmentReader:
    """Reads segments of one tier, with a bounded memory of indexes and of blocks that were not read to their end."""

    def __init__(self, tier: SegmentTier, *, codecs: CodecSource = open_codec) -> None:
        self._tier = tier
        self._opened = OpenedSegments(tier)
        self._codecs = codecs
        self._codecs_opened: dict[Codec, BlockCodec] = {}
        self._blocks: LruCache[tuple[SegmentKey, int], list[StoredBatch]] = LruCache(SEGMENT_READ_AHEAD_BYTES_MAX)

    def read(self, topic_id: int, segments: Sequence[Segment], offset: int, bytes_max: int) -> list[StoredBatch]:
        """Batches from the one that holds `offset`: one, then as many as fit in `bytes_max`, of whatever segments.

        `segments` follow on each other, and one of them holds `offset`. What is sound before a fault is answered: the
        fault is raised by the next read. A reader that continues where the last answer ended reads no block twice.
        """
        found: list[StoredBatch] = []
        number, room = bisect_right(segments, offset, key=_base_offset) - 1, bytes_max
        try:
            while number < len(segments) and (room > 0 or not found):
                source, number = self._source(topic_id, segments[number]), number + 1
                room = self._read_one(source, segments[number : number + 1], offset, room, found)
        except (DamagedDataError, StorageUnavailableError, DataFolderError):
            if not found:
                raise
        return found

    def encoded(self, topic_id: int, segment: Segment) -> Iterator[list[EncodedBatch]]:
        """All batches, by the block; every checksum of the file, the envelopes and the bodies is checked on the way."""
        source = _Source(topic_id, segment, self._opened.check_whole(topic_id, segment))
        number = 0
        while number < len(source.index):
            for content in self._contents(source, run_of(source.index, number, SEGMENT_READ_BYTES_MAX)):
                yield encoded_batches_of(content)
                number += 1

    def verify(self, topic_id: int, segment: Segment) -> None:
        """Return when every byte of the segment is what was written."""
        for _ in self.encoded(topic_id, segment):
            pass

    def offset_at(self, topic_id: int, segment: Segment, append_time_ms: int) -> int:
        """The first offset of the first batch appended at this time or later; the end offset when there is none."""
        source = self._source(topic_id, segment)
        number = source.index.find_time(append_time_ms)
        if number == len(source.index):
            return segment.end_offset
        entry = source.index[number]
        if append_time_ms <= entry.first_append_time_ms:
            return entry.base_offset
        return next(one.base_offset for one in self._block(source, number) if one.append_time_ms >= append_time_ms)

    def append_time_ms(self, topic_id: int, segment: Segment, offset: int) -> int:
        """Append time of the batch that holds `offset`, which is in the segment."""
        source = self._source(topic_id, segment)
        number = source.index.find(offset)
        entry = source.index[number]
        if entry.first_append_time_ms == entry.last_append_time_ms:
            return entry.last_append_time_ms
        batches = self._block(source, number)
        return batches[bisect_right(batches, offset, key=_base_offset) - 1].append_time_ms

    def forget(self, topic_id: int) -> None:
        """Drop a topic from memory, and close its files."""
        self._opened.forget(topic_id)
        self._blocks.drop_all(lambda key: key[0][0] == topic_id)
        self._tier.close_folder(folder_of(topic_id))

    def _source(self, topic_id: int, segment: Segment) -> _Source:
        return _Source(topic_id, segment, self._opened.index(topic_id, segment))

    def _read_one(
        self, source: _Source, following: Sequence[Segment], offset: int, room: int, found: list[StoredBatch]
    ) -> int:
        """Add the batches of one segment, from `offset` on, that fit in `room`; answers what room is left.

        It continues in `following`, now or soon: the disk may start to read that while these are used.
        """
        number = 0 if found else source.index.find(offset)
        while number < len(source.index) and (room > 0 or not found):
            left = source.segment.file_bytes - source.index[number].position
            if following and left <= _LAST_BYTES and room >= min(left, SEGMENT_READ_BYTES_MAX):
                self._opened.expect(source.topic_id, following[0])
                following = ()
            for batches in self._run(source, number, room):
                first = bisect_right(batches, offset, key=_base_offset) - 1 if not found else 0
                for batch in batches[first:]:
                    room -= len(batch.body)
                    if found and room < 0:
                        self._keep(source, number, batches)
                        return room
                    found.append(batch)
                self._blocks.drop((source.key, number))
                number += 1
        return room

    def _block(self, source: _Source, number: int) -> list[StoredBatch]:
        """One block, kept for a reader that looks up a place and reads on from there."""
        (batches,) = self._run(source, number, 0)
        self._keep(source, number, batches)
        return batches

    def _run(self, source: _Source, number: int, room: int) -> Iterable[list[StoredBatch]]:
        """The block `number`, and those after it that fit in `room` when it was not kept."""
        kept = self._blocks.get((source.key, number))
        if kept is not None:
            return [kept]
        return self._batches(source, run_of(source.index, number, room))

    def _batches(self, source: _Source, entries: Sequence[BlockEntry]) -> Iterator[list[StoredBatch]]:
        """The batches of each block: body by body as long as that is better, and nothing is wrong."""
        plain = next((number for number, entry in enumerate(entries) if not is_taken(entry)), len(entries))
        if plain:
            take = self._opened.take(source.name, entries[:plain])
            for number, entry in enumerate(entries[:plain]):
                batches = take_batches(take, entry, source.topic_id)
                if batches is None:
                    plain = number
                    break
                yield batches
        if plain < len(entries):
            yield from map(batches_of, self._contents(source, entries[plain:]))

    def _keep(self, source: _Source, number: int, batches: list[StoredBatch]) -> None:
        cost_bytes = source.index[number].plain_bytes + _KEPT_BATCH_BYTES * len(batches)
        self._blocks.put((source.key, number), batches, cost_bytes)

    def _contents(self, source: _Source, entries: Sequence[BlockEntry]) -> Iterator[Content]:
        """Checked blocks, one at a time: the next one may take the memory of the last."""
        for encoded, entry in zip(self._opened.blocks(source.name, entries), entries, strict=True):
            yield open_block(encoded, entry, source.topic_id, source.name, self._codec)

    def _codec(self, codec: Codec) -> BlockCodec:
        if codec not in self._codecs_opened:
            self._codecs_opened[codec] = self._codecs(codec)
        return self._codecs_opened[codec]


def _base_offset(run: StoredBatch | Segment) -> int:
    return run.base_offset
