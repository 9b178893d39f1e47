"""Jobs as child processes: bounded in number and time, ended whole, and collected at once."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable

import pytest

from danube.admin.analytics import jobs as module
from danube.admin.analytics.jobs import Job, Jobs, command_of, require_spark
from danube.model.errors import LimitReachedError, UnsupportedError
from danube.model.limits.faces import ANALYTICS_ENDED_JOBS_MAX, ANALYTICS_RUN_GRACE_S
from danube.runtime.clock import SystemClock
from danube.testing.patience import PATIENCE_S
from danube.testing.simulated.clock import SimClock

pytestmark = pytest.mark.cluster

SLEEPS = [sys.executable, "-c", "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); signal.pause()"]
ENDS = [sys.executable, "-c", "import sys; sys.stderr.write('danube-analytics: it is late\\n'); sys.exit(5)"]


@pytest.fixture
async def jobs() -> AsyncIterator[Jobs]:
    jobs = Jobs(runs_max=2)
    yield jobs
    jobs.close()


async def until(holds: Callable[[], bool]) -> None:
    """Return when it holds; a process tells nobody that it has ended."""
    async with asyncio.timeout(PATIENCE_S):
        while not holds():  # noqa: ASYNC110 - as said
            await asyncio.sleep(0.01)


def is_there(job: Job) -> bool:
    """Whether the system still knows the process, as a zombie even."""
    try:
        os.kill(job.process.pid, 0)
    except ProcessLookupError:
        return False
    return True


async def test_a_job_that_ends_is_collected_without_anybody_asking(jobs: Jobs) -> None:
    job = await jobs.start("a", ENDS, SystemClock())
    await until(lambda: not is_there(job))
    assert (job.exit_code, await job.last_words()) == (5, "it is late")


async def test_a_job_that_passes_its_time_is_killed_with_all_that_it_started(jobs: Jobs) -> None:
    clock = SimClock()
    job = await jobs.start("a", SLEEPS, clock, time_limit_s=60)
    codes = [job.exit_code]
    clock.advance(60 + ANALYTICS_RUN_GRACE_S - 1)
    codes.append(job.exit_code)
    clock.advance(1)
    await until(lambda: job.exit_code is not None)
    assert [*codes, job.exit_code] == [None, None, -signal.SIGKILL]


async def test_more_jobs_than_the_bound_are_refused(jobs: Jobs) -> None:
    for name in "ab":
        await jobs.start(name, SLEEPS, SystemClock())
    with pytest.raises(LimitReachedError, match="2 runs are under way here \\(a, b\\)"):
        await jobs.start("c", SLEEPS, SystemClock())
    assert jobs.get("c") is None


async def test_only_the_last_words_of_some_ended_jobs_are_kept(jobs: Jobs) -> None:
    for number in range(ANALYTICS_ENDED_JOBS_MAX + 2):
        job = await jobs.start(str(number), ["/bin/true"], SystemClock())
        await until(lambda job=job: job.exit_code is not None)  # type: ignore[misc]
    assert [jobs.get(name) is None for name in ("0", "1")] == [True, False]


async def test_killing_a_job_that_has_ended_is_harmless(jobs: Jobs) -> None:
    job = await jobs.start("a", ["/bin/true"], SystemClock())
    await until(lambda: job.exit_code is not None)
    job.kill()
    assert (job.exit_code, await job.last_words()) == (0, "")


def test_a_job_is_started_by_this_interpreter_without_a_shell() -> None:
    program = [sys.executable, "-m", "spark_analytics"]
    assert command_of(["lag", "--topic=/default/a b"]) == [*program, "lag", "--topic=/default/a b"]


def test_without_pyspark_the_next_step_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "find_spec", lambda _name: None)
    with pytest.raises(UnsupportedError, match=r"pip install '\.\[spark\]'"):
        require_spark()
