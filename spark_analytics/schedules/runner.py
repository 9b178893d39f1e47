"""The runner of schedules: one of those that run has the lease and starts jobs that are due, one after the other.

A job is a process of its own, which bounds itself and publishes that it started, under an id that schedule and due
time give. Before it is started, the cluster records that the run was begun, and refuses that to a runner that has lost
the lease or knew less than another. A runner that is killed leaves its job running; the next one starts it again only
when it is lost.
"""

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from danube.model.errors import DanubeError, PreconditionFailedError
from danube.model.limits.faces import ANALYTICS_RUN_GRACE_S, ANALYTICS_RUN_S_MAX
from danube.model.records.analytics import Run
from danube.model.records.schedules import BeginRun, RunnerClaim, RunnerLease, Schedule, ScheduleBook
from danube.runtime.clock import Clock
from spark_analytics.progress import Steps
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


class ScheduleRunner:
    """Starts what is due, while it has the lease."""

    def __init__(self, schedules: Schedules, runner: str, clock: Clock, steps: Steps, *, master: str) -> None:
        self._schedules, self._runner, self._clock, self._steps = schedules, runner, clock, steps
        self._master = master
        self._job: tuple[Due, subprocess.Popen[bytes], int] | None = None
        self._has_lease = False

    def tick(self) -> None:
        """Renew the lease, look after the job, and start the next. Raises DanubeError."""
        lease = self._schedules.claim(RunnerClaim(runner=self._runner))
        self._tell_of_lease(lease)
        if not self._has_lease or (self._job is not None and not self._is_over(self._job)):
            return
        due = self.due()
        if due:
            self._start(due[0])

    def due(self) -> list[Due]:
        """Runs to start now, those that have waited longest first."""
        book = self._schedules.book()
        if not book.schedules:
            return []
        now_ms = self._clock.now_ms()
        runs = self._schedules.runs(now_ms)
        found = [Due(schedule, due_ms) for schedule in book.schedules for due_ms in schedule.due(runs, now_ms)]
        return sorted(found, key=lambda one: (one.due_ms, one.schedule.name))

    def release(self) -> None:
        """Give the lease up, so that another runner need not wait for its end."""
        self._schedules.claim(RunnerClaim(runner=self._runner, release=True))

    def _tell_of_lease(self, lease: RunnerLease) -> None:
        has_lease = lease.runner == self._runner
        if has_lease != self._has_lease:
            self._steps.done("has the lease" if has_lease else f"runner {lease.runner or 'nobody'} has the lease")
        self._has_lease = has_lease

    def _start(self, due: Due) -> None:
        begun_ms = due.schedule.begun_ms
        wanted = BeginRun(runner=self._runner, name=due.schedule.name, due_ms=due.due_ms, seen_begun_ms=begun_ms)
        try:
            self._schedules.begin(wanted)
        except PreconditionFailedError as error:
            self._steps.done(f"{due.schedule.name}: {error}")
            return
        cluster = self._schedules.cluster
        command = command_of(cluster, due, self._master)
        self._steps.done(f"{due.schedule.name}: starts run {due.schedule.run_id(due.due_ms)}")
        environment = os.environ | ({"DANUBE_TOKEN": cluster.token} if cluster.token else {})
        nowhere = subprocess.DEVNULL
        process = subprocess.Popen(command, stdin=nowhere, stdout=nowhere, env=environment)  # noqa: S603 - our program
        self._job = due, process, self._clock.now_ms()

    def _is_over(self, job: tuple[Due, subprocess.Popen[bytes], int]) -> bool:
        due, process, since_ms = job
        code = process.poll()
        late_ms = round((ANALYTICS_RUN_S_MAX + ANALYTICS_RUN_GRACE_S) * 1_000)
        if code is None and self._clock.now_ms() - since_ms > late_ms:
            process.kill()
        if code is None:
            return False
        self._steps.done(f"{due.schedule.name}: the run ended with code {code}")
        self._job = None
        return True


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


def run_until_told(runner: ScheduleRunner, wait: Callable[[float], bool], steps: Steps, every_s: float = 5.0) -> None:
    """Tick until `wait` says that the process is told to end; a cluster that is away for a while is waited for."""
    while True:
        try:
            runner.tick()
        except DanubeError as error:
            steps.done(f"the cluster did not answer: {error}")
        if wait(every_s):
            break
    try:
        runner.release()
    except DanubeError as error:
        steps.done(f"the lease was not given up, and runs out by itself: {error}")
