"""RangeSet agrees with a plain set of offsets, whatever is done to it."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from danube.model.ranges import OffsetRange, RangeSet

OFFSETS = st.integers(0, 30)
SPANS = st.tuples(OFFSETS, OFFSETS)
CHANGES = st.lists(st.tuples(st.sampled_from(["add", "remove"]), OFFSETS, OFFSETS), max_size=40)


def build(changes: list[tuple[str, int, int]]) -> tuple[RangeSet, set[int]]:
    ranges, offsets = RangeSet(), set[int]()
    for change, start, end in changes:
        if change == "add":
            ranges.add(start, end)
            offsets.update(range(start, end))
        else:
            ranges.remove(start, end)
            offsets.difference_update(range(start, end))
    return ranges, offsets


def flatten(ranges: list[OffsetRange]) -> list[int]:
    assert all(start < end for start, end in ranges)
    return [offset for start, end in ranges for offset in range(start, end)]


@given(CHANGES, SPANS)
def test_a_range_set_answers_as_a_set_of_offsets_does(
    changes: list[tuple[str, int, int]], span: tuple[int, int]
) -> None:
    ranges, offsets = build(changes)
    assert flatten(list(ranges)) == sorted(offsets)
    assert ranges.count() == len(offsets)
    assert [offset in ranges for offset in range(-1, 32)] == [offset in offsets for offset in range(-1, 32)]
    assert flatten(ranges.overlap(*span)) == sorted(offsets & set(range(*span)))
    assert flatten(ranges.gaps(*span)) == sorted(set(range(*span)) - offsets)


@given(CHANGES)
def test_ranges_are_sorted_and_do_not_touch(changes: list[tuple[str, int, int]]) -> None:
    ranges, _ = build(changes)
    spans = list(ranges)
    assert all(low.end < high.start for low, high in pairwise(spans))
    assert len(ranges) == len(spans)
    assert ranges.first() == (spans[0] if spans else None)
    assert ranges.lowest(2) == tuple(spans[:2])
    assert list(RangeSet(spans)) == spans
