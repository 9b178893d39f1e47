"""The job `history` on ten million records of telemetry in a table: seconds after Spark has started, on two cores."""

import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
from pyspark import SparkContext

from bench.result import Figure
from bench.spark import _children, _tree_s
from danube.model.lag.group import LagFilter
from danube.model.records.analytics import AnalyticsJob
from danube.runtime.clock import SystemClock
from danube.testing.processes.child import cpu_s
from spark_analytics.ingest.log import Commit, DataFile, add_commit
from spark_analytics.jobs.run import JobRequest, run_job
from spark_analytics.progress import Steps
from spark_analytics.results import Cluster
from spark_analytics.session import spark_session

SUBSCRIPTIONS, LOOKS, EVERY_MS = 100, 100_000, 5_000
START_MS = 1_750_032_000_000
"""Midnight UTC."""
_DAY_MS = 86_400_000
_STALLED = 3
"""Every so many-th subscription stands still for an hour."""


@dataclass(frozen=True, slots=True)
class Size:
    """Records of a table: each subscription as often as brokers tell of it."""

    subscriptions: int
    looks: int


def run() -> Iterator[Figure]:
    """Ten million records, nearly six days of a hundred subscriptions."""
    yield from _measure(Size(SUBSCRIPTIONS, LOOKS))


def run_quick() -> Iterator[Figure]:
    """A day of three subscriptions."""
    yield from _measure(Size(3, 17_280))


def _measure(size: Size) -> Iterator[Figure]:
    folder = Path(tempfile.mkdtemp())
    try:
        _write_table(folder, size)
        options = {"spark.sql.shuffle.partitions": 4, "spark.driver.extraJavaOptions": ""}
        spark = spark_session("bench", "local[2]", **options)
        started_s, used_s = time.monotonic(), spark_used_s()
        result = run_job(_request(folder, size), SystemClock(), Steps(SystemClock(), shown=True))
        took_s, cpu = time.monotonic() - started_s, spark_used_s() - used_s
        spark.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    yield Figure("history after Spark has started", took_s, "s")
    yield Figure("processor time of it", cpu, "s", "JVM and workers; 2 cores could do it in half")
    records, found = result.window["records"], {row["subscription"] for row in result.tables["incidents"]}
    wanted = {f"s{number}" for number in range(0, size.subscriptions, _STALLED)}
    if records != size.subscriptions * size.looks or found != wanted:
        raise AssertionError(f"{records:,} records, incidents of {len(found)} subscriptions and not {len(wanted)}")
    yield Figure("records of telemetry", records, "", f"{len(found)} subscriptions with an incident, all found")


def _request(folder: Path, size: Size) -> JobRequest:
    return JobRequest(
        cluster=Cluster(service_url="http://127.0.0.1:1"),
        run_id="bench",
        attempt="bench",
        job=AnalyticsJob.HISTORY,
        as_of_ms=START_MS + size.looks * EVERY_MS,
        since_s=size.looks * EVERY_MS / 1_000,
        table=folder,
        wanted=LagFilter(),
        publish=False,
        time_limit_s=3_600,
    )


def spark_used_s() -> float:
    """Processor time so far of Spark's JVM and its Python workers."""
    gateway: Any = SparkContext._gateway  # noqa: SLF001 - nothing else knows Spark's process
    return cpu_s(gateway.proc.pid) + sum(map(_tree_s, _children(gateway.proc.pid)))


def _write_table(folder: Path, size: Size) -> None:
    """One file a day and ten subscriptions."""
    added = []
    at = np.arange(size.looks, dtype=np.int64)
    for day in range(int(at[-1]) * EVERY_MS // _DAY_MS + 1):
        of_day = at[(at * EVERY_MS) // _DAY_MS == day]
        name = datetime.fromtimestamp((START_MS + day * _DAY_MS) / 1_000, UTC).strftime("%Y-%m-%d")
        for first in range(0, size.subscriptions, 10):
            numbers = range(first, min(first + 10, size.subscriptions))
            table = pa.concat_tables([_looks(number, of_day, size) for number in numbers])
            path = folder / "data" / "made" / f"day={name}" / f"{first}.parquet"
            path.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(table, path)
            relative = str(path.relative_to(folder))
            added.append(DataFile(path=relative, day=name, rows=table.num_rows, bytes=path.stat().st_size))
    add_commit(folder, Commit(version=0, reason="batch", batch=0, added=added))


def _looks(number: int, at: Any, size: Size) -> Any:  # noqa: ANN401 - arrays
    """Ten messages a second; a subscription that stands still does so for an hour in the middle."""
    head = at * 50
    position = head - 20
    if number % _STALLED == 0:
        began = size.looks // 2
        position = np.where((at >= began) & (at < began + 720), began * 50, position)
    same = {
        "version": 1, "kind": "subscription", "broker_id": "1", "start_id": f"1-{number}",
        "topic": f"/default/t{number}",
        "topic_id": str(number), "subscription": f"s{number}", "subscription_id": str(number),
    }  # fmt: skip
    columns = {name: _repeated(value, len(at)) for name, value in same.items()}
    columns |= {
        "sequence": pa.array(at),
        "at_ms": pa.array(START_MS + 1 + at * EVERY_MS),
        "full": pa.array(np.ones(len(at), dtype=bool)),
        "consumers": pa.array(np.ones(len(at), dtype=np.int64)),
        "start_offset": pa.array(np.zeros(len(at), dtype=np.int64)),
        "head": pa.array(head),
        "position": pa.array(np.maximum(position, 0)),
        "lag_messages": pa.array(np.maximum(head - position, 0)),
        "oldest_unread_append_ms": pa.array(START_MS + np.maximum(position, 0) // 50 * EVERY_MS),
        "head_append_ms": pa.array(START_MS + at * EVERY_MS),
    }
    return pa.table(columns)


def _repeated(value: object, count: int) -> Any:  # noqa: ANN401 - as above
    indices = pa.array(np.zeros(count, dtype=np.int32))
    return pa.DictionaryArray.from_arrays(indices, pa.array([value])).cast(pa.array([value]).type)
