"""A standalone cluster of Spark: a master and two workers as processes, and a job whose executors run on both."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pyspark
import pytest

from danube.client import DanubeClientBuilder
from danube.model.records.analytics import ANALYTICS_TOPIC, RunRecord, RunState, decode_record, runs_of
from danube.runtime.clock import SystemClock
from danube.testing.patience import PATIENCE_S
from danube.testing.processes.broker import BrokerProcess
from danube.testing.processes.free_ports import free_port
from spark_analytics.java import find_java

pytestmark = [pytest.mark.cluster, pytest.mark.nightly, pytest.mark.timeout(900)]

HOME = Path(str(pyspark.__file__)).parent
DEPLOY = "org.apache.spark.deploy"


@asynccontextmanager
async def daemon(kind: str, until: str, *words: str) -> AsyncIterator[None]:
    """A master or a worker, once it says that it is there."""
    variables = {"JAVA_HOME": str(find_java().home), "SPARK_HOME": str(HOME), "SPARK_LOCAL_IP": "127.0.0.1"}
    command = [
        str(HOME / "bin" / "spark-class"),
        f"{DEPLOY}.{kind}",
        "--host",
        "127.0.0.1",
        "--webui-port",
        "0",
        *words,
    ]
    environment = os.environ | variables | {"SPARK_DAEMON_MEMORY": "256m"}
    process = await asyncio.create_subprocess_exec(*command, env=environment, stderr=asyncio.subprocess.PIPE)
    assert process.stderr is not None
    try:
        async with asyncio.timeout(2 * PATIENCE_S):
            while until not in (line := (await process.stderr.readline()).decode()):
                assert line, f"{kind} ended"
        drained = asyncio.create_task(_drained(process.stderr))
        yield
        drained.cancel()
    finally:
        process.kill()
        await process.wait()


async def _drained(stream: asyncio.StreamReader) -> None:
    while await stream.readline():
        pass


@pytest.fixture
def service_url(tmp_path: Path) -> Iterator[str]:
    with BrokerProcess(tmp_path / "data", settings={"telemetry_interval_s": "0.5"}) as broker:
        yield broker.endpoints.service_url


async def test_a_job_runs_on_both_workers_of_a_standalone_cluster(service_url: str, tmp_path: Path) -> None:
    master = f"spark://127.0.0.1:{free_port()}"
    folders = [tmp_path / f"worker-{number}" for number in range(2)]
    worker, registered = "worker.Worker", "Successfully registered with master"
    common = ["--cores", "1", "--memory", "1g"]
    async with (
        daemon("master.Master", "Starting Spark master at", "--port", master.rpartition(":")[2]),
        daemon(worker, registered, *common, "--work-dir", str(folders[0]), master),
        daemon(worker, registered, *common, "--work-dir", str(folders[1]), master),
    ):
        words = ["lag", "--master", master, "--service-url", service_url, "--run-id", "spread", "--since", "5m"]
        environment = os.environ | {"SPARK_LOCAL_IP": "127.0.0.1"}
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "spark_analytics", *words, env=environment, stderr=asyncio.subprocess.PIPE
        )
        async with asyncio.timeout(5 * PATIENCE_S):
            _, said = await process.communicate()
    assert process.returncode == 0, said.decode()[-3_000:]
    assert [len(list(folder.glob("app-*/*"))) for folder in folders] == [1, 1]  # an executor on each
    (run,) = runs_of(await published(service_url), SystemClock().now_ms())
    assert (run.run_id, run.state) == ("spread", RunState.FINISHED)


async def test_a_master_that_does_not_answer_is_one_sentence_and_a_failed_run(service_url: str) -> None:
    master = f"spark://127.0.0.1:{free_port()}"
    words = ["lag", "--master", master, "--service-url", service_url, "--run-id", "alone", "--since", "5m"]
    environment = os.environ | {"SPARK_LOCAL_IP": "127.0.0.1"}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "spark_analytics", *words, env=environment, stderr=asyncio.subprocess.PIPE
    )
    async with asyncio.timeout(5 * PATIENCE_S):  # Spark itself tries for a minute
        _, said = await process.communicate()
    assert process.returncode == 5
    assert f"danube-analytics: Spark does not start on {master}: check that this master runs" in said.decode()
    assert "Traceback" not in said.decode()
    (run,) = runs_of(await published(service_url), SystemClock().now_ms())
    assert (run.run_id, run.state) == ("alone", RunState.FAILED)


async def published(service_url: str) -> list[RunRecord]:
    async with await DanubeClientBuilder().service_url(service_url).build() as client:
        end = (await client.bounds(str(ANALYTICS_TOPIC))).end_offset
        records = [decode_record(message.payload) async for message in client.fetch(str(ANALYTICS_TOPIC), end=end)]
    return [record for record in records if record]
