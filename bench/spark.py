"""The data source `danube`: rows a second into Spark, and whose processor time a read is.

The fetch and the columns are a part of the workers' time; they are measured in this process, by what a worker calls.
"""

import asyncio
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that all of Spark uses

from bench.result import Figure, median
from danube.client import DanubeClientBuilder, DispatchStrategy
from danube.tables.link import Endpoint, close_link, link_to
from danube.tables.planning import OffsetRange
from danube.tables.reading import SliceReader
from danube.tables.rows import COLUMN_NAMES
from danube.testing.processes.broker import BrokerProcess
from danube.testing.processes.child import cpu_s
from spark_analytics.session import spark_session

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
        """Microseconds of one row."""
        return seconds / self.rows * 1e6


def run() -> Iterator[Figure]:
    """One session with two cores, one broker process for each size; all columns are read, three of them used."""
    spark = spark_session("bench", "local[2]")
    with asyncio.Runner() as runner:  # open to the end: gRPC goes on to hand events to loops that it has once seen
        for size, rows in CASES:
            with (
                tempfile.TemporaryDirectory() as folder,
                BrokerProcess(Path(folder) / "data", flags=["--log-level", "warning"]) as broker,
            ):
                case = Case(broker, size, rows)
                runner.run(_fill(case))
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
    used_s = _used_s(case)
    elapsed_s = [_timed(lambda: _read(spark, case)) for _ in range(ROUNDS)]
    parts_s = {part: (now_s - used_s[part]) / ROUNDS for part, now_s in _used_s(case).items()}
    fixed_s = median([_timed(lambda: _read(spark, case, ending=1)) for _ in range(ROUNDS)])
    yield Figure(f"batch read, {name}", case.rows / median(elapsed_s), "rows/s", f"{case.rows:,} rows, local[2]")
    yield Figure(f"batch read of one row, {name}", fixed_s * 1e3, "ms", "planning and Spark's own start of a query")
    for part, part_s in parts_s.items():
        yield Figure(f"processor time of {part}, {name}", case.us(part_s), "us/row")
    yield from _shares(case)


def _shares(case: Case) -> Iterator[Figure]:
    """Our share of the workers' processor time."""
    endpoint = Endpoint(service_url=case.broker.endpoints.service_url, retry_s=10.0)
    (state,) = link_to(endpoint).states(TOPIC)
    wanted = OffsetRange(TOPIC, state.topic_id, 0, case.rows)
    reader = SliceReader(endpoint=endpoint, columns=COLUMN_NAMES, fail_on_data_loss=True)
    fetch_s = median([_processor_time(lambda: list(link_to(endpoint).batches(wanted))) for _ in range(ROUNDS)])
    all_s = median([_processor_time(lambda: _exhaust(reader.read(wanted))) for _ in range(ROUNDS)])
    close_link()
    yield Figure(f"of it: fetch, {case.size} B", case.us(fetch_s), "us/row")
    yield Figure(f"of it: checksums and Arrow columns, {case.size} B", case.us(max(0.0, all_s - fetch_s)), "us/row")


def _used_s(case: Case) -> dict[str, float]:
    """Processor time so far, by part."""
    gateway: Any = SparkContext._gateway  # noqa: SLF001 - nothing else knows Spark's process
    jvm = gateway.proc.pid
    workers = sum(_tree_s(child) for child in _children(jvm))
    return {"the broker": case.broker.cpu_s(), "Spark's JVM": cpu_s(jvm), "Spark's Python workers": workers}


def _tree_s(pid: int) -> float:
    return cpu_s(pid) + sum(_tree_s(child) for child in _children(pid))


def _children(pid: int) -> list[int]:
    listed = [thread / "children" for thread in Path(f"/proc/{pid}/task").iterdir()]
    return [int(child) for path in listed if path.exists() for child in path.read_text(encoding="ascii").split()]


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
