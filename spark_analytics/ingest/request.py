"""Parameters of an ingest and its result."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

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
