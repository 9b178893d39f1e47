"""The data source `danube`: rows a second into Spark, and what of it is the broker, the fetch and the Arrow columns.

The fetch and the columns are measured in this process, by what a worker calls; the rest of a read is Spark's own.
"""

import asyncio
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that all of Spark uses

from bench.result import Figure, median
from danube.client import DanubeClientBuilder, DispatchStrategy
from danube.testing.process import BrokerProcess
from spark_analytics.session import spark_session
from spark_analytics.source.link import Endpoint, close_link, link_to
from spark_analytics.source.planning import OffsetRange
from spark_analytics.source.reading import SliceReader
from spark_analytics.source.rows import COLUMN_NAMES

CASES = ((100, 1_000_000), (1_024, 200_000))
"""Bytes of a payload, and rows."""
ROUNDS = 3
TOPIC = "/default/bench"


@dataclass(frozen=True, slots=True)
class Case:
    """One topic on one broker."""

    broker: BrokerProcess
    size: int
    rows: int

    def us(self, seconds: float) -> float:
        """Of one row."""
        return seconds / self.rows * 1e6


def run() -> Iterator[Figure]:
    """One session with two cores, one broker process for each size; all columns are read, three of them used."""
    spark = spark_session("bench", "local[2]")
    for size, rows in CASES:
        with (
            tempfile.TemporaryDirectory() as folder,
            BrokerProcess(Path(folder) / "data", flags=["--log-level", "warning"]) as broker,
        ):
            case = Case(broker, size, rows)
            asyncio.run(_fill(case))
            yield from _measure(spark, case)
    spark.stop()


async def _fill(case: Case) -> None:
    async with await DanubeClientBuilder().service_url(case.broker.endpoints.service_url).build() as client:
        builder = client.new_producer().with_topic(TOPIC).with_name("bench")
        async with builder.with_dispatch_strategy(DispatchStrategy.RELIABLE).build() as producer:
            await producer.send_many(bytes(case.size) for _ in range(case.rows))


def _measure(spark: SparkSession, case: Case) -> Iterator[Figure]:
    name = f"{case.size} B"
    _read(spark, case)  # the first read starts Python workers and compiles
    used_s = case.broker.cpu_s()
    elapsed_s = [_timed(lambda: _read(spark, case)) for _ in range(ROUNDS)]
    broker_s = (case.broker.cpu_s() - used_s) / ROUNDS
    fixed_s = median([_timed(lambda: _read(spark, case, ending=1)) for _ in range(ROUNDS)])
    yield Figure(f"batch read, {name}", case.rows / median(elapsed_s), "rows/s", f"{case.rows:,} rows, local[2]")
    yield Figure(f"batch read of one row, {name}", fixed_s * 1e3, "ms", "planning and Spark's own start of a query")
    yield from _shares(case, broker_s)


def _shares(case: Case, broker_s: float) -> Iterator[Figure]:
    """Processor time by part."""
    endpoint = Endpoint(service_url=case.broker.endpoints.service_url, retry_s=10.0)
    (state,) = link_to(endpoint).states(TOPIC)
    wanted = OffsetRange(TOPIC, state.topic_id, 0, case.rows)
    reader = SliceReader(endpoint=endpoint, columns=COLUMN_NAMES, fail_on_data_loss=True)
    fetch_s = median([_processor_time(lambda: list(link_to(endpoint).batches(wanted))) for _ in range(ROUNDS)])
    all_s = median([_processor_time(lambda: _exhaust(reader.read(wanted))) for _ in range(ROUNDS)])
    close_link()
    yield Figure(f"of it: broker, {case.size} B", case.us(broker_s), "us/row")
    yield Figure(f"of it: fetch, {case.size} B", case.us(fetch_s), "us/row")
    yield Figure(f"of it: checksums and Arrow columns, {case.size} B", case.us(max(0.0, all_s - fetch_s)), "us/row")


def _read(spark: SparkSession, case: Case, **options: object) -> None:
    given = {"service_url": case.broker.endpoints.service_url, "topic": TOPIC, **options}
    frame: DataFrame = spark.read.format("danube").options(**{k: str(v) for k, v in given.items()}).load()
    (found,) = frame.agg(F.count("*"), F.max("offset"), F.sum(F.length("value"))).collect()
    rows = int(str(options.get("ending", case.rows)))
    if tuple(found) != (rows, rows - 1, rows * case.size):
        raise AssertionError(f"Spark read {tuple(found)}")


def _exhaust(batches: Iterator[object]) -> None:
    for _ in batches:
        pass


def _timed(work: Callable[[], object]) -> float:
    started_s = time.monotonic()
    work()
    return time.monotonic() - started_s


def _processor_time(work: Callable[[], object]) -> float:
    before = os.times()
    work()
    after = os.times()
    return after.user + after.system - before.user - before.system
