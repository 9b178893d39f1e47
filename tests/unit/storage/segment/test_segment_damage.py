"""Whatever happens to a segment's bytes, nobody is given other ones than were put there."""

from collections.abc import Iterator

import pytest

from danube.model.errors import DamagedDataError, DataFolderError, StorageUnavailableError
from danube.runtime.checksum import with_crc
from danube.storage.batches.codec import Codec
from danube.storage.batches.stored_batch import EncodedBatch
from danube.storage.segment import writer
from danube.storage.segment.block import HEADER_BYTES as BLOCK_HEADER_BYTES
from danube.storage.segment.block import is_taken
from danube.storage.segment.format import FILE_HEADER_BYTES, FOOTER_BYTES
from danube.storage.segment.manifest import Segment
from danube.storage.segment.reader import SegmentReader
from tests.unit.storage.segment.segment_world import (
    GENERATION,
    MISPLACED,
    TOPIC,
    SegmentWorld,
    encoded,
    no_codecs,
    run,
    stored,
)

LARGE = 300_000  # a block of its own


@pytest.fixture(params=Codec)
def world(request: pytest.FixtureRequest) -> SegmentWorld:
    """Two blocks."""
    return SegmentWorld([*run([0, 40], step_ms=0), encoded(14, [b"late"], 1_005)], request.param, block_bytes=350)


def damages(data: bytes, bits: int) -> Iterator[bytes]:
    """So many flipped bits of each byte, every truncation, and a byte too many."""
    for position in range(len(data)):
        for bit in range(8 - bits, 8):
            yield data[:position] + bytes([data[position] ^ 1 << bit]) + data[position + 1 :]
        yield data[:position]
    yield data + b"\0"


def test_every_flip_and_truncation_is_found_by_whoever_checks_all(world: SegmentWorld) -> None:
    world.reader.verify(TOPIC, world.segment)
    assert len(world.reader._opened.index(TOPIC, world.segment)) == 2
    for data in damages(world.data, 8):
        world.overwrite(data)
        with pytest.raises(DamagedDataError, match=world.name):
            world.reader.verify(TOPIC, world.segment)


def test_a_reader_answers_what_was_put_there_or_says_that_it_is_damaged(world: SegmentWorld) -> None:
    refused = 0
    for data in damages(world.data, 1):
        world.overwrite(data)
        try:
            assert world.read_all(1 << 20) == [stored(batch) for batch in world.batches]
            assert world.reader.offset_at(TOPIC, world.segment, 1_001) == 14
            assert world.reader.append_time_ms(TOPIC, world.segment, 13) == 1_000
        except DamagedDataError:
            refused += 1
    # Only the file's header, which a reader of the index does not need, and a byte behind the end make no difference.
    assert refused == 2 * len(world.data) - FILE_HEADER_BYTES


def test_every_flip_in_a_block_of_large_batches_is_found() -> None:
    world = SegmentWorld(run([50_000, 50_000, 10], count=1))
    entry = world.reader._opened.index(TOPIC, world.segment)[0]
    assert (entry.batches, is_taken(entry)) == (3, True)
    end = entry.position + entry.file_bytes
    for at in (
        *range(entry.position, entry.position + 150),
        *range(entry.position + 150, end - 100, 991),
        *range(end - 100, end),
    ):
        world.overwrite(world.data[:at] + bytes([world.data[at] ^ 1]) + world.data[at + 1 :])
        with pytest.raises(
            DamagedDataError, match=f"damaged at byte {entry.position}: the checksum of a block is wrong"
        ):
            world.read(10)


def test_damage_of_one_block_leaves_the_others_readable() -> None:
    world = SegmentWorld(run([LARGE, LARGE, LARGE], count=1))
    at = world.data.index(b"DnSb\x01", FILE_HEADER_BYTES + 1)
    world.overwrite(world.data[: at + 5_000] + b"?" + world.data[at + 5_001 :])
    with pytest.raises(DamagedDataError, match=f"damaged at byte {at}: the checksum of a block is wrong"):
        world.read(11, 1)
    assert [world.read(offset, 1) for offset in (10, 12)] == [[stored(world.batches[number])] for number in (0, 2)]


def test_the_error_says_where_and_what_to_do(world: SegmentWorld) -> None:
    world.overwrite(world.data[:-1])
    with pytest.raises(DamagedDataError) as caught:
        world.read(10)
    text = str(caught.value)
    assert text.startswith(
        f"segments/7/00000000000000000010-0000000004.segment is damaged at byte {len(world.data) - 1}:"
    )
    assert "Restore the file from a backup" in text


# Sound bytes in the wrong place


@pytest.mark.parametrize(
    "other",
    [
        SegmentWorld(run([9, 40], topic=8), topic=8),
        SegmentWorld(run([9, 40], 11)),
        SegmentWorld(run([9, 41])),
        SegmentWorld(run([9, 40], step_ms=2)),
    ],
    ids=["another topic", "another offset", "another length", "another time"],
)
def test_a_sound_segment_in_the_place_of_another_is_noticed(other: SegmentWorld) -> None:
    world = SegmentWorld(run([9, 40]))
    world.overwrite(other.data)
    for call in (lambda: world.read(10), lambda: world.reader.verify(TOPIC, world.segment)):
        with pytest.raises(DamagedDataError):
            call()


@pytest.mark.parametrize("topic", [8, TOPIC])
def test_a_file_that_is_swapped_under_a_reader_who_knows_its_index_is_noticed(topic: int) -> None:
    first = 10 if topic == 8 else 12
    world, other = SegmentWorld(run([9, 40])), SegmentWorld(run([9, 40], first, topic=topic), topic=topic)
    world.reader.append_time_ms(TOPIC, world.segment, 10)
    world.reader._blocks.drop_all(lambda _: True)
    world.tier.close()
    world.disk.replace_file(world.name, other.data)
    with pytest.raises(DamagedDataError, match="there should be a batch with offset 10 of topic 7"):
        world.read(10)


def test_a_manifest_that_lists_something_else_is_noticed() -> None:
    world = SegmentWorld(run([9, 40]))
    values = {name: getattr(world.segment, name) for name in Segment.__slots__}
    for name in values.keys() - {"base_offset", "manifest_version", "file_bytes"}:
        listed = Segment(**{**values, name: values[name] + 1})
        with pytest.raises(DamagedDataError, match="as its manifest lists it"):
            SegmentReader(world.tier).read(TOPIC, (listed,), 10, 1)


@pytest.mark.parametrize("at", [0, 4, 6, 8, 16, 24, 32, 36, 40])
@pytest.mark.parametrize("size", [9, 40_000])
def test_a_block_whose_header_says_something_else_is_noticed_whatever_its_checksum(at: int, size: int) -> None:
    world = SegmentWorld(run([size]))
    end = FILE_HEADER_BYTES + world.reader._opened.index(TOPIC, world.segment)[0].file_bytes
    block = bytearray(world.data[FILE_HEADER_BYTES : end - 4])
    block[at] ^= 1
    world.overwrite(world.data[:FILE_HEADER_BYTES] + with_crc(bytes(block)) + world.data[end:])
    with pytest.raises(DamagedDataError, match="there should be a batch with offset 10 of topic 7"):
        world.read(10)


@pytest.mark.parametrize("wrong", MISPLACED)
@pytest.mark.parametrize("beside", [b"c", bytes(100_000)], ids=["small", "large"])
def test_a_batch_within_a_sound_block_that_does_not_belong_there_is_noticed(
    wrong: EncodedBatch, beside: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "_checked", lambda _, batches: batches)
    world = SegmentWorld([encoded(10, [b"a"]), wrong, encoded(12, [beside], 1_002)])
    for call in (lambda: world.read(10), lambda: world.reader.verify(TOPIC, world.segment)):
        with pytest.raises(DamagedDataError, match=r"there should be a batch with offset 1[123] of topic 7"):
            call()


def test_a_batch_that_was_wrong_before_it_came_into_a_segment_is_not_merged() -> None:
    batch = encoded(10, [b"abc"])
    wrong = bytearray(batch.encoded)
    wrong[-6] ^= 1
    world = SegmentWorld([batch._replace(encoded=bytes(wrong))])
    with pytest.raises(DamagedDataError, match="the checksum of offset 10 is wrong"):
        world.reader.verify(TOPIC, world.segment)


# Compression


def test_a_block_that_is_longer_than_announced_takes_no_memory() -> None:
    world = SegmentWorld(run([LARGE], count=1), Codec.ZSTD)
    index = world.reader._opened.index(TOPIC, world.segment)
    entry = index[0]
    content = world.data[entry.position : entry.position + entry.file_bytes]
    assert len(content) < LARGE // 10
    with pytest.raises(ValueError, match="there should be 100 bytes in it"):
        world.reader._codec(Codec.ZSTD).decompress(content[BLOCK_HEADER_BYTES:-4], 100)


def test_a_compressed_segment_needs_its_codec_and_says_so() -> None:
    world = SegmentWorld(run([1_000]), Codec.ZSTD)
    with pytest.raises(StorageUnavailableError, match="there is none here"):
        SegmentReader(world.tier, codecs=no_codecs).read(TOPIC, (world.segment,), 10, 1)


# Later versions


def test_a_segment_of_a_later_version_is_told_apart() -> None:
    world = SegmentWorld(run([9]))
    footer = world.data[-FOOTER_BYTES:]
    world.overwrite(world.data[:-FOOTER_BYTES] + with_crc(footer[:4] + b"\x02" + footer[5:-4]))
    with pytest.raises(DataFolderError, match=r"another version \(format 2; this one reads 1\): use that"):
        world.read(10)


def test_a_codec_of_a_later_version_is_told_apart() -> None:
    world = SegmentWorld(run([9]))
    end = world.reader._opened.index(TOPIC, world.segment)[0].file_bytes + FILE_HEADER_BYTES
    block = world.data[FILE_HEADER_BYTES : end - 4]
    world.overwrite(world.data[:FILE_HEADER_BYTES] + with_crc(block[:5] + b"\x09" + block[6:]) + world.data[end:])
    with pytest.raises(DataFolderError, match="compressed with codec 9, which this Danube does not know: use a newer"):
        world.read(10)


def test_the_generation_is_part_of_a_segment_s_name() -> None:
    assert SegmentWorld(run([9])).name.endswith(f"-{GENERATION:010d}.segment")
