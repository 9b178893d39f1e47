"""Reading on from one segment into the next: in one answer, without the disk standing still, up to a fault."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from danube.model.errors import DamagedDataError, StorageUnavailableError
from danube.model.limits.broker import SEGMENT_BLOCK_BYTES, SEGMENT_READ_BYTES_MAX, SEGMENT_TAIL_BYTES
from danube.storage.batches.codec import Codec
from danube.storage.batches.stored_batch import StoredBatch
from danube.storage.segment.manifest import Segment, segment_name
from danube.storage.segment.reader import SegmentReader
from danube.storage.segment.writer import encode_segment
from danube.testing.simulated.disk import SimDisk
from tests.unit.storage.segment.segment_world import GENERATION, TOPIC, CountingTier, run, stored, zlib_codecs

BLOCK = SEGMENT_BLOCK_BYTES


class SeveralSegments:
    """Segments that follow on each other, with batches of one record of these sizes, and a reader of them."""

    def __init__(self, *sizes: Sequence[int], codec: Codec = Codec.NONE) -> None:
        self.disk = SimDisk()
        self.tier = CountingTier(self.disk)
        self.reader = SegmentReader(self.tier, codecs=zlib_codecs)
        self.segments: list[Segment] = []
        self.batches: list[StoredBatch] = []
        for inside in sizes:
            batches = run(inside, len(self.batches), count=1)
            segment, chunks = encode_segment(TOPIC, GENERATION, batches, codec, codecs=zlib_codecs)
            self.tier.put(segment_name(TOPIC, segment), chunks)
            self.segments.append(segment)
            self.batches += map(stored, batches)

    def name(self, number: int) -> str:
        return segment_name(TOPIC, self.segments[number])

    def read(self, offset: int, bytes_max: int) -> list[StoredBatch]:
        return self.reader.read(TOPIC, self.segments, offset, bytes_max)


@given(
    sizes=st.lists(st.lists(st.sampled_from([0, 700, 40_000, BLOCK]), min_size=1, max_size=4), min_size=1, max_size=4),
    portions=st.lists(st.sampled_from([0, 1, 3_000, BLOCK, 1 << 20]), min_size=1, max_size=6),
    codec=st.sampled_from(Codec),
)
def test_portions_of_any_size_go_on_as_if_there_were_one_segment(
    sizes: list[list[int]], portions: list[int], codec: Codec
) -> None:
    world = SeveralSegments(*sizes, codec=codec)
    offset = 0
    for turn in range(len(world.batches)):
        bytes_max = portions[turn % len(portions)]
        found = world.read(offset, bytes_max)
        assert found == world.batches[offset : offset + len(found)]
        size, whole = sum(len(batch.body) for batch in found), offset + len(found) == len(world.batches)
        assert len(found) == 1 or size <= bytes_max
        assert whole or not bytes_max or size + len(world.batches[offset + len(found)].body) > bytes_max
        offset += len(found)
        if offset == len(world.batches):
            return


def test_while_the_last_of_a_segment_is_taken_the_disk_begins_with_the_next() -> None:
    large = [BLOCK // 4] * (5 * SEGMENT_READ_BYTES_MAX // BLOCK)
    world = SeveralSegments(large, large, [10])
    world.read(0, 1)
    world.tier.expected.clear()
    _, second, third = world.segments
    room = sum(len(batch.body) for batch in world.batches)
    world.read(0, room)
    begin = (world.name(1), 0, SEGMENT_READ_BYTES_MAX + SEGMENT_TAIL_BYTES)
    tail = (world.name(1), second.file_bytes - SEGMENT_TAIL_BYTES, SEGMENT_TAIL_BYTES)
    assert world.tier.expected[:2] == [begin, tail]
    assert (world.name(2), 0, third.file_bytes) in world.tier.expected
    assert world.tier.order.index(begin) < world.tier.order.index(world.name(1))
    world.tier.expected.clear()
    world.read(0, room)
    assert world.tier.expected[0] == (world.name(1), 0, SEGMENT_READ_BYTES_MAX)  # its index is known by now


def test_who_wants_no_more_than_one_segment_has_nothing_of_the_next_fetched() -> None:
    world = SeveralSegments([1_000] * 3, [1_000])
    world.read(0, 2_000)
    assert {name for name, *_ in world.tier.expected} == {world.name(0)}


def test_who_takes_as_much_as_is_read_at_once_has_the_next_fetched_before_it_is_asked_for() -> None:
    world = SeveralSegments([BLOCK // 2] * (2 * SEGMENT_READ_BYTES_MAX // BLOCK), [1_000])
    found = world.read(0, SEGMENT_READ_BYTES_MAX)
    assert found == world.batches[: len(found)]
    assert len(found) < len(world.batches) - 1
    assert [name for name, *_ in world.tier.expected] == [world.name(0), world.name(1)]


def test_a_segment_of_one_run_is_fetched_with_its_index() -> None:
    world = SeveralSegments([BLOCK // 2] * 3)
    world.read(2, 1)
    assert world.tier.expected == [(world.name(0), 0, world.segments[0].file_bytes)]


@pytest.mark.parametrize("number", [1, 2])
def test_what_is_sound_before_a_fault_is_answered_and_the_fault_is_for_who_goes_on(number: int) -> None:
    world = SeveralSegments([500] * 3, [500] * 3, [500] * 3)
    world.disk.flip_bit(world.name(number), 100)
    found = world.read(0, 1 << 20)
    assert found == world.batches[: 3 * number]
    with pytest.raises(DamagedDataError, match=world.name(number)):
        world.read(len(found), 1 << 20)


def test_damage_within_a_segment_is_met_where_it_is() -> None:
    world = SeveralSegments([BLOCK // 2] * 10)
    world.disk.flip_bit(world.name(0), world.segments[0].file_bytes // 2)
    found = world.read(0, 1 << 20)
    assert 0 < len(found) < 10
    assert found == world.batches[: len(found)]
    with pytest.raises(DamagedDataError, match=world.name(0)):
        world.read(len(found), 1)


def test_a_segment_that_went_away_ends_the_answer_before_it() -> None:
    world = SeveralSegments([500], [500])
    world.tier.delete(world.name(1))
    assert world.read(0, 1 << 20) == world.batches[:1]
    with pytest.raises(StorageUnavailableError, match="is not there"):
        world.read(1, 1 << 20)
