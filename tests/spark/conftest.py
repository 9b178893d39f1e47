"""One Spark session and one broker process for all tests here; each test has a topic of its own."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from danube.client import DanubeClient, DanubeClientBuilder, DispatchStrategy
from danube.model.topic import TopicName
from danube.rpc.grpc.carrier import GrpcCarrier
from danube.runtime.clock import SystemClock
from danube.testing.peers.admin import AdminPeer
from danube.testing.processes.broker import BrokerProcess
from spark_analytics.session import spark_session

_PATIENCE_S = 600
"""Of the first test, which starts the session; modules that may take long go first."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Those with the session on one worker, and those that start a Spark of their own after each other on another."""
    here = Path(__file__).parent
    for item in items:
        if isinstance(item, pytest.Function) and here in item.path.parents:
            item.add_marker(pytest.mark.timeout(_PATIENCE_S))
            item.add_marker(pytest.mark.xdist_group("spark" if "spark" in item.fixturenames else "spark jobs"))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A local session with two cores."""
    folder = tmp_path_factory.mktemp("spark")
    conf = {"spark.sql.warehouse.dir": str(folder / "warehouse"), "spark.local.dir": str(folder / "local")}
    session = spark_session("tests", "local[2]", **conf)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker process."""
    with BrokerProcess(tmp_path_factory.mktemp("broker") / "data", flags=["--log-level", "warning"]) as process:
        yield process


@dataclass(frozen=True, slots=True)
class Lake:
    """What a test does with its topic, on the broker and in Spark."""

    spark: SparkSession
    broker: BrokerProcess
    topic: str
    """Nothing has created it."""

    def publish(self, payloads: Sequence[bytes], *, topic: str = "", partitions: int = 0) -> None:
        """Publish in batches; to a partitioned topic in turn."""

        async def run(client: DanubeClient) -> None:
            builder = client.new_producer().with_topic(topic or self.topic).with_name("tests")
            builder = builder.with_partitions(partitions).with_dispatch_strategy(DispatchStrategy.RELIABLE)
            async with builder.build() as producer:
                await producer.send_many(payloads)

        self.with_client(run)

    def with_client(self, work: Callable[[DanubeClient], Awaitable[None]]) -> None:
        """Do something with a client."""

        async def run() -> None:
            async with await DanubeClientBuilder().service_url(self.broker.endpoints.service_url).build() as client:
                await work(client)

        asyncio.run(run())

    def administer(self, work: Callable[[AdminPeer, TopicName], Awaitable[None]]) -> None:
        """Do something as an administrator, with this test's topic."""

        async def run() -> None:
            channel = GrpcCarrier(SystemClock()).connect(self.broker.endpoints.admin)
            await work(AdminPeer(channel), TopicName.parse(self.topic))
            await channel.close()

        asyncio.run(run())

    def options(self, **options: object) -> dict[str, str]:
        """What the data source is given."""
        given = {"service_url": self.broker.endpoints.service_url, "topic": self.topic, **options}
        return {name: str(value) for name, value in given.items()}

    def read(self, **options: object) -> DataFrame:
        """A batch read."""
        return self.spark.read.format("danube").options(**self.options(**options)).load()

    def offsets(self, **options: object) -> list[int]:
        """The offsets of a batch read, in order."""
        rows = self.read(columns="offset", **options).collect()
        return sorted(row.offset for row in rows)

    def run_stream(self, folder: Path, **options: object) -> None:
        """A stream into Parquet files in `folder`, which ends when it has read what was there; raises its error."""
        source = self.spark.readStream.format("danube").options(**self.options(**options)).load()
        sink = source.writeStream.format("parquet").option("checkpointLocation", str(folder / "checkpoint"))
        query = sink.option("path", str(folder / "out")).trigger(availableNow=True).start()
        query.awaitTermination()

    def streamed(self, folder: Path) -> list[tuple[str, int]]:
        """What streams have written to `folder`: topic and offset of each row, in order."""
        rows = self.spark.read.parquet(str(folder / "out")).select("topic", "offset").collect()
        return sorted((row.topic.removeprefix(self.topic), row.offset) for row in rows)


@pytest.fixture
def lake(spark: SparkSession, broker: BrokerProcess, request: pytest.FixtureRequest) -> Lake:
    """A topic of the test's own."""
    return Lake(spark, broker, "/default/" + re.sub(r"\W", "-", request.node.name))
