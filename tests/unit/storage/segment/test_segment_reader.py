"""Reading from a segment: from any offset, in any portion, by time, and no block twice."""

from itertools import accumulate, chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from danube.model.errors import StorageUnavailableError
from danube.model.limits.broker import SEGMENT_BLOCK_BYTES, SEGMENT_READ_BYTES_MAX, SEGMENT_TAIL_BYTES
from danube.runtime.disk import Disk
from danube.storage.batches.codec import Codec
from danube.storage.batches.stored_batch import EncodedBatch, StoredBatch
from danube.testing.simulated.disk import Operation, SimDisk
from tests.unit.storage.segment.segment_world import TOPIC, SegmentWorld, encoded, run, stored

BLOCK = SEGMENT_BLOCK_BYTES
MANY_BLOCKS = [BLOCK // 8] * 25
SMALL_BATCHES = [BLOCK // 32] * 100


@pytest.fixture(params=Codec)
def codec(request: pytest.FixtureRequest) -> Codec:
    codec: Codec = request.param
    return codec


def expected(batches: list[EncodedBatch], offset: int, bytes_max: int) -> list[StoredBatch]:
    """What `read` promises, in the fewest words."""
    behind = [stored(batch) for batch in batches if batch.end_offset > offset]
    sizes = accumulate(len(batch.body) for batch in behind)
    return [
        batch for number, (batch, size) in enumerate(zip(behind, sizes, strict=True)) if not number or size <= bytes_max
    ]


@given(
    sizes=st.lists(st.sampled_from([0, 1, 700, 40_000, BLOCK // 2, BLOCK + 1]), min_size=1, max_size=12),
    count=st.integers(1, 3),
    places=st.lists(st.tuples(st.floats(0, 1), st.sampled_from([0, 1, 3_000, BLOCK, 1 << 20])), min_size=1, max_size=6),
    codec=st.sampled_from(Codec),
)
def test_any_portion_from_any_offset_is_what_was_put_there(
    sizes: list[int], count: int, places: list[tuple[float, int]], codec: Codec
) -> None:
    world = SegmentWorld(run(sizes, count=count), codec)
    for part, bytes_max in places:
        offset = world.segment.base_offset + int(part * (len(sizes) * count - 1))
        assert world.read(offset, bytes_max) == expected(world.batches, offset, bytes_max)


@pytest.mark.parametrize("bytes_max", [1, BLOCK // 4, BLOCK, 1 << 20])
@pytest.mark.parametrize("sizes", [MANY_BLOCKS, SMALL_BATCHES], ids=["large", "small"])
def test_a_sequential_reader_reads_each_byte_once(bytes_max: int, sizes: list[int]) -> None:
    world = SegmentWorld(run(sizes))
    world.reader._source(TOPIC, world.segment)
    assert world.tier.pieces.pop() == (world.segment.file_bytes - SEGMENT_TAIL_BYTES, SEGMENT_TAIL_BYTES)
    assert world.read_all(bytes_max) == [stored(batch) for batch in world.batches]
    assert world.tier.bytes_read_once == _bytes_of_blocks(world)
    assert world.reader._blocks.bytes == 0


def _bytes_of_blocks(world: SegmentWorld) -> int:
    index = world.reader._opened.index(TOPIC, world.segment)
    return sum(index[number].file_bytes for number in range(len(index)))


def test_a_large_body_is_read_by_itself_so_that_it_is_not_copied() -> None:
    world = SegmentWorld(run([BLOCK // 2, BLOCK // 4, 10], count=1))
    assert len(world.read(10)) == 3
    bodies = [batch.body_bytes for batch in world.batches]
    assert [length for _, length in world.tier.pieces[1:]] == [
        44,
        *[56, bodies[0]],
        *[56, bodies[1]],
        *[56, bodies[2]],
        4,
    ]


def test_neighbouring_blocks_are_asked_for_in_one_request() -> None:
    world = SegmentWorld(run(MANY_BLOCKS))
    world.read(10, SEGMENT_READ_BYTES_MAX)
    assert len(world.tier.requests) <= 3
    assert len(world.tier.pieces) >= 4
    small = SegmentWorld(run(SMALL_BATCHES))
    small.read(10, SEGMENT_READ_BYTES_MAX)
    assert len(small.tier.requests) <= 3
    assert len(small.tier.pieces) >= 4


def test_a_large_portion_is_asked_for_in_bounded_requests() -> None:
    world = SegmentWorld(run([BLOCK // 4] * 60, count=1))
    assert len(world.read(10, 1 << 30)) == 60
    assert max(world.tier.requests) <= SEGMENT_READ_BYTES_MAX
    assert len(world.tier.requests) <= 2 + 60 * (BLOCK // 4) // (SEGMENT_READ_BYTES_MAX // 2)


def test_readers_at_several_places_keep_theirs() -> None:
    world = SegmentWorld(run(SMALL_BATCHES))
    offsets = [10, 90, 170]
    for _ in range(4):
        for reader, offset in enumerate(offsets):
            (batch,) = world.read(offset, 1)
            offsets[reader] = batch.end_offset
    assert len(world.tier.pieces) == len(set(world.tier.pieces)) == 1 + 3  # the tail, and a block each


def test_a_merge_gets_every_batch_with_its_envelope(codec: Codec) -> None:
    world = SegmentWorld(run(MANY_BLOCKS), codec)
    assert list(chain.from_iterable(world.reader.encoded(TOPIC, world.segment))) == world.batches


def test_an_index_larger_than_one_look_at_the_end_is_read_whole() -> None:
    batches = run([BLOCK] * 350, count=1)
    world = SegmentWorld(batches)
    assert world.read(10 + 349, 1) == [stored(batches[349])]
    assert [length for _, length in world.tier.pieces[:2]] == [SEGMENT_TAIL_BYTES, 52 * 350]


def test_an_offset_outside_the_segment_is_a_fault_of_the_caller() -> None:
    world = SegmentWorld(run([1, 1]))
    for offset in (9, 14):
        with pytest.raises(IndexError):
            world.read(offset)


# By time


def test_a_time_finds_the_first_batch_appended_then_or_later(codec: Codec) -> None:
    times = [1_000, 1_000, 1_003, 1_003, 1_007]
    batches = [encoded(number, [b"x" * BLOCK], time_ms) for number, time_ms in enumerate(times[:3])]
    batches += [encoded(number, [b"x"], time_ms) for number, time_ms in enumerate(times[3:], 3)]
    world = SegmentWorld(batches, codec)
    asked = [0, 1_000, 1_001, 1_003, 1_004, 1_007, 1_008]
    assert [world.reader.offset_at(TOPIC, world.segment, time_ms) for time_ms in asked] == [0, 0, 2, 2, 4, 4, 5]


@given(steps=st.lists(st.integers(0, 2), min_size=1, max_size=40), asked_ms=st.integers(-1, 90))
def test_a_time_finds_what_a_search_through_all_finds(steps: list[int], asked_ms: int) -> None:
    times = list(accumulate(steps))
    world = SegmentWorld([encoded(number, [b"x" * (BLOCK // 5)], time_ms) for number, time_ms in enumerate(times)])
    wanted = next((number for number, time_ms in enumerate(times) if time_ms >= asked_ms), len(times))
    assert world.reader.offset_at(TOPIC, world.segment, max(asked_ms, 0)) == wanted
    assert [world.reader.append_time_ms(TOPIC, world.segment, number) for number in range(len(times))] == times


def test_the_time_of_a_block_s_first_batch_is_found_in_the_index() -> None:
    world = SegmentWorld(run(MANY_BLOCKS))
    assert world.reader.offset_at(TOPIC, world.segment, 1_003) == 10 + 2 * 3
    assert len(world.tier.pieces) == 1


def test_every_record_of_a_batch_was_appended_with_it() -> None:
    world = SegmentWorld(run([1, 1, 1], count=3))
    times = [world.reader.append_time_ms(TOPIC, world.segment, offset) for offset in range(10, 19)]
    assert times == [1_000] * 3 + [1_001] * 3 + [1_002] * 3


def test_who_looks_up_a_time_and_reads_on_from_there_reads_one_block() -> None:
    world = SegmentWorld(run([1_000] * 50))
    offset = world.reader.offset_at(TOPIC, world.segment, 1_020)
    assert world.read(offset, 1) == [stored(world.batches[20])]
    assert len(world.tier.pieces) == 2


# Faults of the tier


def test_a_fault_of_the_disk_is_told_and_passes() -> None:
    disk = SimDisk()
    world = SegmentWorld(run([1, 1]), disk=disk)
    for number in (1, 2, 1):  # the tail, a block when the tail is read anew, a block
        disk.fail(Operation.READ, number)
        with pytest.raises(StorageUnavailableError, match=r"could not be read at byte \d+: .* Check the disk"):
            world.read(10)
        if number == 1:
            world.reader.forget(TOPIC)
    assert world.read(10) == [stored(batch) for batch in world.batches]


def test_a_segment_that_is_not_there_is_told_apart() -> None:
    world = SegmentWorld(run([1, 1]))
    world.tier.delete(world.name)
    for call in (lambda: world.read(10), lambda: world.reader.verify(TOPIC, world.segment)):
        with pytest.raises(StorageUnavailableError, match="is not there") as caught:
            call()
        assert isinstance(caught.value.__cause__, FileNotFoundError)


def test_a_forgotten_topic_takes_no_memory_and_no_open_file() -> None:
    disk: Disk = SimDisk()
    mine, other = SegmentWorld(run([1, 1]), disk=disk), SegmentWorld(run([1, 1], topic=8), topic=8, disk=disk)
    reader = mine.reader
    for world in (mine, other):
        reader.read(world.topic, (world.segment,), 10, 1)
    reader.forget(TOPIC)
    assert (len(reader._opened._indexes), len(reader._blocks), list(mine.tier._open)) == (1, 1, [other.name])
