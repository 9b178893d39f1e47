"""Jobs as child processes: started, watched, ended in their time and never left behind as zombies.

A job bounds itself (`danube-analytics --time-limit-s`) and goes on when this process ends. While this process lives it
takes note of each job's end at once, and kills one that passes its bound all the same.
"""

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import IO

from danube.model.errors import LimitReachedError, UnsupportedError
from danube.model.limits.faces import (
    ANALYTICS_ENDED_JOBS_MAX,
    ANALYTICS_LOG_BYTES,
    ANALYTICS_RUN_GRACE_S,
    ANALYTICS_RUN_S_MAX,
    ANALYTICS_RUNS_MAX,
)
from danube.model.text import install_text
from danube.runtime.blocking import run_apart
from danube.runtime.clock import Clock, TimerHandle
from danube.runtime.process import last_line_of


def require_spark() -> None:
    """Raise UnsupportedError, with what to do, where PySpark is not installed."""
    if find_spec("pyspark") is None or find_spec("spark_analytics") is None:
        raise UnsupportedError(
            f"Spark is not installed where this runs: {install_text('spark')}; or start danube-analytics"
            " elsewhere; without it analyze_consumer_lag answers live"
        )


def command_of(arguments: Sequence[str]) -> list[str]:
    """The command that starts `danube-analytics`: by this interpreter, so that it is this version."""
    return [sys.executable, "-m", "spark_analytics", *arguments]


@dataclass(slots=True)
class Job:
    """One child process."""

    run_id: str
    process: subprocess.Popen[bytes]
    log: IO[bytes] = field(repr=False)
    timer: TimerHandle | None = None

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""
        return self.process.poll()

    async def last_words(self) -> str:
        """The last line that it said; empty when it said nothing."""
        return await run_apart("analytics job", self._read_last_words)

    def _read_last_words(self) -> str:
        return last_line_of(self.log, ANALYTICS_LOG_BYTES).removeprefix("danube-analytics: ")

    def kill(self) -> None:
        """End it and what it started, at once. Harmless when it has ended."""
        if self.process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)


class Jobs:
    """The jobs of this process: a bounded number under way, and the ones that ended last."""

    def __init__(self, runs_max: int = ANALYTICS_RUNS_MAX) -> None:
        self._runs_max = runs_max
        self._jobs: dict[str, Job] = {}

    async def start(
        self, run_id: str, command: Sequence[str], clock: Clock, *, time_limit_s: float = ANALYTICS_RUN_S_MAX
    ) -> Job:
        """Start a job. Raises LimitReachedError when as many as may be are under way."""
        self._drop_old()
        running = [job.run_id for job in self._jobs.values() if job.exit_code is None]
        if len(running) >= self._runs_max:
            raise LimitReachedError(
                f"{len(running)} runs are under way here ({', '.join(running)}), which is the limit: wait for one with"
                " get_analytics_result"
            )
        job = await run_apart("analytics job", lambda: _launch(run_id, command))
        self._jobs[run_id] = job
        job.timer = clock.call_at(clock.monotonic_s() + time_limit_s + ANALYTICS_RUN_GRACE_S, job.kill)
        _watch_for_end(job)
        return job

    def get(self, run_id: str) -> Job | None:
        """A job that this process started, if it is remembered."""
        return self._jobs.get(run_id)

    def close(self) -> None:
        """Kill what runs and forget everything: for tests, and for a process that ends its jobs with itself."""
        for job in self._jobs.values():
            job.kill()
            job.process.wait()
            _discard(job)
        self._jobs.clear()

    def _drop_old(self) -> None:
        ended = [job for job in self._jobs.values() if job.exit_code is not None]
        for job in ended[: max(0, len(ended) - ANALYTICS_ENDED_JOBS_MAX)]:
            _discard(job)
            del self._jobs[job.run_id]


JOBS = Jobs()
"""Those of this process."""


def _launch(run_id: str, command: Sequence[str]) -> Job:
    log = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the job is remembered
    process = subprocess.Popen(  # noqa: S603 - our own program, its arguments checked, and no shell
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log, start_new_session=True
    )
    return Job(run_id, process, log)


def _watch_for_end(job: Job) -> None:
    """Have the event loop collect the exit code as soon as there is one; elsewhere the next look does."""
    try:
        handle = os.pidfd_open(job.process.pid)
    except (AttributeError, OSError):  # not Linux, or it has ended already
        return
    loop = asyncio.get_running_loop()

    def ended() -> None:
        loop.remove_reader(handle)
        os.close(handle)
        job.process.poll()
        if job.timer is not None:
            job.timer.cancel()

    loop.add_reader(handle, ended)


def _discard(job: Job) -> None:
    if job.timer is not None:
        job.timer.cancel()
    job.log.close()
