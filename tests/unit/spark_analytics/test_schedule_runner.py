"""The runner of schedules on metadata in memory: one of two works, and what was started is not started again."""

import signal
import subprocess
from dataclasses import dataclass, field
from typing import IO

import pytest

from danube.model.errors import PreconditionFailedError
from danube.model.exit_codes import ExitCode
from danube.model.limits.faces import SCHEDULE_LEASE_S
from danube.model.records.analytics import AnalyticsJob, Run
from danube.model.records.schedules import BeginRun, RunnerClaim, RunnerLease, Schedule, ScheduleBook
from danube.model.text import time_of
from danube.testing.simulated.clock import SimClock
from spark_analytics.progress import Steps
from spark_analytics.results import Cluster
from spark_analytics.schedules.runner import EndOfRunner, ScheduleRunner, run_until_told


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
    """A run that goes on until it has been looked at so often."""

    looks = 1_000_000

    def __init__(self, started: list[list[str]], command: list[str], log: IO[bytes], *, is_apart: bool) -> None:
        assert is_apart  # a Ctrl-C at the terminal goes to all of its session
        self._log = log
        started.append(command)

    def poll(self) -> int | None:
        self.looks -= 1
        if self.looks < 0:
            self._log.write(b"danube-analytics: Spark does not start\n\n")
            self._log.flush()
        return 1 if self.looks < 0 else None

    def kill(self) -> None:
        """It runs too long."""


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Commands of the jobs that were started."""
    found = list[list[str]]()

    def run(
        command: list[str], *, stderr: IO[bytes], start_new_session: bool, env: dict[str, str], **_more: object
    ) -> Child:
        assert env["DANUBE_TOKEN"] == "secret"  # and no command has it
        assert "secret" not in " ".join(command)
        return Child(found, command, stderr, is_apart=start_new_session)

    monkeypatch.setattr(subprocess, "Popen", run)
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
    first.release()
    second.release()


def test_a_run_that_another_runner_has_begun_is_not_started(started: list[list[str]]) -> None:
    clock = SimClock()
    schedule = Schedule(name="lag", job=AnalyticsJob.LAG, every_s=3_600, first_ms=clock.now_ms())
    schedules = MemorySchedules(clock, schedule, is_faster=True)
    ScheduleRunner(schedules, "a", clock, Steps(clock, shown=False), master="local[1]").tick()
    assert started == []


@pytest.mark.parametrize(
    ("looks", "signals", "code"),
    [
        (3, [signal.SIGINT], ExitCode.OK),
        (1_000, [signal.SIGINT, signal.SIGINT], ExitCode.INTERRUPTED),
        (1_000, [signal.SIGTERM], ExitCode.OK),
    ],
    ids=["Ctrl-C", "Ctrl-C twice", "SIGTERM"],
)
@pytest.mark.usefixtures("started")
def test_a_runner_that_is_told_to_end_says_so_and_ends_or_leaves_what_is_under_way(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    looks: int,
    signals: list[signal.Signals],
    code: ExitCode,
) -> None:
    monkeypatch.setattr(Child, "looks", looks)
    clock, end = SimClock(), EndOfRunner()
    schedule = Schedule(name="lag", job=AnalyticsJob.LAG, every_s=3_600, first_ms=clock.now_ms())
    schedules, steps = MemorySchedules(clock, schedule), Steps(clock, shown=True)
    for number in signals:
        end.handle(number, None)
    runner = ScheduleRunner(schedules, "a", clock, steps, master="local[1]")
    assert run_until_told(runner, end, steps, every_s=0) is code
    said, run = capsys.readouterr().err, schedule.run_id(schedule.first_ms)
    assert f"lag: starts run {run} (due at " in said
    is_over = signals == [signal.SIGINT]
    assert (f"run {run} failed with exit code 1: Spark does not start (0 s)" in said) is is_over
    assert (f"run {run} goes on by itself" in said) is not is_over
    assert said.endswith("has given the lease up and ends\n")


def test_a_runner_says_what_it_waits_for_once_and_again_after_a_run(
    started: list[list[str]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Child, "looks", 0)
    clock = SimClock()
    schedule = Schedule(name="lag", job=AnalyticsJob.LAG, every_s=3_600, first_ms=clock.now_ms() + 1)
    runner = ScheduleRunner(MemorySchedules(clock, schedule), "a", clock, Steps(clock, shown=True), master="local[1]")
    for _ in range(3):
        runner.tick()
    waiting = f"waits for lag, due at {time_of(schedule.first_ms)}; schedules: 1"
    assert capsys.readouterr().err.count(waiting) == 1
    clock.advance(1)
    runner.tick()
    runner.tick()
    later = f"waits for lag, due at {time_of(schedule.first_ms + 3_600_000)}"
    assert later in capsys.readouterr().err
    assert len(started) == 1
