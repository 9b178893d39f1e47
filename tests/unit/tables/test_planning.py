"""Positions become ranges, ranges become slices: every record once, whatever the numbers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from danube.model.calls.stream import FetchFrom, FetchTime
from danube.model.errors import InvalidRequestError, PreconditionFailedError
from danube.tables.planning import (
    SLICES_MAX,
    OffsetRange,
    Positions,
    TopicState,
    batch_ranges,
    fair_shares,
    slices,
)

EARLIEST, LATEST = Positions(FetchFrom.EARLIEST), Positions(FetchFrom.LATEST)
ONE = TopicState("/default/t-part-0", topic_id=7, start=10, end=100, offsets_at={5_000: 40})
OTHER = TopicState("/default/t-part-1", topic_id=8, start=0, end=50, offsets_at={5_000: 50})
RANGES = st.lists(st.tuples(st.integers(0, 2**40), st.integers(1, 10**6)), max_size=8).map(
    lambda found: [OffsetRange(f"/default/t-part-{n}", n, at, at + rows) for n, (at, rows) in enumerate(found)]
)


def planned(starting: Positions, ending: Positions = LATEST, *, fail: bool = True) -> list[tuple[str, int, int]]:
    found = batch_ranges([ONE, OTHER], starting, ending, fail_on_data_loss=fail)
    return [(one.topic[-1], one.start, one.end) for one in found]


@given(RANGES, st.integers(1, 10**6))
def test_slices_hold_every_record_once_and_in_order(ranges: list[OffsetRange], rows: int) -> None:
    found = slices(ranges, rows)
    for one in ranges:
        cuts = [cut for cut in found if cut.topic == one.topic]
        assert [one.start, *(cut.end for cut in cuts)] == [*(cut.start for cut in cuts), one.end]
        assert all(cut.rows and cut.topic_id == one.topic_id for cut in cuts)
    assert len(found) <= SLICES_MAX


@given(st.integers(0, 2**40), st.integers(1, 10**6), st.integers(1, 10**6))
def test_slices_of_one_range_touch_and_are_of_about_the_same_size(start: int, rows: int, most: int) -> None:
    found = slices([OffsetRange("/default/t", 7, start, start + rows)], most)
    edges = [found[0].start, *(cut.end for cut in found)]
    assert edges == sorted({start, *(cut.start for cut in found), start + rows})
    assert max(cut.rows for cut in found) - min(cut.rows for cut in found) <= 1
    assert len(found) <= SLICES_MAX


def test_slices_are_no_larger_than_what_is_asked_for() -> None:
    assert [cut.rows for cut in slices([OffsetRange("/default/t", 7, 5, 26)], 10)] == [7, 7, 7]


def test_slices_grow_where_there_would_be_too_many() -> None:
    found = slices([OffsetRange("/default/t", 7, 0, 10 * SLICES_MAX)], 1)
    assert (len(found) <= SLICES_MAX, sum(cut.rows for cut in found)) == (True, 10 * SLICES_MAX)


@given(st.dictionaries(st.text(max_size=3), st.integers(0, 1_000), max_size=6), st.integers(1, 3_000))
def test_shares_are_fair_and_use_all_that_may_be_read(backlogs: dict[str, int], rows_max: int) -> None:
    shares = fair_shares(backlogs, rows_max)
    assert sum(shares.values()) == min(sum(backlogs.values()), rows_max)
    assert all(shares[topic] <= backlog for topic, backlog in backlogs.items())
    cut_short = [shares[topic] for topic, backlog in backlogs.items() if shares[topic] < backlog]
    if cut_short:
        assert max(cut_short) - min(cut_short) <= 1
        assert max(shares.values()) <= max(cut_short) + 1


@pytest.mark.parametrize(
    ("starting", "ending", "expected"),
    [
        (EARLIEST, LATEST, [("0", 10, 100), ("1", 0, 50)]),
        (Positions(20), Positions(30), [("0", 20, 30), ("1", 20, 30)]),
        (Positions(FetchTime(5_000)), LATEST, [("0", 40, 100)]),
        (EARLIEST, Positions(FetchTime(5_000)), [("0", 10, 40), ("1", 0, 50)]),
        (Positions(by_topic={ONE.topic: 99, OTHER.topic: FetchFrom.EARLIEST}), LATEST, [("0", 99, 100), ("1", 0, 50)]),
        (LATEST, LATEST, []),
    ],
)
def test_positions_are_found_in_every_topic(
    starting: Positions, ending: Positions, expected: list[tuple[str, int, int]]
) -> None:
    assert planned(starting, ending) == expected


@pytest.mark.parametrize(
    ("starting", "ending", "sentence"),
    [
        (Positions(60), LATEST, "t-part-1 can be read from 0 to 50"),
        (EARLIEST, Positions(51), "t-part-1 can be read from 0 to 50"),
        (Positions(20), Positions(19), "not from 20 to 19"),
        (Positions(by_topic={ONE.topic: 20}), LATEST, "no offset for /default/t-part-1"),
        (Positions(by_topic={"/default/x": 20}), LATEST, "/default/x is given an offset and is not read"),
        (EARLIEST, Positions(by_topic={"/default/x": 20}), "the topics are /default/t-part-0, /default/t-part-1"),
    ],
)
def test_offsets_that_are_not_there_are_refused(starting: Positions, ending: Positions, sentence: str) -> None:
    with pytest.raises(InvalidRequestError, match=sentence):
        planned(starting, ending)


def test_records_that_are_gone_are_an_error_that_says_what_to_do() -> None:
    with pytest.raises(PreconditionFailedError, match=r"offsets 9 to 10 .* are gone.* start at 10 .*fail_on_data_loss"):
        planned(Positions(9))


def test_records_that_are_gone_are_left_out_where_that_is_allowed() -> None:
    assert planned(Positions(9), fail=False) == [("0", 10, 100), ("1", 9, 50)]
