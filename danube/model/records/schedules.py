"""Schedules of analytics jobs, and the lease of the runner that starts them: records of ANALYTICS_TOPIC. Pure.

The log decides: all who read it in order know the same schedules and the same holder of the lease. A claim counts if
the lease was free, or had run out, when it was made. So of two runners that claim at once one has it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from danube.model.errors import InvalidRequestError
from danube.model.limits.faces import (
    SCHEDULE_ARGUMENTS_MAX,
    SCHEDULE_EVERY_S_MAX,
    SCHEDULE_EVERY_S_MIN,
    SCHEDULE_MADE_UP_MAX,
    SCHEDULES_MAX,
)
from danube.model.records.analytics import AnalyticsJob, RecordKind, Run, RunRecord, RunState, check_run_id

LEASE = "runner"
"""Run id of the records of the lease."""
LEASE_S = 30.0
"""A runner that has not renewed its lease for so long has lost it."""
_SKIP_AFTER_S = 300.0
"""A run that is skipped when missed counts as missed this long after it was due, or after half its interval."""


class Missed(StrEnum):
    """Treatment of runs that were due while no runner ran."""

    SKIP = "skip"
    """They are left out."""
    LAST = "last"
    """The newest of them is made up."""
    ALL = "all"
    """Each is made up, the oldest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """One schedule."""

    name: str
    job: AnalyticsJob
    every_s: int
    first_ms: int
    """The first run is due then, and each other one `every_s` later."""
    arguments: tuple[str, ...] = ()
    """Flags of `danube-analytics` for the job."""
    missed: Missed = Missed.LAST

    def check(self) -> "Schedule":
        """The schedule, if it can be kept. Raises InvalidRequestError."""
        check_run_id(self.name)
        if len(self.name) > 40:
            raise InvalidRequestError("a schedule's name has at most 40 characters: its runs are named after it")
        if not SCHEDULE_EVERY_S_MIN <= self.every_s <= SCHEDULE_EVERY_S_MAX:
            raise InvalidRequestError(f"every is from {SCHEDULE_EVERY_S_MIN} s to {SCHEDULE_EVERY_S_MAX // 86_400} d")
        if sum(map(len, self.arguments)) > SCHEDULE_ARGUMENTS_MAX:
            raise InvalidRequestError(f"the flags have more than {SCHEDULE_ARGUMENTS_MAX} characters")
        taken = [flag for flag in self.arguments if flag.split("=")[0] in _RUNNERS]
        if taken:
            raise InvalidRequestError(f"{taken[0]} is set by the runner: leave it out")
        return self

    def run_id(self, due_ms: int) -> str:
        """The id of the run that is due then: the same for every runner."""
        return f"{self.name}-{due_ms // 1_000}"

    def due(self, done: Iterable[int], now_ms: int) -> list[int]:
        """Times of runs to start now, the oldest first; `done` are those of runs that were started."""
        if now_ms < self.first_ms:
            return []
        step_ms = self.every_s * 1_000
        newest = self.first_ms + (now_ms - self.first_ms) // step_ms * step_ms
        last = max(done, default=None)
        if last is not None and last >= newest:
            return []
        match self.missed:
            case Missed.SKIP:
                return [newest] if now_ms - newest <= 1_000 * min(_SKIP_AFTER_S, self.every_s / 2) else []
            case Missed.LAST:
                return [newest]
            case Missed.ALL:
                first = newest if last is None else last + step_ms
                return list(range(first, newest + 1, step_ms))[-SCHEDULE_MADE_UP_MAX:]


_RUNNERS = frozenset({"--run-id", "--as-of", "--service-url", "--no-publish", "--token", "--ca-cert"})


@dataclass(slots=True)
class ScheduleBook:
    """Schedules, runs, and the holder of the lease, after all records so far."""

    schedules: dict[str, Schedule] = field(default_factory=dict)
    holder: str = ""
    until_ms: int = 0

    def read(self, record: RunRecord) -> None:
        """One record more, in the order of the topic."""
        if record.kind is RecordKind.LEASE:
            is_free = not self.holder or record.at_ms >= self.until_ms or record.attempt == self.holder
            if is_free:
                self.holder, self.until_ms = record.attempt, record.at_ms + round(record.fields["lease_s"] * 1_000)
        elif record.kind is RecordKind.SCHEDULE:
            self._change(record)

    def is_holder(self, runner: str, now_ms: int) -> bool:
        """True while the lease is this runner's."""
        return self.holder == runner and now_ms < self.until_ms

    def _change(self, record: RunRecord) -> None:
        self.schedules.pop(record.run_id, None)
        if record.fields["removed"]:
            return
        try:
            found = _schedule(record).check()
        except (ValueError, InvalidRequestError):
            return  # of a newer version, or of somebody who does not know the rules
        if len(self.schedules) < SCHEDULES_MAX:
            self.schedules[found.name] = found


def book_of(records: Iterable[RunRecord]) -> ScheduleBook:
    """The book after these records."""
    book = ScheduleBook()
    for record in records:
        book.read(record)
    return book


def schedule_record(schedule: Schedule, at_ms: int, attempt: str, *, removed: bool = False) -> RunRecord:
    """The record that adds or changes a schedule, or removes it."""
    fields: Mapping[str, Any] = {
        "every_s": schedule.every_s,
        "first_ms": schedule.first_ms,
        "arguments": list(schedule.arguments),
        "missed": str(schedule.missed),
        "removed": removed,
    }
    return RunRecord(
        run_id=schedule.name, attempt=attempt, job=schedule.job, at_ms=at_ms, kind=RecordKind.SCHEDULE, fields=fields
    )


def lease_record(runner: str, at_ms: int, lease_s: float = LEASE_S) -> RunRecord:
    """The record that claims the lease, or gives it up with a `lease_s` of 0."""
    fields = {"lease_s": lease_s}
    return RunRecord(run_id=LEASE, attempt=runner, job=LEASE, at_ms=at_ms, kind=RecordKind.LEASE, fields=fields)


def started_of(schedule: Schedule, runs: Iterable[Run]) -> list[int]:
    """Times of the runs of a schedule that were started and not lost."""
    prefix, found = f"{schedule.name}-", list[int]()
    for run in runs:
        due = run.run_id.removeprefix(prefix)
        if run.run_id.startswith(prefix) and due.isdecimal() and run.state is not RunState.LOST:
            found.append(int(due) * 1_000)
    return found


def _schedule(record: RunRecord) -> Schedule:
    return Schedule(
        name=record.run_id,
        job=AnalyticsJob(record.job),
        every_s=record.fields["every_s"],
        first_ms=record.fields["first_ms"],
        arguments=tuple(str(each) for each in record.fields["arguments"]),
        missed=Missed(record.fields["missed"]),
    )
