"""What goes into a segment, and what is refused."""

from collections.abc import Iterator
from random import Random

import pytest

from danube.model.limits.broker import SEGMENT_BLOCK_BYTES
from danube.storage.batches.codec import Codec
from danube.storage.batches.envelope import ENVELOPE_BYTES
from danube.storage.batches.stored_batch import EncodedBatch
from danube.storage.segment.block import HEADER_BYTES as BLOCK_HEADER_BYTES
from danube.storage.segment.block_index import ENTRY_BYTES
from danube.storage.segment.format import FILE_HEADER_BYTES, FOOTER_BYTES
from danube.storage.segment.manifest import Segment
from danube.storage.segment.writer import encode_segment
from tests.unit.storage.segment.segment_world import (
    GENERATION,
    MISPLACED,
    TOPIC,
    SegmentWorld,
    ZlibCodec,
    encoded,
    no_codecs,
    run,
    stored,
    zlib_codecs,
)

AROUND_A_BLOCK = BLOCK_HEADER_BYTES + 4 + ENTRY_BYTES


def blocks(world: SegmentWorld) -> int:
    return world.data.count(b"DnSb\x01")


def test_a_segment_is_listed_as_what_is_in_it() -> None:
    batches = run([100, 200, 300])
    segment, chunks = encode_segment(TOPIC, GENERATION, batches)
    body_bytes = sum(batch.body_bytes for batch in batches)
    file_bytes = FILE_HEADER_BYTES + AROUND_A_BLOCK + 3 * ENVELOPE_BYTES + body_bytes + FOOTER_BYTES
    assert segment == Segment(10, 16, GENERATION, 1_000, 1_002, 3, body_bytes, file_bytes)
    assert len(b"".join(chunks)) == file_bytes


def test_the_bytes_of_large_batches_are_passed_on_and_not_copied() -> None:
    batches = run([20_000, 30_000, 40_000])
    _, chunks = encode_segment(TOPIC, GENERATION, batches)
    assert {id(batch.encoded) for batch in batches} < {id(chunk) for chunk in chunks}


def test_small_batches_are_put_by_the_block() -> None:
    batches = run([100, 200, 300])
    _, chunks = encode_segment(TOPIC, GENERATION, batches)
    assert b"".join(batch.encoded for batch in batches) in chunks


def test_batches_are_taken_block_by_block() -> None:
    taken: list[int] = []
    held: list[int] = []

    def batches() -> Iterator[EncodedBatch]:
        for batch in run([SEGMENT_BLOCK_BYTES // 4] * 9, count=1):
            taken.append(batch.base_offset)
            yield batch

    class NotingCodec(ZlibCodec):
        def compress(self, plain: bytes) -> bytes:
            held.append(len(taken))
            return plain

    encode_segment(TOPIC, GENERATION, batches(), Codec.ZSTD, codecs=lambda _: NotingCodec())
    assert held == [4, 7, 9]


def test_a_block_takes_as_many_batches_as_fit() -> None:
    each = SEGMENT_BLOCK_BYTES // 4
    assert blocks(SegmentWorld(run([each - 200] * 8, count=1))) == 2
    assert blocks(SegmentWorld(run([each] * 8, count=1))) == 3


def test_a_batch_larger_than_a_block_is_a_block_of_its_own() -> None:
    world = SegmentWorld(run([10, SEGMENT_BLOCK_BYTES, 10, 10]))
    assert blocks(world) == 3
    assert world.read(12, 1) == [stored(world.batches[1])]


def test_a_block_that_compression_makes_no_smaller_is_stored_as_it_is() -> None:
    batch = encoded(0, [Random(1).randbytes(2_000)])
    assert SegmentWorld([batch], Codec.ZSTD).data == SegmentWorld([batch]).data
    assert SegmentWorld(run([1_000]), Codec.ZSTD).segment.file_bytes < 1_000


def test_nothing_is_compressed_with_a_codec_that_is_not_there() -> None:
    with pytest.raises(Exception, match="there is none here"):
        encode_segment(TOPIC, GENERATION, run([10]), Codec.ZSTD, codecs=no_codecs)
    assert encode_segment(TOPIC, GENERATION, run([10]), codecs=no_codecs)[0].batches == 1


@pytest.mark.parametrize(
    "batches",
    [
        [],
        [encoded(1, [b"a"]), encoded(3, [b"b"])],
        [encoded(1, [b"a"]), encoded(1, [b"b"])],
        [encoded(1, [b"a"], 2), encoded(2, [b"b"], 1)],
        [encoded(1, [b"a"])._replace(end_offset=1)],
        [encoded(1, [b"a"])._replace(body_bytes=5)],
    ],
    ids=["none", "a gap", "twice the same", "time goes back", "no record", "another length"],
)
def test_batches_that_are_no_run_are_refused(batches: list[EncodedBatch]) -> None:
    with pytest.raises(ValueError, match=r"without batches|does not follow|not what its envelope says"):
        encode_segment(TOPIC, GENERATION, batches, codecs=zlib_codecs)


@pytest.mark.parametrize("wrong", MISPLACED)
def test_a_batch_that_no_reader_would_take_is_not_written(wrong: EncodedBatch) -> None:
    with pytest.raises(ValueError, match="the batch at offset 11 is not what its envelope says"):
        encode_segment(TOPIC, GENERATION, [encoded(10, [b"a"]), wrong])


def test_the_same_batches_make_the_same_bytes() -> None:
    first, second = (encode_segment(TOPIC, GENERATION, run([5] * 9)) for _ in range(2))
    assert (first[0], b"".join(first[1])) == (second[0], b"".join(second[1]))
