from danube.model.ranges import OffsetRange, RangeSet


def test_ranges_that_touch_become_one() -> None:
    ranges = RangeSet([OffsetRange(0, 5), OffsetRange(10, 15), OffsetRange(5, 10)])
    assert list(ranges) == [OffsetRange(0, 15)]
    assert len(ranges) == 1


def test_a_range_is_split_by_what_is_removed_from_its_middle() -> None:
    ranges = RangeSet([OffsetRange(0, 10)])
    ranges.remove(3, 4)
    assert list(ranges) == [OffsetRange(0, 3), OffsetRange(4, 10)]


def test_an_empty_or_reversed_span_changes_and_overlaps_nothing() -> None:
    ranges = RangeSet([OffsetRange(0, 10)])
    ranges.add(20, 20)
    ranges.remove(7, 3)
    assert list(ranges) == [OffsetRange(0, 10)]
    assert ranges.overlap(5, 5) == ranges.overlap(7, 3) == []
    assert ranges.gaps(15, 15) == ranges.gaps(15, 12) == []


def test_overlap_and_gaps_divide_a_span_between_them() -> None:
    ranges = RangeSet([OffsetRange(2, 4), OffsetRange(6, 8)])
    assert ranges.overlap(3, 7) == [OffsetRange(3, 4), OffsetRange(6, 7)]
    assert ranges.gaps(3, 10) == [OffsetRange(4, 6), OffsetRange(8, 10)]


def test_lowest_keeps_what_it_answered_when_the_set_changes() -> None:
    ranges = RangeSet([OffsetRange(0, 2), OffsetRange(4, 6), OffsetRange(8, 10)])
    lowest = ranges.lowest(2)
    ranges.remove(0, 10)
    assert lowest == (OffsetRange(0, 2), OffsetRange(4, 6))
    assert ranges.first() is None


def test_a_range_set_shows_its_ranges() -> None:
    assert repr(RangeSet([OffsetRange(0, 2), OffsetRange(4, 6)])) == "RangeSet(0:2, 4:6)"
