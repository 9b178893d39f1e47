"""Schedules: when runs are due, what is made up, and which runner has the lease."""

from dataclasses import replace

import pytest

from danube.model.errors import InvalidRequestError
from danube.model.records.analytics import AnalyticsJob, RunWriter, decode_record, encode_record, runs_of
from danube.model.records.schedules import (
    LEASE_S,
    Missed,
    Schedule,
    book_of,
    lease_record,
    schedule_record,
    started_of,
)

T0_MS = 1_750_000_000_000
HOUR_MS = 3_600_000
NIGHTLY = Schedule(name="nightly", job=AnalyticsJob.LAG, every_s=3_600, first_ms=T0_MS, arguments=("--since", "1d"))


@pytest.mark.parametrize(
    ("missed", "done", "now", "due"),
    [
        (Missed.LAST, [], -1, []),
        (Missed.LAST, [], 0, [0]),
        (Missed.LAST, [0], 0.9, []),
        (Missed.LAST, [0], 3.5, [3]),
        (Missed.ALL, [0], 3.5, [1, 2, 3]),
        (Missed.ALL, [], 3.5, [3]),
        (Missed.SKIP, [0], 3.5, []),
        (Missed.SKIP, [0], 3.05, [3]),
        (Missed.ALL, [0], 500, list(range(401, 501))),
    ],
)
def test_runs_that_are_due_and_those_that_were_missed(
    missed: Missed, done: list[int], now: float, due: list[int]
) -> None:
    found = replace(NIGHTLY, missed=missed).due([T0_MS + HOUR_MS * hour for hour in done], T0_MS + round(HOUR_MS * now))
    assert found == [T0_MS + HOUR_MS * hour for hour in due]


def test_records_survive_the_topic_and_the_last_one_of_a_name_counts() -> None:
    records = [
        schedule_record(NIGHTLY, 1, "a"),
        schedule_record(replace(NIGHTLY, every_s=60), 2, "a"),
        schedule_record(replace(NIGHTLY, name="other"), 3, "a"),
        schedule_record(replace(NIGHTLY, name="other"), 4, "a", removed=True),
        schedule_record(replace(NIGHTLY, name="wrong", every_s=1), 5, "a"),
    ]
    decoded = [decode_record(encode_record(one)) for one in records]
    assert decoded == records
    assert book_of(records).schedules == {"nightly": replace(NIGHTLY, every_s=60)}
    assert runs_of(records, 10) == []


def test_of_two_runners_that_claim_at_once_one_has_the_lease_until_it_runs_out() -> None:
    late_ms = T0_MS + round(LEASE_S * 1_000)
    book = book_of([lease_record("a", T0_MS), lease_record("b", T0_MS + 1)])
    assert (book.is_holder("a", T0_MS + 5), book.is_holder("b", T0_MS + 5)) == (True, False)
    assert not book.is_holder("a", late_ms)
    book.read(lease_record("a", late_ms - 1))
    book.read(lease_record("b", late_ms))
    assert book.is_holder("a", late_ms)
    book.read(lease_record("b", late_ms + round(LEASE_S * 1_000)))
    assert book.is_holder("b", late_ms + round(LEASE_S * 1_000))
    book.read(lease_record("b", late_ms + 40_000, 0.0))
    assert not book.is_holder("b", late_ms + 40_000)
    book.read(lease_record("a", late_ms + 40_001))
    assert book.is_holder("a", late_ms + 40_002)


def test_a_run_that_was_lost_is_due_again_and_one_that_runs_is_not() -> None:
    writer = RunWriter(run_id=NIGHTLY.run_id(T0_MS), attempt="x", job="lag")
    started = writer.started(T0_MS, as_of_ms=T0_MS, time_limit_s=60, window={})
    running, lost = runs_of([started], T0_MS + 1_000), runs_of([started], T0_MS + 200_000)
    assert NIGHTLY.due(started_of(NIGHTLY, running), T0_MS + 1_000) == []
    assert NIGHTLY.due(started_of(NIGHTLY, lost), T0_MS + 200_000) == [T0_MS]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"name": "a b"}, "is not valid"),
        ({"name": "n" * 41}, "at most 40"),
        ({"every_s": 59}, "every is from 60 s"),
        ({"arguments": ("--run-id=x",)}, "--run-id=x is set by the runner"),
        ({"arguments": ("x" * 2_001,)}, "more than 2000 characters"),
    ],
)
def test_a_schedule_that_cannot_be_kept_is_refused(change: dict[str, object], said: str) -> None:
    with pytest.raises(InvalidRequestError, match=said):
        replace(NIGHTLY, **change).check()  # type: ignore[arg-type]
