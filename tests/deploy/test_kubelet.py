"""The chart's brokers run as a kubelet runs them: commands, probes, hooks, and rolling updates under load."""

import asyncio
import logging
import sys
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import aclosing, asynccontextmanager
from itertools import pairwise
from pathlib import Path

import pytest

from danube.client import DanubeClientBuilder
from danube.testing.processes.object_server import ACCESS_KEY, BUCKET, SECRET_KEY, MotoServer, ObjectServer
from lab.failover.judge import Report, judge
from lab.failover.rounds import Application
from tests.deploy.charts import objects
from tests.deploy.kubelet import Kubelet

_log = logging.getLogger(__name__)
pytestmark = [pytest.mark.cluster, pytest.mark.nightly, pytest.mark.timeout(600)]

STALL_S = 1.0
"""Longest time between two acknowledgements of our client, however often brokers are exchanged."""
SECRETS = {
    "raft": {"raft": "a-secret-of-this-test-and-nothing-else"},
    "bucket": {"access_key": ACCESS_KEY, "secret_key": SECRET_KEY},
}
BUCKET_STALL_S = 30.0
"""The same over a bucket of moto's server, which answers one request after the other, and later with each object."""
TOPICS = 3


class Heartbeat:
    """The longest time for which this machine did not run a task that was due."""

    def __init__(self) -> None:
        self.late_s = 0.0

    async def run(self) -> None:
        while True:
            began_s = time.monotonic()
            await asyncio.sleep(0.02)
            self.late_s = max(self.late_s, time.monotonic() - began_s - 0.02)


@asynccontextmanager
async def running(kubelet: Kubelet) -> AsyncIterator[Kubelet]:
    try:
        await kubelet.start()
        yield kubelet
    finally:
        await kubelet.stop()


async def held(urls: str, topic: str) -> list[tuple[int, int]]:
    """Offsets and numbers of all that a topic holds."""
    async with await DanubeClientBuilder().service_url(urls).build() as client:
        bounds = await client.bounds(topic)
        async with aclosing(client.fetch(topic, start=0, end=bounds.end_offset)) as messages:
            return [(one.msg_id.topic_offset, int(one.payload)) async for one in messages]


def longest_stall_s(report: Report) -> float:
    times = sorted(report.acknowledged.values())
    return max(after - before for before, after in pairwise(times))


async def rolled(kubelet: Kubelet, folder: Path, stall_s: float = STALL_S) -> None:
    """A rolling update under load loses nothing, and no client waits for longer than `stall_s`."""
    heartbeat = Heartbeat()
    beating = asyncio.create_task(heartbeat.run())
    urls = ",".join(f"http://{pod.address}:6650" for pod in kubelet.pods)
    load = [Application(f"load{number}", 0, Path(sys.executable), [urls], folder) for number in range(TOPICS)]
    try:
        await asyncio.sleep(3)
        await kubelet.roll()
        await asyncio.sleep(2)
    finally:
        reports = [await asyncio.to_thread(one.end) for one in load]
        beating.cancel()
    broken = [
        str(each)
        for one, report in zip(load, reports, strict=True)
        for each in judge(str(one.topic), report, await held(urls, str(one.topic)))
    ]
    stalls = [longest_stall_s(report) for report in reports]
    counts = [len(each.acknowledged) for each in reports]
    told = f"{counts} acknowledged, stalls {stalls}, machine {heartbeat.late_s:.2f} s"
    _log.info(told)
    assert broken == []
    assert [each for report in reports for each in report.errors] == []
    assert (kubelet.events, [(pod.restarts, pod.kills) for pod in kubelet.pods]) == ([], [(0, 0)] * len(kubelet.pods))
    assert max(stalls) < stall_s + heartbeat.late_s, told


@pytest.mark.parametrize(("values", "network"), [("shared-fs", 71), ("carry", 72)])
async def test_a_rolling_update_under_load_loses_nothing_and_stalls_no_client(
    tmp_path: Path, values: str, network: int
) -> None:
    async with running(Kubelet(objects(values), tmp_path, secrets=SECRETS, network=network)) as kubelet:
        await rolled(kubelet, tmp_path)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ObjectServer]:
    with MotoServer(tmp_path / "s3") as server:
        yield server


async def test_brokers_without_a_vote_join_by_a_job_and_are_updated_over_a_bucket(
    tmp_path: Path, server: ObjectServer
) -> None:
    texts: Mapping[str, str] = {"s3://messages/": f"s3://{BUCKET}/"}
    variables = {"DANUBE_OBJECT_STORE_ENDPOINT": server.endpoint}
    made = Kubelet(objects("object-store"), tmp_path, secrets=SECRETS, network=73, texts=texts, variables=variables)
    async with running(made) as kubelet:
        assert [pod.name for pod in kubelet.pods] == [
            *(f"danube-{number}" for number in range(3)),
            *(f"danube-more-{number}" for number in range(2)),
        ]
        await rolled(kubelet, tmp_path, BUCKET_STALL_S)
