"""The data source `danube` beside Spark's Kafka source, in one session and in turns; and segments without a broker.

Kafka comes as jars, which no package here brings: `DANUBE_KAFKA_JARS` is a folder with `broker/` (Maven's
`dependency:copy-dependencies` of org.apache.kafka:kafka_2.13) and `spark/` (of
org.apache.spark:spark-sql-kafka-0-10_2.13). Without it Kafka is left out.
"""

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that all of Spark uses

from bench.history import spark_used_s
from bench.result import Figure, median
from danube.client import DanubeClientBuilder, DispatchStrategy
from danube.model.limits.broker import MIB
from danube.tables.link import Endpoint, close_link, link_to
from danube.tables.segments import SegmentFolder
from danube.testing.patience import PATIENCE_S
from danube.testing.processes.broker import BrokerProcess
from danube.testing.processes.child import cpu_s
from spark_analytics.java import find_java
from spark_analytics.session import spark_session

SIZE, ROWS, PARTITIONS, ROUNDS = 100, 1_000_000, 2, 5
TOPIC = "/default/bench"
_KAFKA = "127.0.0.1:19092"
_SERVER = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:19093
listeners=PLAINTEXT://127.0.0.1:19092,CONTROLLER://127.0.0.1:19093
controller.listener.names=CONTROLLER
log.dirs={folder}/logs
offsets.topic.replication.factor=1
num.partitions=2
"""
_TUNED = {"kafka.max.poll.records": "5000", "kafka.max.partition.fetch.bytes": str(8 * MIB)}


@dataclass(frozen=True, slots=True)
class Reader:
    """One way to read the same rows."""

    name: str
    load: Callable[[], DataFrame]
    server_cpu_s: Callable[[], float]
    elapsed_s: list[float] = field(default_factory=list)
    spark_cpu_s: list[float] = field(default_factory=list)
    """Of the JVM and the Python workers: what other programs on the machine cannot blur."""
    server_s: list[float] = field(default_factory=list)


def run() -> Iterator[Figure]:
    """Rows a second of each way, the median of rounds in turns, and each beside Kafka's."""
    jars = Path(os.environ.get("DANUBE_KAFKA_JARS", ""))
    has_kafka = "DANUBE_KAFKA_JARS" in os.environ
    conf = {"spark.jars": ",".join(map(str, _spark_jars(jars)))} if has_kafka else {}
    spark = spark_session("bench", "local[2]", **{**conf, "spark.driver.extraJavaOptions": ""})
    settings = {"journal_file_bytes_max": 8 * MIB, "segment_bytes_max": 8 * MIB, "telemetry_interval_s": 0}
    with (
        tempfile.TemporaryDirectory() as folder,
        BrokerProcess(Path(folder) / "data", flags=["--log-level", "warning"], settings=settings) as broker,
    ):
        asyncio.run(_fill(broker))
        readers = _ours(spark, broker, _flushed(broker, Path(folder)))
        if not has_kafka:
            yield from _measure(readers)
        else:
            with _kafka(jars, Path(folder)) as server:
                readers += _theirs(spark, server)
                yield from _measure(readers)
    spark.stop()


def _measure(readers: list[Reader]) -> Iterator[Figure]:
    for reader in readers:
        _read(reader)  # the first read starts Python workers and compiles
        _read(reader)
    for _ in range(ROUNDS):
        for reader in readers:
            started_s, spark_s, server_s = time.monotonic(), spark_used_s(), reader.server_cpu_s()
            _read(reader)
            reader.elapsed_s.append(time.monotonic() - started_s)
            reader.spark_cpu_s.append(spark_used_s() - spark_s)
            reader.server_s.append(reader.server_cpu_s() - server_s)
    kafka = next((reader for reader in readers if reader.name == "Kafka"), None)
    for reader in readers:
        rate = ROWS / median(reader.elapsed_s)
        yield Figure(f"batch read, {SIZE} B, {reader.name}", rate, "rows/s", f"{ROWS:,} rows, local[2]")
        yield Figure(f"  CPU of Spark, {reader.name}", median(reader.spark_cpu_s) / ROWS * 1e6, "s a million rows")
        yield Figure(f"  CPU of its server, {reader.name}", median(reader.server_s) / ROWS * 1e6, "s a million rows")
        if kafka is not None:
            by_time = [theirs / ours for theirs, ours in zip(kafka.elapsed_s, reader.elapsed_s, strict=True)]
            by_cpu = [theirs / ours for theirs, ours in zip(kafka.spark_cpu_s, reader.spark_cpu_s, strict=True)]
            yield Figure(
                f"  times Kafka's, {reader.name}", median(by_time), "x", f"by Spark's CPU {median(by_cpu):.2f} x"
            )


def _read(reader: Reader) -> None:
    (found,) = reader.load().agg(F.count("*"), F.max("offset"), F.sum(F.length("value"))).collect()
    if (found[0], found[2]) != (ROWS, ROWS * SIZE):
        raise AssertionError(f"{reader.name} read {tuple(found)}")


def _ours(spark: SparkSession, broker: BrokerProcess, folder: Path) -> list[Reader]:
    options = {"service_url": broker.endpoints.service_url, "topic": TOPIC}

    def load(**more: str) -> Callable[[], DataFrame]:
        return lambda: spark.read.format("danube").options(**options, **more).load()

    segments = {"source": "segments", "folder": str(folder)}
    return [
        Reader("all columns", load(), broker.cpu_s),
        Reader("columns=offset,value", load(columns="offset,value"), broker.cpu_s),
        Reader("segments", load(**segments), broker.cpu_s),
        Reader("segments, columns=offset,value", load(**segments, columns="offset,value"), broker.cpu_s),
    ]


def _theirs(spark: SparkSession, server: "subprocess.Popen[bytes]") -> list[Reader]:
    options = {"kafka.bootstrap.servers": _KAFKA, "subscribe": "bench", "startingOffsets": "earliest"}

    def load(**more: str) -> Callable[[], DataFrame]:
        return lambda: spark.read.format("kafka").options(**options, **more).load()

    def used_s() -> float:
        return cpu_s(server.pid)

    return [Reader("Kafka", load(), used_s), Reader("Kafka, tuned", load(**_TUNED), used_s)]


async def _fill(broker: BrokerProcess) -> None:
    async with await DanubeClientBuilder().service_url(broker.endpoints.service_url).build() as client:
        builder = client.new_producer().with_topic(TOPIC).with_name("bench").with_partitions(PARTITIONS)
        async with builder.with_dispatch_strategy(DispatchStrategy.RELIABLE).build() as producer:
            await producer.send_many(bytes(SIZE) for _ in range(ROWS))


def _flushed(broker: BrokerProcess, folder: Path) -> Path:
    """The shared folder, as soon as most of the rows are in its segments."""
    states = link_to(Endpoint(service_url=broker.endpoints.service_url, retry_s=10.0)).states(TOPIC)
    close_link()
    end_s = time.monotonic() + PATIENCE_S
    while True:
        found = list(folder.glob("data/**/segments"))
        ends = [SegmentFolder(found[0].parent).manifest(state.topic_id).end_offset for state in states] if found else []
        if sum(ends) > 0.9 * ROWS:
            return found[0].parent
        if time.monotonic() > end_s:
            raise AssertionError(f"{sum(ends):,} of {ROWS:,} rows are in segments")
        time.sleep(0.2)


@contextmanager
def _kafka(jars: Path, folder: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """A broker with the rows, in KRaft mode."""
    settings = folder / "server.properties"
    settings.write_text(_SERVER.format(folder=folder))
    java = [str(find_java().home / "bin" / "java"), "-Xmx1g", "-cp", f"{jars / 'broker'}/*"]
    identity = "MkU3OEVBNTcwNTJENDM2Qk"
    subprocess.run(
        [*java, "kafka.tools.StorageTool", "format", "-t", identity, "-c", str(settings)], check=True, stdout=sys.stderr
    )
    with (folder / "kafka.log").open("wb") as log:
        server = subprocess.Popen([*java, "kafka.Kafka", str(settings)], stdout=log, stderr=log)
        try:
            _fill_kafka()
            yield server
        finally:
            server.kill()
            server.wait()


def _fill_kafka() -> None:
    admin = AdminClient({"bootstrap.servers": _KAFKA})
    for made in admin.create_topics([NewTopic("bench", PARTITIONS, 1)], operation_timeout=60).values():
        made.result(60)
    producer = Producer({"bootstrap.servers": _KAFKA, "linger.ms": 5, "queue.buffering.max.messages": 2 * ROWS})
    for number in range(ROWS):
        producer.produce("bench", value=bytes(SIZE), partition=number % PARTITIONS)
        if number % 10_000 == 0:
            producer.poll(0)
    if producer.flush(120):
        raise AssertionError("Kafka did not take all rows")


def _spark_jars(jars: Path) -> list[Path]:
    """Those that Spark does not have itself."""
    wanted = ("spark-sql-kafka", "spark-token-provider-kafka", "kafka-clients", "commons-pool2")
    return [path for path in (jars / "spark").glob("*.jar") if path.name.startswith(wanted)]
