"""Finding batches by offset and by time."""

import pytest

from danube.storage.journal.index import Located, TopicIndex

BATCHES = [
    Located(0, 10, 100, 40, 1_000),
    Located(10, 11, 200, 50, 1_000),
    Located(11, 30, 300, 60, 2_000),
]


@pytest.fixture
def index() -> TopicIndex:
    one = TopicIndex()
    for batch in BATCHES:
        one.append(batch)
    return one


def test_batches_come_back_as_they_were_added(index: TopicIndex) -> None:
    assert [index[number] for number in range(len(index))] == BATCHES
    assert (index.end_offset, index.last_append_time_ms, index.body_bytes) == (30, 2_000, 150)


@pytest.mark.parametrize(("offset", "number"), [(0, 0), (9, 0), (10, 1), (11, 2), (29, 2), (30, 3), (99, 3)])
def test_offset_is_found_in_the_batch_that_holds_it(index: TopicIndex, offset: int, number: int) -> None:
    assert index.find(offset) == number


@pytest.mark.parametrize(("time_ms", "offset"), [(0, 0), (1_000, 0), (1_001, 11), (2_000, 11), (2_001, 30)])
def test_time_is_found_in_the_first_batch_that_is_not_older(index: TopicIndex, time_ms: int, offset: int) -> None:
    assert index.offset_at(time_ms) == offset


@pytest.mark.parametrize(
    "wrong", [Located(31, 32, 0, 0, 2_000), Located(29, 32, 0, 0, 2_000), Located(30, 30, 0, 0, 2_000)]
)
def test_gaps_overlaps_and_empty_batches_are_refused(index: TopicIndex, wrong: Located) -> None:
    with pytest.raises(ValueError, match="follows"):
        index.append(wrong)


@pytest.mark.parametrize(("offset", "left"), [(0, 3), (9, 3), (10, 2), (11, 1), (29, 1), (30, 0), (99, 0)])
def test_batches_that_end_below_an_offset_are_let_go(index: TopicIndex, offset: int, left: int) -> None:
    index.drop_below(offset)
    rest = BATCHES[3 - left :]
    assert [index[number] for number in range(len(index))] == rest
    assert (index.start_offset, index.end_offset) == (rest[0].base_offset if rest else 30, 30)
    assert index.body_bytes == sum(batch.body_bytes for batch in rest)
    assert index.last_append_time_ms == 2_000


def test_what_was_let_go_is_not_found_and_the_next_batch_still_follows(index: TopicIndex) -> None:
    index.drop_below(11)
    assert (index.find(11), index.find(29), index.find(30)) == (0, 0, 1)
    with pytest.raises(IndexError):
        index.find(10)
    index.drop_below(30)
    with pytest.raises(ValueError, match="goes back"):
        index.append(Located(30, 31, 400, 1, 1_999))
    index.append(Located(30, 31, 400, 1, 2_000))
    assert index[0] == Located(30, 31, 400, 1, 2_000)


@pytest.mark.parametrize(("first", "last"), [(0, 0), (0, 150), (101, 300), (100, 301), (301, 999)])
def test_a_run_of_batches_is_copied_by_position(index: TopicIndex, first: int, last: int) -> None:
    wanted = [batch for batch in BATCHES if first <= batch.position < last]
    run = index.between(first, last)
    assert [*run.bases] == [batch.base_offset for batch in wanted]
    assert not run or run.end_offset == wanted[-1].end_offset
    fresh = TopicIndex(wanted[0].base_offset if wanted else 0)
    assert fresh.fits(run)
    fresh.extend(run)
    assert [fresh[number] for number in range(len(fresh))] == wanted
    assert fresh.body_bytes == sum(batch.body_bytes for batch in wanted)


@pytest.mark.parametrize(
    ("offset", "bytes_max", "wanted"),
    [
        (0, 0, BATCHES[:1]),
        (9, 89, BATCHES[:1]),
        (9, 90, BATCHES[:2]),
        (0, 150, BATCHES),
        (10, 109, BATCHES[1:2]),
        (10, 110, BATCHES[1:]),
        (29, 1, BATCHES[2:]),
        (30, 999, []),
    ],
)
def test_a_run_begins_with_the_batch_that_holds_an_offset_and_goes_on_with_what_fits(
    index: TopicIndex, offset: int, bytes_max: int, wanted: list[Located]
) -> None:
    assert index.run_at(offset, bytes_max).located() == wanted


def test_a_run_below_the_first_offset_is_refused(index: TopicIndex) -> None:
    index.drop_below(10)
    with pytest.raises(IndexError, match="below 10"):
        index.run_at(9, 999)


def test_batches_below_a_position_are_told(index: TopicIndex) -> None:
    assert [index.between(0, position).located() for position in (100, 101, 300, 999)] == [
        [],
        BATCHES[:1],
        BATCHES[:2],
        BATCHES,
    ]


def test_an_index_may_begin_anywhere() -> None:
    index = TopicIndex(50, 7_000)
    assert (index.start_offset, index.end_offset, index.start_position) == (50, 50, None)
    with pytest.raises(ValueError, match="goes back"):
        index.append(Located(50, 51, 0, 0, 6_999))
    index.append(Located(50, 51, 900, 1, 7_000))
    assert (index.start_offset, index.start_position) == (50, 900)


def test_time_that_goes_back_is_refused(index: TopicIndex) -> None:
    with pytest.raises(ValueError, match="goes back"):
        index.append(Located(30, 31, 0, 0, 1_999))


def test_empty_index_holds_nothing() -> None:
    empty = TopicIndex()
    assert (len(empty), empty.find(0), empty.offset_at(0), empty.last_append_time_ms) == (0, 0, 0, 0)
