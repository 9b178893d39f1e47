"""The job from end to end: a real broker, its own telemetry, a real Spark, and what an administrator then sees."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from danube.client import DanubeClientBuilder
from danube.model.errors import DanubeError
from danube.model.records.analytics import ANALYTICS_TOPIC, RecordKind, RunRecord, RunState, decode_record, runs_of
from danube.model.records.telemetry import TELEMETRY_TOPIC
from danube.model.subscription import SubscriptionType
from danube.model.topic import DispatchStrategy
from danube.testing.patience import PATIENCE_S
from danube.testing.processes.broker import BrokerProcess

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[3]
TOPIC = "/default/orders"
UNREAD = 7


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    """With a topic of two partitions and a subscription that has left 7 messages unread."""
    settings = tmp_path / "settings.yml"
    settings.write_text("telemetry_interval_s: 0.1\n")
    with BrokerProcess(tmp_path / "data", flags=["--config-file", str(settings)]) as process:
        asyncio.run(fill(process.endpoints.service_url))
        yield process


async def fill(url: str) -> None:
    async with await DanubeClientBuilder().service_url(url).build() as client:
        producer = client.new_producer().with_topic(TOPIC).with_name("p").with_partitions(2)
        async with producer.with_dispatch_strategy(DispatchStrategy.RELIABLE).build() as sending:
            consumer = client.new_consumer().with_topic(TOPIC).with_subscription("billing").with_consumer_name("c")
            async with consumer.with_subscription_type(SubscriptionType.SHARED).build():
                await sending.send_many(b"x" for _ in range(UNREAD))
        await told(url, "billing")


async def told(url: str, subscription: str) -> None:
    """Until telemetry has told of all that lies unread."""
    async with asyncio.timeout(PATIENCE_S), await DanubeClientBuilder().service_url(url).build() as client:
        lags: dict[str, int] = {}
        async for message in client.fetch(str(TELEMETRY_TOPIC), follow=True):
            record = json.loads(message.payload)
            if record.get("subscription") == subscription and record["consumers"] == 0:
                lags[record["topic"]] = record["lag_messages"]
            if sum(lags.values()) == UNREAD:
                return


def command(broker: BrokerProcess, *flags: str) -> list[str]:
    url = broker.endpoints.service_url
    return [sys.executable, "-m", "spark_analytics", "lag", "--service-url", url, "--run-id", "nightly", *flags]


def run(broker: BrokerProcess, *flags: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(broker, *flags), cwd=ROOT, capture_output=True, text=True, check=False, timeout=400)


async def published(broker: BrokerProcess) -> list[RunRecord]:
    async with await DanubeClientBuilder().service_url(broker.endpoints.service_url).build() as client:
        records = [decode_record(message.payload) async for message in client.fetch(str(ANALYTICS_TOPIC))]
    return [record for record in records if record is not None]


def kinds(records: Sequence[RunRecord]) -> list[RecordKind]:
    return [record.kind for record in records]


def test_the_job_publishes_what_it_prints(broker: BrokerProcess) -> None:
    done = run(broker, "-o", "json", "--progress")
    assert done.returncode == 0, done.stderr
    printed = json.loads(done.stdout)
    (row,) = printed["groups"]
    assert (row["topic"], row["lag_messages"], row["partitions"], row["cause"]) == (TOPIC, UNREAD, 2, "nobody_reads")
    (found,) = runs_of(asyncio.run(published(broker)), printed["as_of_ms"])
    assert (found.state, found.tables["groups"]) == (RunState.FINISHED, printed["groups"])
    assert found.tables["partitions"] == printed["partitions"]
    assert "judged 2 partitions in 1 group" in done.stderr


@pytest.mark.nightly
def test_a_job_killed_half_way_and_made_again_leaves_one_whole_result(broker: BrokerProcess) -> None:
    with subprocess.Popen(
        command(broker), cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    ) as job:
        asyncio.run(started(broker))
        os.killpg(job.pid, signal.SIGKILL)
    (killed,) = asyncio.run(published(broker))
    (half,) = runs_of([killed], killed.at_ms)
    assert (half.state, half.tables) == (RunState.RUNNING, {})
    assert run(broker).returncode == 0
    records = asyncio.run(published(broker))
    (found,) = runs_of(records, records[-1].at_ms)
    assert (found.state, len(found.tables["partitions"])) == (RunState.FINISHED, 2)
    assert found.attempt != killed.attempt


def test_a_job_that_is_told_to_end_says_that_it_failed(broker: BrokerProcess) -> None:
    with subprocess.Popen(
        command(broker), cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as job:
        asyncio.run(started(broker))
        job.terminate()
        _, said = job.communicate(timeout=4 * PATIENCE_S)  # its JVM is started, and ends, first
    assert job.returncode == 1
    assert "danube-analytics: it was told to end before it was done" in said
    assert kinds(asyncio.run(published(broker))) == [RecordKind.STARTED, RecordKind.FAILED]


async def started(broker: BrokerProcess) -> None:
    """Until the job has told of its start; polls, since the topic comes to be with that."""
    async with asyncio.timeout(2 * PATIENCE_S):
        while True:
            try:
                if await published(broker):
                    return
            except DanubeError:
                pass
            await asyncio.sleep(0.05)
