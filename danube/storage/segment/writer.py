"""Encodes a segment of checked batches. Pure."""

from collections.abc import Callable, Iterable, Iterator, Sequence

from danube.model.limits.broker import SEGMENT_BLOCK_BYTES
from danube.runtime.disk import Buffer
from danube.storage.batches.codec import Codec, CodecSource, open_codec
from danube.storage.batches.envelope import ENVELOPE_BYTES
from danube.storage.batches.stored_batch import EncodedBatch
from danube.storage.segment.block import encode_block, is_described
from danube.storage.segment.block_index import BlockEntry, encode_index
from danube.storage.segment.format import FILE_HEADER_BYTES, FOOTER_BYTES, encode_file_header, encode_footer
from danube.storage.segment.manifest import Segment


def encode_segment(
    topic_id: int,
    manifest_version: int,
    batches: Iterable[EncodedBatch],
    codec: Codec = Codec.NONE,
    *,
    codecs: CodecSource = open_codec,
    block_bytes: int = SEGMENT_BLOCK_BYTES,
) -> tuple[Segment, list[Buffer]]:
    """The manifest's entry and the bytes of a segment of these batches, which are consumed block by block.

    They must be a topic's, in offset order without a gap, their checksums right. A block that compression makes no
    smaller is stored as it is. Raises ValueError when they are none, do not follow each other or are not what their
    envelopes say: what a reader would refuse is not written. Raises StorageUnavailableError when this Python cannot
    compress so.
    """
    packing = (codec, codecs(codec)) if codec is not Codec.NONE else None
    blocks: list[Buffer] = []
    entries: list[BlockEntry] = []
    position = FILE_HEADER_BYTES
    for block in split(_checked(topic_id, batches), block_bytes, lambda batch: len(batch.encoded)):
        pieces, entry = encode_block(topic_id, position, block, packing)
        blocks += pieces
        entries.append(entry)
        position += entry.file_bytes
    if not entries:
        raise ValueError("a segment without batches")
    index = encode_index(entries)
    segment = _segment(manifest_version, entries, position + len(index) + FOOTER_BYTES)
    header = encode_file_header(topic_id, segment.base_offset, manifest_version)
    return segment, [header, *blocks, index, encode_footer(topic_id, segment, position, index, len(entries))]


def _segment(manifest_version: int, entries: Sequence[BlockEntry], file_bytes: int) -> Segment:
    first, last = entries[0], entries[-1]
    batches = sum(entry.batches for entry in entries)
    body_bytes = sum(entry.plain_bytes for entry in entries) - batches * ENVELOPE_BYTES
    times = (first.first_append_time_ms, last.last_append_time_ms)
    return Segment(first.base_offset, last.end_offset, manifest_version, *times, batches, body_bytes, file_bytes)


def _checked(topic_id: int, batches: Iterable[EncodedBatch]) -> Iterator[EncodedBatch]:
    """The same batches, as long as they are what a reader would take."""
    end_offset, time_ms = None, 0
    for batch in batches:
        if end_offset not in {None, batch.base_offset} or batch.append_time_ms < time_ms:
            raise ValueError(f"the batch at offset {batch.base_offset} does not follow on {end_offset}")
        if not is_described(topic_id, batch):
            raise ValueError(f"the batch at offset {batch.base_offset} is not what its envelope says")
        end_offset, time_ms = batch.end_offset, batch.append_time_ms
        yield batch


def split(
    batches: Iterable[EncodedBatch], bytes_max: int, size: Callable[[EncodedBatch], int]
) -> Iterator[list[EncodedBatch]]:
    """Split `batches` before each one that would take its part past `bytes_max`."""
    part: list[EncodedBatch] = []
    part_bytes = 0
    for batch in batches:
        batch_bytes = size(batch)
        if part and part_bytes + batch_bytes > bytes_max:
            yield part
            part, part_bytes = [], 0
        part.append(batch)
        part_bytes += batch_bytes
    if part:
        yield part
