"""Two runners of schedules as processes: one begins each run, and the other takes over when it is killed."""

import asyncio
import re
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from danube.client import DanubeClientBuilder
from danube.model.limits.faces import SCHEDULE_LEASE_S
from danube.model.records.analytics import AnalyticsJob
from danube.model.records.schedules import Schedule
from danube.testing.patience import PATIENCE_S
from danube.testing.processes.broker import BrokerProcess

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(400)]

REFUSED_AT_ONCE = ("--since", "0s")
"""The job ends before it starts a Spark: here only the beginning counts."""


class Runner:
    """`danube-analytics run-schedules`, and all that it said so far."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.said: list[str] = []

    async def says(self, words: str) -> str:
        """Wait until it says something with these words; answer the line."""
        assert self.process.stderr is not None
        async with asyncio.timeout(SCHEDULE_LEASE_S + PATIENCE_S):
            while line := (await self.process.stderr.readline()).decode():
                self.said.append(line)
                if words in line:
                    return line
        raise AssertionError(f"it ended without {words!r}: {self.said}")


@asynccontextmanager
async def runner(service_url: str) -> AsyncIterator[Runner]:
    command = ["-m", "spark_analytics", "run-schedules", "--service-url", service_url]
    process = await asyncio.create_subprocess_exec(sys.executable, *command, stderr=asyncio.subprocess.PIPE)
    try:
        yield Runner(process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


@pytest.fixture
def service_url(tmp_path: Path) -> Iterator[str]:
    with BrokerProcess(tmp_path / "data") as broker:
        yield broker.endpoints.service_url


async def ended(runner: Runner, number: signal.Signals) -> str:
    """What it says at its end."""
    runner.process.send_signal(number)
    async with asyncio.timeout(PATIENCE_S):
        return (await runner.process.communicate())[1].decode()


def assert_ended_calmly(runner: Runner, said: str) -> None:
    assert runner.process.returncode == 0, said
    assert "ends when run nightly-" in said
    assert re.search(r"run nightly-\d+ failed with exit code \d+: --since is from 1s to 366d", said)
    assert "has given the lease up and ends" in said
    assert "Traceback" not in said


async def test_of_two_runners_one_begins_each_run_and_the_other_takes_over_after_a_kill(service_url: str) -> None:
    async with await DanubeClientBuilder().service_url(service_url).build() as client, runner(service_url) as first:
        schedules = client.schedules()
        nightly = Schedule(name="nightly", job=AnalyticsJob.LAG, every_s=86_400, first_ms=0, arguments=REFUSED_AT_ONCE)
        await schedules.put(nightly)
        assert f"starts jobs of {service_url}" in await first.says("Ctrl-C ends it")
        begun = (await first.says("starts run nightly-")).partition("starts run ")[2].split()[0]
        holder = (await schedules.book()).runner
        async with runner(service_url) as second:
            first.process.kill()
            await second.says("this runner has the lease")
            assert (await schedules.book()).runner not in {"", holder}
            asked = await schedules.request("nightly")
            assert asked.run_id(asked.requested_ms) in await second.says("starts run nightly-")
            assert not any(begun in line for line in second.said)
            assert_ended_calmly(second, await ended(second, signal.SIGINT))
        book = await schedules.book()
        assert (book.runner, [each.begun_due_ms for each in book.schedules]) == ("", [asked.requested_ms])
