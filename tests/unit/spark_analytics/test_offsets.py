"""A stream's offsets: what is written, how they advance, and that no record comes twice or never."""

import json
from collections import Counter
from itertools import chain, repeat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from danube.model.calls.stream import FetchFrom
from danube.model.errors import InvalidRequestError, PreconditionFailedError
from danube.tables.planning import Positions, TopicState
from spark_analytics.source.offsets import StreamOffsets, StreamPosition

EARLIEST = Positions(FetchFrom.EARLIEST)
TOPIC = "/default/t"


def state(end: int, *, topic: str = TOPIC, topic_id: int = 7, start: int = 0) -> TopicState:
    return TopicState(topic, topic_id, start, end)


def at(offset: int, *, topic: str = TOPIC, topic_id: int = 7) -> StreamOffsets:
    return StreamOffsets({topic: StreamPosition(topic_id, offset)})


def advanced(
    since: StreamOffsets, *states: TopicState, rows_max: int | None = None, fail: bool = True
) -> StreamOffsets:
    return since.advanced(states, rows_max, fail_on_data_loss=fail)


def test_json_of_version_1_reads_as_it_is_documented() -> None:
    offsets = StreamOffsets({"/default/b": StreamPosition(8, 0), "/default/a": StreamPosition(7, 1200)})
    assert json.dumps(offsets.to_json()) == '{"version": 1, "/default/a": "1200@7", "/default/b": "0@8"}'
    assert StreamOffsets.from_json(offsets.to_json()) == offsets


@pytest.mark.parametrize("found", [{}, {"version": 2}, {"version": 1, TOPIC: 5}, {"version": 1, TOPIC: "5@"}])
def test_json_of_others_is_refused(found: dict[str, object]) -> None:
    with pytest.raises(InvalidRequestError, match="new checkpoint"):
        StreamOffsets.from_json(found)


def test_stream_begins_where_it_is_told() -> None:
    begun = StreamOffsets.initial([state(9)], Positions(FetchFrom.LATEST), fail_on_data_loss=True)
    assert begun == at(9)
    with pytest.raises(InvalidRequestError, match="ends at 9, and 10 is past it"):
        StreamOffsets.initial([state(9)], Positions(10), fail_on_data_loss=True)


def test_stream_advances_to_the_end_or_as_far_as_it_may() -> None:
    assert advanced(at(3), state(9)) == at(9)
    assert advanced(at(3), state(9), rows_max=2) == at(5)
    assert advanced(at(9), state(9), rows_max=2) == at(9)


def test_partition_that_appears_is_entered_with_its_first_offset_and_read_from_the_next_batch_on() -> None:
    new = state(50, topic="/default/t-part-1", topic_id=8, start=20)
    entered = advanced(at(3), state(9), new)
    assert entered.to_json() == {"version": 1, TOPIC: "9@7", new.topic: "20@8"}
    assert [(one.topic, one.start, one.end) for one in at(3).ranges_to(entered)] == [(TOPIC, 3, 9)]
    later = advanced(entered, state(9), new)
    assert [(one.topic, one.start, one.end) for one in entered.ranges_to(later)] == [(new.topic, 20, 50)]


@pytest.mark.parametrize(
    ("states", "sentence"),
    [
        ([state(9, topic_id=8)], "was deleted and created again since the checkpoint"),
        ([state(2)], "ends at 2, before offset 3 of the checkpoint"),
        ([state(9, start=4)], "offsets 3 to 4 .* are gone"),
        ([state(9, topic="/default/u")], "/default/t is in the checkpoint and is not there any more"),
    ],
)
def test_what_was_lost_is_refused_with_the_next_step(states: list[TopicState], sentence: str) -> None:
    with pytest.raises(PreconditionFailedError, match=f"{sentence}.*fail_on_data_loss"):
        advanced(at(3), *states)


@pytest.mark.parametrize(
    ("found", "first", "second"),
    [
        (state(9, topic_id=8, start=5), [], [(5, 9)]),
        (state(2), [], []),
        (state(9, start=4), [(3, 9)], []),
    ],
)
def test_what_was_lost_is_passed_over_where_that_is_allowed(
    found: TopicState, first: list[tuple[int, int]], second: list[tuple[int, int]]
) -> None:
    once = advanced(at(3), found, fail=False)
    twice = advanced(once, found, fail=False)
    assert [(one.start, one.end) for one in at(3).ranges_to(once)] == first
    assert [(one.start, one.end) for one in once.ranges_to(twice)] == second
    assert advanced(twice, found, fail=False) == twice


def test_query_that_reads_what_was_there_stops_at_its_target() -> None:
    target = StreamOffsets.ends([state(5)])
    new = state(50, topic="/default/t-part-1", topic_id=8)
    assert advanced(at(3), state(9), new).capped(target, at(3)) == at(5)


def test_a_partition_that_cannot_be_asked_stays_where_it_is_and_is_read_on_later() -> None:
    other = "/default/t-part-1"
    since = StreamOffsets({**at(3).by_topic, **at(4, topic=other, topic_id=8).by_topic})
    away = since.states_of([other, "/default/new"])
    end = advanced(since, state(9), *away)
    assert end == StreamOffsets({**at(9).by_topic, **at(4, topic=other, topic_id=8).by_topic})
    assert end.capped(StreamOffsets.ends([state(5)]), since).by_topic[other] == since.by_topic[other]
    again = advanced(end, state(9), state(6, topic=other, topic_id=8))
    assert [(one.topic, one.start, one.end) for one in end.ranges_to(again)] == [(other, 4, 6)]


Step = tuple[str, int]


@given(
    st.lists(st.tuples(st.sampled_from(["append", "grow", "batch"]), st.integers(0, 7)), max_size=40),
    st.one_of(st.none(), st.integers(1, 9)),
)
def test_every_record_comes_once_over_appends_new_partitions_and_restarts(
    steps: list[Step], rows_max: int | None
) -> None:
    """A model of Spark: a batch is planned, written down, read, and perhaps read again after a restart."""
    ends = [0]
    written = StreamOffsets.initial(_states(ends), EARLIEST, fail_on_data_loss=True).to_json()
    read = Counter[tuple[str, int]]()
    for step, number in chain(steps, repeat(("batch", 0), 400)):
        if step == "append":
            ends[number % len(ends)] += number
        elif step == "grow" and len(ends) < 4:
            ends.append(number)
        elif step == "batch":
            since = StreamOffsets.from_json(json.loads(json.dumps(written)))
            planned = advanced(since, *_states(ends), rows_max=rows_max).to_json()
            until = StreamOffsets.from_json(planned)
            rows = [(one.topic, offset) for one in since.ranges_to(until) for offset in range(one.start, one.end)]
            assert rows_max is None or len(rows) <= rows_max
            again = [(one.topic, offset) for one in since.ranges_to(until) for offset in range(one.start, one.end)]
            assert again == rows
            read.update(rows)
            written = planned
    assert read == Counter((one.topic, offset) for one in _states(ends) for offset in range(one.end))


def _states(ends: list[int]) -> list[TopicState]:
    return [state(end, topic=f"{TOPIC}-part-{number}", topic_id=100 + number) for number, end in enumerate(ends)]
