"""The runner of schedules on metadata in memory: one of two works, and what was started is not started again."""

import subprocess
from dataclasses import dataclass, field

import pytest

from danube.model.errors import PreconditionFailedError
from danube.model.limits.faces import SCHEDULE_LEASE_S
from danube.model.records.analytics import AnalyticsJob, Run
from danube.model.records.schedules import BeginRun, RunnerClaim, RunnerLease, Schedule, ScheduleBook
from danube.testing.simulated.clock import SimClock
from spark_analytics.progress import Steps
from spark_analytics.results import Cluster
from spark_analytics.schedules.runner import ScheduleRunner


@dataclass
class MemorySchedules:
    """One schedule; the records of `danube/metadata/schedules/` are tested on their own."""

    clock: SimClock
    schedule: Schedule
    cluster: Cluster = field(default_factory=lambda: Cluster(service_url="http://127.0.0.1:1", token="secret"))
    holder: str = ""
    until_ms: int = 0
    is_faster: bool = False
    """Another runner begins a run just before."""

    def book(self) -> ScheduleBook:
        return ScheduleBook(schedules=(self.schedule,), runner=self.holder)

    def claim(self, claim: RunnerClaim) -> RunnerLease:
        now_ms = self.clock.now_ms()
        if self.holder in {"", claim.runner} or now_ms >= self.until_ms:
            self.holder, self.until_ms = claim.runner, now_ms + round(SCHEDULE_LEASE_S * 1_000)
        return RunnerLease(runner=self.holder)

    def begin(self, wanted: BeginRun) -> Schedule:
        if self.is_faster:
            self.schedule = self.schedule.begun(wanted.due_ms, self.clock.now_ms())
        if wanted.seen_begun_ms != self.schedule.begun_ms:
            raise PreconditionFailedError("another was faster")
        self.schedule = self.schedule.begun(wanted.due_ms, self.clock.now_ms())
        return self.schedule

    def runs(self, now_ms: int) -> list[Run]:
        del now_ms
        return []


class Child:
    def __init__(self, started: list[list[str]], command: list[str]) -> None:
        started.append(command)

    def poll(self) -> int | None:
        return None


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Commands of the jobs that were started."""
    found = list[list[str]]()
    monkeypatch.setattr(subprocess, "Popen", lambda command, **_more: Child(found, command))
    return found


def test_one_of_two_runners_works_and_the_other_takes_over_without_a_second_start(started: list[list[str]]) -> None:
    clock = SimClock()
    schedule = Schedule(name="lag", job=AnalyticsJob.LAG, every_s=3_600, first_ms=clock.now_ms())
    schedules = MemorySchedules(clock, schedule)
    steps = Steps(clock, shown=False)
    first, second = (ScheduleRunner(schedules, name, clock, steps, master="local[1]") for name in "ab")
    first.tick()
    second.tick()
    assert len(started) == 1
    assert f"--run-id={schedule.run_id(schedule.first_ms)}" in started[0]
    assert "secret" not in " ".join(started[0])
    clock.advance(SCHEDULE_LEASE_S + 1)  # the first runner is killed
    second.tick()
    assert len(started) == 1
    clock.advance(3_600)
    second.tick()
    assert len(started) == 2
    first.tick()
    assert len(started) == 2


def test_a_run_that_another_runner_has_begun_is_not_started(started: list[list[str]]) -> None:
    clock = SimClock()
    schedule = Schedule(name="lag", job=AnalyticsJob.LAG, every_s=3_600, first_ms=clock.now_ms())
    schedules = MemorySchedules(clock, schedule, is_faster=True)
    ScheduleRunner(schedules, "a", clock, Steps(clock, shown=False), master="local[1]").tick()
    assert started == []
