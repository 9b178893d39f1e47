"""Parameters of an ingest and its result, for a command line that starts without Spark."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from danube.runtime.clock import Clock
from spark_analytics.progress import Steps
from spark_analytics.results import Cluster


class TableFormat(StrEnum):
    """Formats of tables."""

    PARQUET = "parquet"
    DELTA = "delta"
    ICEBERG = "iceberg"


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestRequest:
    """Parameters of an ingest."""

    cluster: Cluster
    folder: Path
    form: TableFormat = TableFormat.PARQUET
    continuous: bool = False
    interval_s: float = 60.0
    """Between two micro-batches of a continuous one."""
    max_rows: int = 1_000_000
    keep_days: int | None = None
    compact: bool = True


@dataclass(slots=True)
class IngestResult:
    """Result of an ingest."""

    rows: int = 0
    batches: int = 0
    files_saved: int = 0
    days_removed: int = 0


def run_ingest(request: IngestRequest, clock: Clock, master: str, steps: Steps) -> int:
    """Start Spark and ingest; answers how many records were stored. Raises DanubeError."""
    from spark_analytics.ingest.stream import ingest  # noqa: PLC0415 - `--help` needs no Spark
    from spark_analytics.session import spark_session  # noqa: PLC0415 - the same

    spark = spark_session("danube ingest", master)
    steps.done(f"Spark {spark.version} on {master}")
    return ingest(spark, request, clock.now_ms(), steps).rows
