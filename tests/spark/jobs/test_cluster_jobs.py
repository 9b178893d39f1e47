"""Every job of Spark on a cluster of three brokers, each of which publishes its own part of the telemetry."""

import asyncio
import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from itertools import cycle
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import spark_analytics
from danube.client import DanubeClient, DanubeClientBuilder
from danube.model.lag.group import LagFilter
from danube.model.ownership import StorageMode
from danube.model.records.analytics import AnalyticsJob, RunState
from danube.model.records.schedules import Missed, Schedule
from danube.model.records.telemetry import TELEMETRY_TOPIC
from danube.model.topic import DispatchStrategy
from danube.runtime.clock import SystemClock
from danube.testing.patience import PATIENCE_S
from danube.testing.processes.broker import BrokerProcess
from danube.testing.processes.broker_cluster import BrokerCluster
from danube.testing.processes.object_server import MotoServer
from spark_analytics.ingest.request import IngestRequest
from spark_analytics.ingest.run import run_ingest
from spark_analytics.ingest.tables import read_table
from spark_analytics.jobs.run import JobRequest, JobResult, run_job
from spark_analytics.progress import Steps
from spark_analytics.results import Cluster
from spark_analytics.schedules.cluster_schedules import ClusterSchedules

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(600)]

TOPIC = "/default/orders"
PARTITIONS, UNREAD = 3, 9
CLOCK = SystemClock()


def steps() -> Steps:
    return Steps(CLOCK, shown=False)


async def fill(brokers: Sequence[BrokerProcess]) -> None:
    """A topic with a partition on each broker, and a subscription that reads nothing; until telemetry tells of all."""
    async with await DanubeClientBuilder().service_url(brokers[0].endpoints.service_url).build() as client:
        producer = client.new_producer().with_topic(TOPIC).with_name("p").with_partitions(PARTITIONS)
        async with producer.with_dispatch_strategy(DispatchStrategy.RELIABLE).build() as sending:
            consumer = client.new_consumer().with_topic(TOPIC).with_subscription("billing").with_consumer_name("c")
            async with consumer.build():
                await sending.send_many(b"x" for _ in range(UNREAD))
        lags: dict[str, int] = {}
        async with asyncio.timeout(PATIENCE_S):
            while sum(lags.values()) < UNREAD:
                lags = await unread(client)


async def unread(client: DanubeClient) -> dict[str, int]:
    lags = {}
    for name in await client.partitions(str(TELEMETRY_TOPIC)):
        async for message in client.fetch(name):
            record = json.loads(message.payload)
            if record.get("subscription") == "billing" and record["consumers"] == 0:
                lags[record["topic"]] = record["lag_messages"]
    return lags


def job(broker: BrokerProcess, kind: AnalyticsJob, *, publish: bool = True) -> JobResult:
    request = JobRequest(
        cluster=Cluster(service_url=broker.endpoints.service_url),
        run_id=f"{kind}-{broker.endpoints.broker.rpartition(':')[2]}",
        attempt="a",
        job=kind,
        since_s=900.0,
        wanted=LagFilter(),
        publish=publish,
        time_limit_s=300.0,
    )
    return run_job(request, CLOCK, steps())


@pytest.fixture(
    scope="module",
    params=[
        StorageMode.SHARED_FS,
        pytest.param(StorageMode.LOCAL, marks=pytest.mark.nightly),
        pytest.param(StorageMode.OBJECT_STORE, marks=pytest.mark.nightly),
    ],
)
def brokers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[BrokerProcess]]:
    folder, settings = tmp_path_factory.mktemp("cluster"), {"telemetry_interval_s": "0.5"}
    if request.param is StorageMode.OBJECT_STORE:
        with (
            MotoServer(folder / "moto") as objects,
            BrokerCluster(folder, mode=request.param, objects=objects, settings=settings) as cluster,
        ):
            asyncio.run(fill(cluster.brokers))
            yield cluster.brokers
        return
    with BrokerCluster(folder, mode=request.param, settings=settings) as cluster:
        asyncio.run(fill(cluster.brokers))
        yield cluster.brokers


def test_a_job_the_topics_and_schedules_are_read_on_a_cluster_whichever_broker_is_named(
    spark: SparkSession, brokers: list[BrokerProcess]
) -> None:
    result = job(brokers[1], AnalyticsJob.LAG)
    (row,) = result.tables["groups"]
    assert (row["topic"], row["lag_messages"], row["partitions"]) == (TOPIC, UNREAD, PARTITIONS)
    assert "unread" not in result.window
    cluster = Cluster(service_url=brokers[2].endpoints.service_url)
    names = {each.topic for each in spark_analytics.topics(spark, cluster.service_url).collect()}
    assert names >= {f"{TOPIC}-part-{number}" for number in range(PARTITIONS)}
    schedules = ClusterSchedules(cluster)
    schedules.put(Schedule(name="hourly", job=AnalyticsJob.LAG, every_s=3_600, first_ms=0, missed=Missed.LAST))
    elsewhere = ClusterSchedules(Cluster(service_url=brokers[0].endpoints.service_url))
    assert [each.name for each in elsewhere.book().schedules] == ["hourly"]
    schedules.remove("hourly")
    assert [(run.job, run.state) for run in schedules.runs(CLOCK.now_ms())] == [(AnalyticsJob.LAG, RunState.FINISHED)]


@pytest.mark.nightly
def test_every_job_runs_on_a_cluster(spark: SparkSession, brokers: list[BrokerProcess]) -> None:
    del spark
    kinds = [kind for kind in AnalyticsJob if kind is not AnalyticsJob.LAG]
    results = {kind: job(broker, kind) for kind, broker in zip(kinds, cycle(brokers), strict=False)}
    assert len({row["broker_id"] for row in results[AnalyticsJob.BALANCE].tables["brokers"]}) == len(brokers)
    runs = ClusterSchedules(Cluster(service_url=brokers[0].endpoints.service_url)).runs(CLOCK.now_ms())
    assert {run.job: run.state for run in runs} == dict.fromkeys(AnalyticsJob, RunState.FINISHED)


@pytest.mark.nightly
def test_a_runner_starts_a_scheduled_job_on_a_cluster_and_ends_after_it(brokers: list[BrokerProcess]) -> None:
    url = brokers[1].endpoints.service_url
    nightly = Schedule(name="nightly", job=AnalyticsJob.LAG, every_s=86_400, first_ms=0, missed=Missed.LAST)
    ClusterSchedules(Cluster(service_url=url)).put(nightly)
    command = [sys.executable, "-m", "spark_analytics", "run-schedules", "--service-url", url]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        said = next(line for line in process.stderr if "nightly: starts run" in line)
        process.send_signal(signal.SIGINT)
        said += process.communicate(timeout=400)[1]
    assert process.returncode == 0, said
    assert re.search(r"run nightly-\d+ is done \(\d+ s\)", said), said


def test_a_job_goes_on_without_the_telemetry_of_a_dead_broker_and_names_it(
    spark: SparkSession, brokers: list[BrokerProcess]
) -> None:
    del spark
    brokers[1].kill()
    assert len(job(brokers[0], AnalyticsJob.LAG, publish=False).window["unread"]) == 1
    brokers[1].start()


@pytest.mark.nightly
def test_ingest_goes_on_without_a_dead_broker_and_reads_its_telemetry_on_when_it_runs_again(
    spark: SparkSession, brokers: list[BrokerProcess], tmp_path: Path
) -> None:
    request = IngestRequest(cluster=Cluster(service_url=brokers[0].endpoints.service_url), folder=tmp_path / "table")
    assert run_ingest(request, CLOCK, "local[2]", steps()) > 0
    brokers[1].kill()
    assert run_ingest(request, CLOCK, "local[2]", steps()) > 0
    brokers[1].start()
    assert run_ingest(request, CLOCK, "local[2]", steps()) > 0
    stored = read_table(spark, request.folder, 0, CLOCK.now_ms()).select("broker_id", "start_id", "sequence")
    assert stored.count() == stored.distinct().count()
