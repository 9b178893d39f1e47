"""The runner of schedules: one of those that run has the lease and starts jobs that are due, one after the other.

A job is a process of its own, which bounds itself and publishes that it started, under an id that schedule and due
time give. A runner that is killed leaves it running; the next one sees its records, and starts it again only when it
is lost.
"""

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass

from danube.model.errors import DanubeError
from danube.model.limits.faces import ANALYTICS_RUN_GRACE_S, ANALYTICS_RUN_S_MAX
from danube.model.records.schedules import LEASE_S, Schedule, lease_record, started_of
from danube.runtime.clock import Clock
from spark_analytics.progress import Steps
from spark_analytics.results import Cluster
from spark_analytics.schedules.log import ScheduleLog


@dataclass(frozen=True, slots=True)
class Due:
    """One run that is due."""

    schedule: Schedule
    due_ms: int


class ScheduleRunner:
    """Starts what is due, while it has the lease."""

    def __init__(self, log: ScheduleLog, runner: str, clock: Clock, steps: Steps, *, master: str) -> None:
        self._log, self._runner, self._clock, self._steps = log, runner, clock, steps
        self._master = master
        self._job: tuple[Due, subprocess.Popen[bytes], int] | None = None

    def tick(self) -> None:
        """Renew the lease, look after the job, and start the next. Raises DanubeError."""
        self._log.refresh()
        if not self._has_lease():
            return
        if self._job is not None and not self._is_over(self._job):
            return
        due = self.due()
        if due:
            self._start(due[0])

    def due(self) -> list[Due]:
        """Runs to start now, those that have waited longest first."""
        now_ms = self._clock.now_ms()
        runs = self._log.runs(now_ms)
        found = [
            Due(schedule, due_ms)
            for schedule in self._log.book.schedules.values()
            for due_ms in schedule.due(started_of(schedule, runs), now_ms)
        ]
        return sorted(found, key=lambda one: (one.due_ms, one.schedule.name))

    def release(self) -> None:
        """Give the lease up, so that another runner need not wait for its end."""
        if self._log.book.is_holder(self._runner, self._clock.now_ms()):
            self._log.write([lease_record(self._runner, self._clock.now_ms(), 0.0)], self._name)

    @property
    def _name(self) -> str:
        return f"danube-schedules-{self._runner}"

    def _has_lease(self) -> bool:
        """True if the lease is this runner's for a while yet; claims it where it is free, or half over."""
        now_ms, book = self._clock.now_ms(), self._log.book
        is_free = not book.holder or now_ms >= book.until_ms
        is_half_over = book.holder == self._runner and book.until_ms - now_ms < LEASE_S * 500
        if is_free or is_half_over:
            self._log.write([lease_record(self._runner, now_ms)], self._name)
        return self._log.book.is_holder(self._runner, self._clock.now_ms())

    def _start(self, due: Due) -> None:
        command = command_of(self._log.cluster, due, self._master)
        self._steps.done(f"{due.schedule.name}: starts the run that was due at {due.due_ms}")
        token = self._log.cluster.token
        environment = os.environ | ({"DANUBE_TOKEN": token} if token else {})
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
    runner.release()
