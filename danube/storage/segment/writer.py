"""Making a segment of batches that were checked. Pure."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

from danube.model.limits import SEGMENT_BLOCK_BYTES
from danube.runtime.disk import Buffer
from danube.storage.segment.block import encode_block, is_described
from danube.storage.segment.block_index import BlockEntry, encode_index
from danube.storage.segment.codec import Codec, CodecSource, open_codec
from danube.storage.segment.format import (
    FILE_HEADER_BYTES,
    FOOTER_BYTES,
    EncodedBatch,
    encode_file_header,
    encode_footer,
)
from danube.storage.segment.manifest import Segment


def encode_segment(
    topic_id: int,
    generation: int,
    batches: Sequence[EncodedBatch],
    codec: Codec = Codec.NONE,
    *,
    codecs: CodecSource = open_codec,
    block_bytes: int = SEGMENT_BLOCK_BYTES,
) -> tuple[Segment, list[Buffer]]:
    """What to put for these batches, and how a manifest lists it. Uncompressed, the batches' bytes are not copied.

    They must be a topic's, in offset order without a gap, their checksums right. A block that compression makes no
    smaller is stored as it is. Raises ValueError when they are none, do not follow each other or are not what their
    envelopes say: what a reader would refuse is not written. Raises StorageUnavailableError when this Python cannot
    compress so.
    """
    _check_run(topic_id, batches)
    packing = (codec, codecs(codec)) if codec is not Codec.NONE else None
    pieces: list[Buffer] = [encode_file_header(topic_id, batches[0].base_offset, generation)]
    entries: list[BlockEntry] = []
    position = FILE_HEADER_BYTES
    for block in _blocks(batches, block_bytes):
        encoded, entry = encode_block(topic_id, position, block, packing)
        pieces += encoded
        entries.append(entry)
        position += entry.file_bytes
    index = encode_index(entries)
    segment = _segment(generation, batches, position + len(index) + FOOTER_BYTES)
    return segment, [*pieces, index, encode_footer(topic_id, segment, position, index, len(entries))]


def _segment(generation: int, batches: Sequence[EncodedBatch], file_bytes: int) -> Segment:
    first, last = batches[0], batches[-1]
    body_bytes = sum(batch.body_bytes for batch in batches)
    times = (first.append_time_ms, last.append_time_ms)
    return Segment(first.base_offset, last.end_offset, generation, *times, len(batches), body_bytes, file_bytes)


def _check_run(topic_id: int, batches: Sequence[EncodedBatch]) -> None:
    if not batches:
        raise ValueError("a segment without batches")
    for before, after in pairwise(batches):
        if after.base_offset != before.end_offset or after.append_time_ms < before.append_time_ms:
            raise ValueError(f"the batch at offset {after.base_offset} does not follow on {before.end_offset}")
    for batch in batches:
        if not is_described(topic_id, batch):
            raise ValueError(f"the batch at offset {batch.base_offset} is not what its envelope says")


def _blocks(batches: Sequence[EncodedBatch], bytes_max: int) -> Iterator[Sequence[EncodedBatch]]:
    """Cut `batches` before each one that would take its block past `bytes_max`."""
    first = block_bytes = 0
    for number, batch in enumerate(batches):
        if block_bytes and block_bytes + len(batch.encoded) > bytes_max:
            yield batches[first:number]
            first, block_bytes = number, 0
        block_bytes += len(batch.encoded)
    yield batches[first:]
