"""Opens segments of a tier and checks their indexes. All of it blocks."""

from collections.abc import Iterator, Sequence

from danube.model.errors import StorageUnavailableError
from danube.model.limits.broker import SEGMENT_INDEX_CACHE_BYTES_MAX, SEGMENT_READ_BYTES_MAX, SEGMENT_TAIL_BYTES
from danube.runtime.checksum import checksum
from danube.storage.damage import next_step
from danube.storage.segment.block_index import BlockEntry, BlockIndex, decode_index
from danube.storage.segment.format import (
    FILE_HEADER_BYTES,
    FOOTER_BYTES,
    Footer,
    damaged,
    decode_footer,
    encode_file_header,
    refuse_other_header,
)
from danube.storage.segment.manifest import Segment, segment_name
from danube.storage.segment.reader_cache import LruCache
from danube.storage.tiers.tier import SegmentTier, Take

SegmentKey = tuple[int, int, int]
"""Topic id, base offset, manifest version."""


_SMALL_BYTES = SEGMENT_READ_BYTES_MAX + SEGMENT_TAIL_BYTES  # a file of one run and its index is read as a whole


class OpenedSegments:
    """Reads segments of a tier; the indexes of those read last stay in memory. Owned by one thread at a time."""

    def __init__(self, tier: SegmentTier) -> None:
        self._tier = tier
        self._indexes: LruCache[SegmentKey, BlockIndex] = LruCache(SEGMENT_INDEX_CACHE_BYTES_MAX)

    def index(self, topic_id: int, segment: Segment) -> BlockIndex:
        """The index of a segment. Raises DamagedDataError, StorageUnavailableError, DataFolderError."""
        key = _key(topic_id, segment)
        index = self._indexes.get(key)
        if index is None:
            if segment.file_bytes <= _SMALL_BYTES:
                self._tier.expect(segment_name(topic_id, segment), 0, segment.file_bytes)
            index = self._read_index(topic_id, segment)
            self._indexes.put(key, index, index.cost_bytes)
        return index

    def expect(self, topic_id: int, segment: Segment) -> None:
        """Have the tier start to read the begin of this segment, for a reader that gets there."""
        name, is_known = segment_name(topic_id, segment), _key(topic_id, segment) in self._indexes
        self._tier.expect(name, 0, min(segment.file_bytes, _SMALL_BYTES if not is_known else SEGMENT_READ_BYTES_MAX))
        if not is_known and segment.file_bytes > _SMALL_BYTES:
            self._tier.expect(name, segment.file_bytes - SEGMENT_TAIL_BYTES, SEGMENT_TAIL_BYTES)

    def blocks(self, name: str, entries: Sequence[BlockEntry]) -> Iterator[bytes]:
        """The bytes of neighbouring blocks, unchecked; fewer bytes where the file ends."""
        try:
            yield from self._tier.read_run(name, entries[0].position, [entry.file_bytes for entry in entries])
        except OSError as error:
            raise _unavailable(name, entries[0].position, error) from error

    def take(self, name: str, entries: Sequence[BlockEntry]) -> Take:
        """The same bytes, piece by piece. Raises StorageUnavailableError, at once or when something is taken."""
        position = entries[0].position
        try:
            take = self._tier.open_run(name, position, sum(entry.file_bytes for entry in entries))
        except OSError as error:
            raise _unavailable(name, position, error) from error
        return lambda count: _taken(take, count, name, position)

    def check_whole(self, topic_id: int, segment: Segment) -> BlockIndex:
        """The index, read anew, of a file that has the right length and header. Raises as `index`."""
        name = segment_name(topic_id, segment)
        try:
            file_bytes = self._tier.size(name)
        except OSError as error:
            raise _unavailable(name, 0, error) from error
        if file_bytes != segment.file_bytes:
            raise damaged(name, min(file_bytes, segment.file_bytes), f"it should have {segment.file_bytes} bytes")
        header = encode_file_header(topic_id, segment.base_offset, segment.manifest_version)
        found = self._read(name, 0, FILE_HEADER_BYTES)
        refuse_other_header(name, found)
        if found != header:
            raise damaged(name, 0, f"there should be the header of offset {segment.base_offset} of topic {topic_id}")
        return self._read_index(topic_id, segment)

    def forget(self, topic_id: int) -> None:
        """Drop the indexes of a topic."""
        self._indexes.drop_all(lambda key: key[0] == topic_id)

    def _read_index(self, topic_id: int, segment: Segment) -> BlockIndex:
        """Read the footer and, with it as a rule, the index before it; check both."""
        name = segment_name(topic_id, segment)
        start = max(0, segment.file_bytes - SEGMENT_TAIL_BYTES)
        tail = self._read(name, start, segment.file_bytes - start)
        if len(tail) < segment.file_bytes - start:
            raise damaged(name, start + len(tail), "the file ends")
        footer = decode_footer(tail[-FOOTER_BYTES:], name, segment.file_bytes)
        if (footer.topic_id, footer.segment) != (topic_id, segment):
            raise damaged(
                name,
                segment.file_bytes - FOOTER_BYTES,
                f"this is not offset {segment.base_offset} of topic {topic_id} as its manifest lists it",
            )
        encoded = self._index_bytes(name, footer, tail)
        index = decode_index(encoded, footer) if checksum([encoded]) == footer.index_crc else None
        if index is None:
            raise damaged(name, footer.index_position, "the index is wrong")
        return index

    def _index_bytes(self, name: str, footer: Footer, tail: bytes) -> bytes:
        end = footer.segment.file_bytes - FOOTER_BYTES
        start = footer.index_position - (footer.segment.file_bytes - len(tail))
        if start >= 0:
            return tail[start:-FOOTER_BYTES]
        if not FILE_HEADER_BYTES < footer.index_position < end:
            return b""
        return self._read(name, footer.index_position, end - footer.index_position)

    def _read(self, name: str, position: int, length: int) -> bytes:
        try:
            return self._tier.read(name, position, length)
        except OSError as error:
            raise _unavailable(name, position, error) from error


def _key(topic_id: int, segment: Segment) -> SegmentKey:
    return topic_id, segment.base_offset, segment.manifest_version


def run_of(index: BlockIndex, number: int, room: int) -> list[BlockEntry]:
    """The blocks from `number` on to read at once: one, and those after it that fit in `room` together."""
    room = min(room, SEGMENT_READ_BYTES_MAX)
    run = [index[number]]
    room -= run[0].plain_bytes
    while number + len(run) < len(index):
        entry = index[number + len(run)]
        room -= entry.plain_bytes
        if room < 0:
            break
        run.append(entry)
    return run


def _taken(take: Take, count: int, name: str, position: int) -> bytes:
    try:
        return take(count)
    except OSError as error:
        raise _unavailable(name, position, error) from error


def _unavailable(name: str, at: int, error: OSError) -> StorageUnavailableError:
    if isinstance(error, FileNotFoundError):
        return StorageUnavailableError(f"{name} is not there. {next_step(None)}")
    return StorageUnavailableError(f"{name} could not be read at byte {at}: {error.strerror or error}. Check the disk")
