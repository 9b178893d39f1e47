"""Schedules: when runs are due, and what is made up."""

from dataclasses import replace

import pytest

from danube.model.errors import InvalidRequestError
from danube.model.records.analytics import AnalyticsJob, Run, RunWriter, runs_of
from danube.model.records.schedules import Missed, Schedule

T0_MS = 1_750_000_000_000
HOUR_MS = 3_600_000
NIGHTLY = Schedule(name="nightly", job=AnalyticsJob.LAG, every_s=3_600, first_ms=T0_MS, arguments=("--since", "1d"))


def ran(*hours: float, at_ms: int = T0_MS) -> list[Run]:
    """Runs that were started, and never ended."""
    due = [T0_MS + round(HOUR_MS * hour) for hour in hours]
    writers = [RunWriter(run_id=NIGHTLY.run_id(due_ms), attempt="x", job="lag") for due_ms in due]
    return runs_of([each.started(T0_MS, as_of_ms=0, time_limit_s=60, window={}) for each in writers], at_ms)


@pytest.mark.parametrize(
    ("missed", "done", "now", "due"),
    [
        (Missed.LAST, [], -1, []),
        (Missed.LAST, [], 0, [0]),
        (Missed.LAST, [0], 0.9, []),
        (Missed.LAST, [0], 3.5, [3]),
        (Missed.ALL, [0], 3.5, [1, 2, 3]),
        (Missed.ALL, [0.5], 3.5, [1, 2, 3]),  # a run out of turn
        (Missed.ALL, [], 3.5, [3]),
        (Missed.SKIP, [0], 3.5, []),
        (Missed.SKIP, [0], 3.05, [3]),
        (Missed.ALL, [0], 500, list(range(401, 501))),
    ],
)
def test_runs_that_are_due_and_those_that_were_missed(
    missed: Missed, done: list[float], now: float, due: list[int]
) -> None:
    found = replace(NIGHTLY, missed=missed).due(ran(*done), T0_MS + round(HOUR_MS * now))
    assert found == [T0_MS + HOUR_MS * hour for hour in due]


def test_a_run_that_was_lost_is_due_again_and_one_that_runs_is_not() -> None:
    begun = NIGHTLY.begun(T0_MS, T0_MS)
    assert begun.due(ran(0), T0_MS + 1_000) == []
    assert begun.due(ran(0, at_ms=T0_MS + 200_000), T0_MS + 200_000) == [T0_MS]
    assert begun.due([], T0_MS + 200_000) == []
    assert begun.due([], T0_MS + HOUR_MS - 1) == [T0_MS]


def test_a_run_out_of_turn_is_due_until_it_is_begun() -> None:
    asked = replace(NIGHTLY.begun(T0_MS, T0_MS), requested_ms=T0_MS + 5_000)
    assert asked.due(ran(0), T0_MS + 6_000) == [T0_MS + 5_000]
    assert asked.begun(T0_MS + 5_000, T0_MS + 6_000).due(ran(0), T0_MS + 7_000) == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"name": "a b"}, "is not valid"),
        ({"name": "n" * 41}, "at most 40"),
        ({"every_s": 59}, "every is from 60 s"),
        ({"first_ms": 2**60}, "too far away"),
        ({"arguments": ("--run-id=x",)}, "--run-id=x is set by the runner"),
        ({"arguments": ("--report", "/etc/motd")}, "--report is set by the runner"),
        ({"arguments": ("a\0b",)}, "a NUL"),
        ({"arguments": ("x" * 2_001,)}, "more than 2000 characters"),
    ],
)
def test_a_schedule_that_cannot_be_kept_is_refused(change: dict[str, object], said: str) -> None:
    with pytest.raises(InvalidRequestError, match=said):
        replace(NIGHTLY, **change).check()  # type: ignore[arg-type]
