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


@pytest.mark.parametrize(("time_ms", "number"), [(0, 0), (1_000, 0), (1_001, 2), (2_000, 2), (2_001, 3)])
def test_time_is_found_in_the_first_batch_that_is_not_older(index: TopicIndex, time_ms: int, number: int) -> None:
    assert index.find_time(time_ms) == number


@pytest.mark.parametrize(
    "wrong", [Located(31, 32, 0, 0, 2_000), Located(29, 32, 0, 0, 2_000), Located(30, 30, 0, 0, 2_000)]
)
def test_gaps_overlaps_and_empty_batches_are_refused(index: TopicIndex, wrong: Located) -> None:
    with pytest.raises(ValueError, match="follows"):
        index.append(wrong)


def test_time_that_goes_back_is_refused(index: TopicIndex) -> None:
    with pytest.raises(ValueError, match="goes back"):
        index.append(Located(30, 31, 0, 0, 1_999))


def test_empty_index_holds_nothing() -> None:
    empty = TopicIndex()
    assert (len(empty), empty.find(0), empty.find_time(0), empty.last_append_time_ms) == (0, 0, 0, 0)
