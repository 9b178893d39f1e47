"""What a broker makes of a topic's epochs when it begins with it, without any disk."""

from danube.metadata.records.record_format import EpochRange, TopicStorage
from danube.model.subscription import Cursor
from danube.storage.batches.producer_state import SequencedBatch, StoredNumbers
from danube.storage.journal.index import Located, TopicBase, TopicIndex
from danube.storage.takeover.epoch_history import (
    base_after,
    empty_base,
    own_bases,
    sealed,
    sealed_and_next,
    wanted_epochs,
)
from danube.storage.takeover.journal_reader import FoundEpoch

A, MINE, OTHERS = 1, 41, 42
SEALED, OPEN = EpochRange(3, OTHERS, 5, 9, 100), EpochRange(4, MINE, 9, None, 200)
RECORD = TopicStorage(A, epochs=(SEALED, OPEN), revision=7)


def base(end_offset: int, **covered: int) -> TopicBase:
    by_id = {int(name[1:]): position for name, position in covered.items()}
    return TopicBase(topic_id=A, end_offset=end_offset, last_append_time_ms=1_000, covered=by_id)


def test_an_epoch_is_wanted_from_where_segments_end_and_journals_are_not_covered() -> None:
    first, second = wanted_epochs(RECORD, base(7, _42=150))
    assert (first.first_offset, first.position, first.is_needed) == (7, 150, True)
    assert (second.first_offset, second.position, second.is_needed) == (9, 200, True)


def test_an_epoch_that_ended_within_the_segments_needs_no_journal() -> None:
    first, second = wanted_epochs(RECORD, base(9))
    assert (first.is_needed, second.is_needed) == (False, True)


def test_a_broker_that_starts_again_knows_its_own_topics_and_from_where_they_count() -> None:
    given = TopicStorage(2, epochs=(EpochRange(1, MINE, 0, 4),))
    elsewhere = TopicStorage(3, epochs=(EpochRange(1, OTHERS, 0),))
    found = own_bases([RECORD, given, elsewhere, TopicStorage(4)], MINE, {})
    assert found.keys() == {A}
    assert (found[A].end_offset, found[A].covered) == (9, {MINE: 200})


def test_segments_that_reach_beyond_the_beginning_of_an_epoch_count_more() -> None:
    found = own_bases([RECORD], MINE, {A: base(12, _41=300)})
    assert (found[A].end_offset, found[A].covered) == (12, {MINE: 300})


def test_the_next_epoch_begins_where_the_last_one_is_sealed() -> None:
    assert sealed(RECORD, 11)[-1] == EpochRange(4, MINE, 9, 11, 200)
    assert sealed_and_next(RECORD, 11, OTHERS, 500)[-1] == EpochRange(5, OTHERS, 11, None, 500)
    assert sealed_and_next(TopicStorage(A), 0, MINE, 52) == (EpochRange(1, MINE, 0, None, 52),)
    assert sealed(TopicStorage(A), 0) == ()


def test_with_the_next_epoch_those_are_forgotten_that_hold_nothing_above_the_segments() -> None:
    def begun(end_offset: int, segments_end: int) -> list[int]:
        return [one.epoch for one in sealed_and_next(RECORD, end_offset, OTHERS, 500, segments_end=segments_end)]

    assert begun(11, 8) == [3, 4, 5]
    assert begun(11, 9) == [4, 5]
    assert begun(11, 11) == [5]
    assert begun(9, 0) == [3, 5], "nothing was appended in the fourth"


def test_a_base_takes_over_times_numbers_and_cursors_but_nothing_beyond_its_end() -> None:
    index = TopicIndex(5, 1_000)
    numbers = []
    for first in (5, 6, 7):
        index.append(Located(first, first + 1, first * 100, 10, 1_000 + first))
        numbers.append(StoredNumbers(SequencedBatch(9, first, 1, 0), first))
    after = base_after(empty_base(A), [FoundEpoch(index, 7, numbers=numbers)], 7, {5: Cursor(6)})
    assert (after.end_offset, after.last_append_time_ms, after.cursors) == (7, 1_006, {5: Cursor(6)})
    assert [[one.base_offset for one in row] for row in after.producer_states] == [[5, 6]]
