"""Schedules of analytics jobs, kept in the metadata of the cluster: when runs are due, and which were begun. Pure.

Of several runners one has the lease, and a run is begun by one transaction that compares both the lease and what was
begun before: so no run is begun twice, whatever the clocks of the runners say.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

from danube.model.errors import InvalidRequestError
from danube.model.limits.faces import (
    ANALYTICS_RUN_GRACE_S,
    ANALYTICS_RUN_S_MAX,
    LAG_NUMBER_END,
    SCHEDULE_ARGUMENTS_MAX,
    SCHEDULE_EVERY_S_MAX,
    SCHEDULE_EVERY_S_MIN,
    SCHEDULE_MADE_UP_MAX,
)
from danube.model.records.analytics import AnalyticsJob, Run, RunState, check_run_id

_SKIP_AFTER_S = 300.0
"""A run that is skipped when missed counts as missed this long after it was due, or after half its interval."""
_LOST_AFTER_MS = round(1_000 * (ANALYTICS_RUN_S_MAX + ANALYTICS_RUN_GRACE_S))
"""A run that was begun and never told of its start is lost then."""


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
    set_by: str = ""
    set_ms: int = 0
    requested_ms: int = 0
    """When a run out of turn was asked for; 0 for never."""
    begun_due_ms: int = 0
    """Due time of the newest run that was begun; 0 for none."""
    begun_ms: int = 0
    """When that was, by a broker's clock; it grows with each run."""

    def check(self) -> "Schedule":
        """The schedule, if it can be kept. Raises InvalidRequestError."""
        check_run_id(self.name)
        if len(self.name) > 40:
            raise InvalidRequestError("a schedule's name has at most 40 characters: its runs are named after it")
        if not SCHEDULE_EVERY_S_MIN <= self.every_s <= SCHEDULE_EVERY_S_MAX:
            raise InvalidRequestError(f"every is from {SCHEDULE_EVERY_S_MIN} s to {SCHEDULE_EVERY_S_MAX // 86_400} d")
        if not self.first_ms < LAG_NUMBER_END:
            raise InvalidRequestError("the first run is too far away: give milliseconds since 1970")
        if sum(len(each) + 1 for each in self.arguments) > SCHEDULE_ARGUMENTS_MAX:
            raise InvalidRequestError(f"the flags have more than {SCHEDULE_ARGUMENTS_MAX} characters")
        if any("\0" in each for each in self.arguments):
            raise InvalidRequestError("a flag has a NUL in it, which no command line can hold")
        taken = [flag for flag in self.arguments if flag.split("=")[0] in _RUNNERS]
        if taken:
            raise InvalidRequestError(f"{taken[0]} is set by the runner: leave it out")
        return self

    def run_id(self, due_ms: int) -> str:
        """The id of the run that is due then: the same for every runner."""
        return f"{self.name}-{due_ms // 1_000}"

    def due(self, runs: Iterable[Run], now_ms: int) -> list[int]:
        """Times of runs to start now, the oldest first, after what was begun and what runs told of themselves."""
        found = self._due_by_time(self._done(list(runs), now_ms), now_ms)
        asked = self.requested_ms if self.requested_ms > self.begun_due_ms else 0
        return sorted({*found, asked}) if asked else found

    def next_ms(self, now_ms: int) -> int:
        """Time of the first run that is due after now."""
        step_ms = self.every_s * 1_000
        return max(self.first_ms, now_ms - (now_ms - self.first_ms) % step_ms + step_ms)

    def begun(self, due_ms: int, now_ms: int) -> "Schedule":
        """The schedule after a run was begun."""
        return replace(self, begun_due_ms=max(due_ms, self.begun_due_ms), begun_ms=max(now_ms, self.begun_ms + 1))

    def _done(self, runs: list[Run], now_ms: int) -> list[int]:
        """Times of the runs that were begun and not lost."""
        states = {run.run_id: run.state for run in runs}
        prefix, found = f"{self.name}-", list[int]()
        for run_id, state in states.items():
            due = run_id.removeprefix(prefix)
            if run_id.startswith(prefix) and due.isdecimal() and state is not RunState.LOST:
                found.append(int(due) * 1_000)
        told = states.get(self.run_id(self.begun_due_ms))
        is_lost = told is RunState.LOST or (told is None and now_ms - self.begun_ms > _LOST_AFTER_MS)
        if self.begun_due_ms and not is_lost:
            found.append(self.begun_due_ms)
        return found

    def _due_by_time(self, done: list[int], now_ms: int) -> list[int]:
        if now_ms < self.first_ms:
            return []
        step_ms = self.every_s * 1_000
        newest = self.first_ms + (now_ms - self.first_ms) // step_ms * step_ms
        last = max(done, default=None)
        if last is not None and last >= newest // 1_000 * 1_000:
            return []
        match self.missed:
            case Missed.SKIP:
                return [newest] if now_ms - newest <= 1_000 * min(_SKIP_AFTER_S, self.every_s / 2) else []
            case Missed.LAST:
                return [newest]
            case Missed.ALL:
                first = newest if last is None else newest - (newest - last - 1) // step_ms * step_ms
                return list(range(first, newest + 1, step_ms))[-SCHEDULE_MADE_UP_MAX:]


_RUNNERS = frozenset(
    {
        *("--run-id", "--as-of", "--service-url", "--no-publish", "--token", "--token-file", "--ca-cert", "--master"),
        *("--report", "--help"),
    }
)
"""Flags of the runner itself, and those that write files where it runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleBook:
    """All schedules, and who runs them."""

    schedules: tuple[Schedule, ...] = ()
    runner: str = ""
    """The runner that has the lease; empty for none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerClaim:
    """A runner claims the lease, renews it, or gives it up."""

    runner: str
    release: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerLease:
    """The lease as it stands."""

    runner: str = ""
    """The runner that has it; empty for none."""
    lease_s: float = 0.0
    """It must be renewed within so many seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginRun:
    """A runner begins a run."""

    runner: str
    name: str
    due_ms: int
    seen_begun_ms: int
    """`begun_ms` of the schedule as the runner read it."""
