"""The runner of schedules: one of those that run has the lease and starts jobs that are due, one after the other.

A job is a process of its own, which bounds itself and publishes that it started, under an id that schedule and due
time give. Before it is started, the cluster records that the run was begun, and refuses that to a runner that has lost
the lease or knew less than another. A runner that is killed leaves its job running; the next one starts it again only
when it is lost.
"""

import os
import signal
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass
from types import FrameType
from typing import IO, Protocol

from danube.model.errors import DanubeError, PreconditionFailedError
from danube.model.exit_codes import ExitCode
from danube.model.limits.faces import ANALYTICS_LOG_BYTES, ANALYTICS_RUN_GRACE_S, ANALYTICS_RUN_S_MAX
from danube.model.records.analytics import Run
from danube.model.records.schedules import BeginRun, RunnerClaim, RunnerLease, Schedule, ScheduleBook
from danube.model.text import span_text, time_of
from danube.runtime.clock import Clock
from danube.runtime.process import ENDING, last_line_of
from spark_analytics.progress import PROGRAM, Steps
from spark_analytics.results import Cluster


@dataclass(frozen=True, slots=True)
class Due:
    """One run that is due."""

    schedule: Schedule
    due_ms: int


class Schedules(Protocol):
    """Schedules of a cluster, as the runner uses them. Every method raises DanubeError."""

    @property
    def cluster(self) -> Cluster: ...

    def book(self) -> ScheduleBook: ...

    def claim(self, claim: RunnerClaim) -> RunnerLease: ...

    def begin(self, wanted: BeginRun) -> Schedule: ...

    def runs(self, now_ms: int) -> list[Run]: ...


@dataclass(frozen=True, slots=True)
class _Job:
    """A run under way: a process in a session of its own, which a Ctrl-C at the terminal does not reach."""

    due: Due
    process: subprocess.Popen[bytes]
    log: IO[bytes]
    since_ms: int

    @property
    def run_id(self) -> str:
        return self.due.schedule.run_id(self.due.due_ms)

    def last_words(self) -> str:
        """The last line that it said."""
        return last_line_of(self.log, ANALYTICS_LOG_BYTES).removeprefix(f"{PROGRAM}: ")


class ScheduleRunner:
    """Starts what is due, while it has the lease."""

    def __init__(self, schedules: Schedules, runner: str, clock: Clock, steps: Steps, *, master: str) -> None:
        self._schedules, self._runner, self._clock, self._steps = schedules, runner, clock, steps
        self._master = master
        self._job: _Job | None = None
        self._lease = RunnerLease(runner="?")
        self._told = ""

    @property
    def under_way(self) -> str | None:
        """The run that this runner has started and that has not ended."""
        return self._job.run_id if self._job is not None else None

    def tick(self, *, starts: bool = True) -> None:
        """Renew the lease, look after the job, and start the next. Raises DanubeError."""
        self._look_after_job()
        lease = self._schedules.claim(RunnerClaim(runner=self._runner))
        if lease.runner != self._lease.runner:
            other = f"waits for the lease, which runner {lease.runner or 'nobody'} has"
            self._steps.tell("this runner has the lease" if lease.runner == self._runner else other)
        self._lease = lease
        if lease.runner != self._runner or self._job is not None or not starts:
            return
        book = self._schedules.book()
        if due := self._due(book):
            self._start(due[0])
        else:
            self._tell_of_next(book)

    def release(self) -> None:
        """Give the lease up, so that another runner need not wait for its end; a run under way is left to itself."""
        if self._job is not None:
            self._job.log.close()
        self._schedules.claim(RunnerClaim(runner=self._runner, release=True))

    def _due(self, book: ScheduleBook) -> list[Due]:
        """Runs to start now, those that have waited longest first."""
        if not book.schedules:
            return []
        now_ms = self._clock.now_ms()
        runs = self._schedules.runs(now_ms)
        found = [Due(schedule, due_ms) for schedule in book.schedules for due_ms in schedule.due(runs, now_ms)]
        return sorted(found, key=lambda one: (one.due_ms, one.schedule.name))

    def _tell_of_next(self, book: ScheduleBook) -> None:
        now_ms = self._clock.now_ms()
        at_ms, name = min(((each.next_ms(now_ms), each.name) for each in book.schedules), default=(0, ""))
        told = "there are no schedules: add one with danube-analytics schedule add"
        if name:
            told = f"waits for {name}, due at {time_of(at_ms)}; schedules: {len(book.schedules)}"
        if told != self._told:
            self._steps.tell(told)
        self._told = told

    def _start(self, due: Due) -> None:
        begun_ms = due.schedule.begun_ms
        wanted = BeginRun(runner=self._runner, name=due.schedule.name, due_ms=due.due_ms, seen_begun_ms=begun_ms)
        try:
            self._schedules.begin(wanted)
        except PreconditionFailedError as error:
            self._steps.tell(f"{due.schedule.name}: {error}")
            return
        cluster = self._schedules.cluster
        command = command_of(cluster, due, self._master)
        run_id = due.schedule.run_id(due.due_ms)
        self._steps.tell(f"{due.schedule.name}: starts run {run_id} (due at {time_of(due.due_ms)})")
        environment = os.environ | ({"DANUBE_TOKEN": cluster.token} if cluster.token else {})
        nowhere, log = subprocess.DEVNULL, tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the job
        process = subprocess.Popen(  # noqa: S603 - our program
            command, stdin=nowhere, stdout=nowhere, stderr=log, env=environment, start_new_session=True
        )
        self._job = _Job(due, process, log, self._clock.now_ms())

    def _look_after_job(self) -> None:
        job = self._job
        if job is None:
            return
        code, took_ms = job.process.poll(), self._clock.now_ms() - job.since_ms
        if code is None and took_ms > round((ANALYTICS_RUN_S_MAX + ANALYTICS_RUN_GRACE_S) * 1_000):
            job.process.kill()
        if code is None:
            return
        how = "is done" if code == 0 else f"failed with exit code {code}: {job.last_words()}"
        self._steps.tell(f"{job.due.schedule.name}: run {job.run_id} {how} ({span_text(took_ms / 1_000)})")
        job.log.close()
        self._job, self._told = None, ""


def command_of(cluster: Cluster, due: Due, master: str) -> list[str]:
    """The command of a run; the token goes by the environment, where other programs do not see it."""
    given = {
        "service-url": cluster.service_url,
        "ca-cert": cluster.ca_cert,
        "master": master,
        "run-id": due.schedule.run_id(due.due_ms),
        "as-of": due.due_ms,
    }
    flags = [f"--{name}={value}" for name, value in given.items() if value is not None]
    return [sys.executable, "-m", "spark_analytics", due.schedule.job, *due.schedule.arguments, *flags, "--quiet"]


class EndOfRunner:
    """The signals that end a runner: after the first Ctrl-C a run under way is waited for, after others not."""

    def __init__(self) -> None:
        self.is_told = threading.Event()
        self.is_urgent = threading.Event()
        self.is_pressed = False
        """Whether Ctrl-C came twice."""

    def follow_signals(self) -> None:
        """Take them from now on."""
        for number in ENDING:
            signal.signal(number, self.handle)

    def handle(self, number: int, _frame: FrameType | None) -> None:
        """The process got a signal."""
        self.is_pressed = number == signal.SIGINT and self.is_told.is_set()
        if number != signal.SIGINT or self.is_pressed:
            self.is_urgent.set()
        self.is_told.set()


def run_until_told(runner: ScheduleRunner, end: EndOfRunner, steps: Steps, every_s: float = 5.0) -> ExitCode:
    """Tick until the end is told; a cluster that is away for a while is waited for.

    A run under way that is not waited for goes on by itself, and no runner starts it again.
    """
    while True:
        _tick(runner, steps, starts=True)
        if end.is_told.wait(every_s):
            break
    if runner.under_way and not end.is_urgent.is_set():
        steps.tell(f"ends when run {runner.under_way} has ended; Ctrl-C again leaves it to itself")
    while runner.under_way and not end.is_urgent.wait(min(every_s, 1.0)):
        _tick(runner, steps, starts=False)
    if runner.under_way:
        steps.tell(f"run {runner.under_way} goes on by itself and publishes its result")
    try:
        runner.release()
        steps.tell("has given the lease up and ends")
    except DanubeError as error:
        steps.tell(f"the lease was not given up, and runs out by itself: {error}")
    return ExitCode.INTERRUPTED if end.is_pressed else ExitCode.OK


def _tick(runner: ScheduleRunner, steps: Steps, *, starts: bool) -> None:
    try:
        runner.tick(starts=starts)
    except DanubeError as error:
        steps.tell(f"the cluster did not answer: {error}")
