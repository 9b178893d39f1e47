"""What is read ahead for who reads in order: how much, for whom, and within which bound."""

from hypothesis import given
from hypothesis import strategies as st

from danube.model.limits.broker import KIB, READ_AHEAD_ANSWERS, READ_AHEAD_PACE, READ_AHEAD_READERS_MAX
from danube.storage.batches.stored_batch import StoredBatch
from danube.storage.log.read_ahead import ReadAhead

TOPIC = 5
SIZE = 1_000


def batches(first: int, count: int, size: int = SIZE) -> list[StoredBatch]:
    return [StoredBatch(number, 1, 1, bytes([number & 255]) * size) for number in range(first, first + count)]


def test_only_who_goes_on_where_an_answer_ended_gets_more_than_was_asked_for() -> None:
    ahead = ReadAhead()
    assert ahead.bytes_to_read(TOPIC, 0, SIZE, 0) == SIZE
    assert ahead.keep(TOPIC, batches(0, 1), SIZE, 0, 0) == batches(0, 1)
    assert [ahead.bytes_to_read(*one, SIZE, 0) for one in ((TOPIC, 2), (TOPIC + 1, 1))] == [SIZE, SIZE]
    assert ahead.bytes_to_read(TOPIC, 1, SIZE, 0) == READ_AHEAD_ANSWERS * SIZE


def test_what_was_not_asked_for_is_at_hand_for_the_next_read() -> None:
    ahead = ReadAhead()
    assert ahead.keep(TOPIC, batches(0, 4), 2 * SIZE, 0, 0) == batches(0, 2)
    assert ahead.take(TOPIC, 1, SIZE) is None
    assert ahead.take(TOPIC, 2, SIZE) == batches(2, 1)
    assert ahead.take(TOPIC, 3, SIZE) == batches(3, 1)
    assert (ahead.take(TOPIC, 4, SIZE), ahead.bytes) == (None, 0)
    assert ahead.bytes_to_read(TOPIC, 4, SIZE, 0) == READ_AHEAD_ANSWERS * SIZE


@given(sizes=st.lists(st.integers(1, 300), min_size=1, max_size=30), asked=st.lists(st.integers(0, 700), min_size=30))
def test_answers_of_any_size_are_at_least_one_batch_and_then_what_fits(sizes: list[int], asked: list[int]) -> None:
    stored = [StoredBatch(number, 1, 1, bytes(size)) for number, size in enumerate(sizes)]
    ahead, found, turns = ReadAhead(), [], iter(asked)
    answer: list[StoredBatch] | None = ahead.keep(TOPIC, stored, next(turns), 0, 0)
    while answer:
        found += answer
        bytes_max = next(turns, 0)
        answer = ahead.take(TOPIC, len(found), bytes_max)
        assert not answer or len(answer) == 1 or sum(len(batch.body) for batch in answer) <= bytes_max
    assert found == stored


def test_all_readers_together_have_one_bound_and_the_oldest_goes_first() -> None:
    ahead = ReadAhead(bytes_max=10 * SIZE)
    for topic in range(20):
        ahead.keep(topic, batches(0, 4), SIZE, 0, 0)
        assert ahead.bytes <= 10 * SIZE
    assert ahead.take(0, 1, SIZE) is None
    assert ahead.take(19, 1, SIZE) == batches(1, 1)


def test_so_many_places_where_somebody_may_go_on_are_remembered() -> None:
    ahead = ReadAhead()
    for offset in range(READ_AHEAD_READERS_MAX + 1):
        ahead.keep(TOPIC, batches(offset, 1), SIZE, 0, 0)
    assert ahead.bytes_to_read(TOPIC, 1, SIZE, 0) == SIZE
    assert ahead.bytes_to_read(TOPIC, 2, SIZE, 0) == READ_AHEAD_ANSWERS * SIZE


def read_at_pace(ahead: ReadAhead, *, took_s: float, used_s: float, answers: int = 1) -> int:
    """How much is read for who used up so many answers, read at once, in that time."""
    size = 64 * KIB
    ahead.keep(TOPIC, batches(0, answers, size), size, 0, took_s)
    for offset in range(1, answers):
        assert ahead.take(TOPIC, offset, size) is not None
    return ahead.bytes_to_read(TOPIC, answers, size, took_s + used_s) // size


def test_a_reader_that_is_slower_than_the_files_is_read_for_one_answer_at_a_time() -> None:
    for answers in (1, READ_AHEAD_ANSWERS):
        used_s = answers * 64 * KIB / READ_AHEAD_PACE
        assert read_at_pace(ReadAhead(), took_s=0.000_1, used_s=1.01 * used_s, answers=answers) == 1
        assert read_at_pace(ReadAhead(), took_s=0.000_1, used_s=0.99 * used_s, answers=answers) == READ_AHEAD_ANSWERS


def test_a_reader_that_waits_for_slow_files_is_read_ahead_for() -> None:
    assert read_at_pace(ReadAhead(), took_s=2, used_s=1.9) == READ_AHEAD_ANSWERS
    assert read_at_pace(ReadAhead(), took_s=2, used_s=2.1) == 1


def test_a_forgotten_topic_takes_no_memory() -> None:
    ahead = ReadAhead()
    for topic in (TOPIC, 6):
        ahead.keep(topic, batches(0, 2), SIZE, 0, 0)
    ahead.forget(TOPIC)
    assert ahead.take(TOPIC, 1, SIZE) is None
    assert ahead.take(6, 1, SIZE) == batches(1, 1)
    assert ahead.bytes == 0
