"""Tables of telemetry: a folder of Parquet files with a commit log, or Delta or Iceberg by their Python packages.

All take micro-batches once: each remembers the id of the last batch that it has, and a batch that comes again is left
out. Days are those of the brokers' clocks, UTC.
"""

import shutil
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Protocol

import pyarrow.parquet as pq  # type: ignore[import-untyped]
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that every user of Spark knows it by

from danube.model.errors import NotFoundError
from spark_analytics.ingest.columns import DAY, TABLE_SCHEMA, day_of
from spark_analytics.ingest.log import Commit, DataFile, Snapshot, add_commit, read_log
from spark_analytics.ingest.request import TableFormat
from spark_analytics.telemetry import RAW

FILES_OF_A_DAY = 4
"""A day with more files is worth compacting."""
ORPHAN_S = 3_600.0
"""Files that no commit names, and removed ones, are deleted when they are older: readers have opened them by then."""


class Table(Protocol):
    """A table of telemetry."""

    def last_batch(self) -> int:
        """Id of the last micro-batch that it has; -1 for none."""

    def append(self, batch: DataFrame, batch_id: int) -> int:
        """Add the rows of a micro-batch; answers how many they are."""

    def read(self, spark: SparkSession, days: Sequence[str] | None) -> DataFrame:
        """The rows of these days, or all."""

    def compact(self, spark: SparkSession) -> int:
        """Rewrite days with many files; answers how many files fewer there are."""

    def retain(self, first_day: str) -> int:
        """Remove days before this one; answers how many."""


@dataclass(frozen=True, slots=True)
class ParquetTable:
    """A folder of Parquet files; readers that know no commit log read it after a compaction only."""

    folder: Path

    def last_batch(self) -> int:
        """From the commit log."""
        return read_log(self.folder).last_batch

    def append(self, batch: DataFrame, batch_id: int) -> int:
        """Written first, committed then; a batch that is in the log is left out."""
        state = read_log(self.folder)
        if batch_id <= state.last_batch:
            return 0
        added = self._write(batch, f"batch-{batch_id:010d}-{time.time_ns():x}")
        commit = Commit(version=state.version + 1, reason="batch", batch=batch_id, added=added)
        add_commit(self.folder, commit)
        return sum(file.rows for file in added)

    def read(self, spark: SparkSession, days: Sequence[str] | None) -> DataFrame:
        """The committed files; columns that they lack are null."""
        files = read_log(self.folder).files.values()
        wanted = [str(self.folder / file.path) for file in files if days is None or file.day in days]
        if not wanted:
            return spark.createDataFrame([], TABLE_SCHEMA)
        return spark.read.schema(TABLE_SCHEMA).parquet(*wanted)

    def compact(self, spark: SparkSession) -> int:
        """Days with many files become one or two, each record once, those of a subscription together."""
        saved = 0
        for day, files in _by_day(read_log(self.folder)).items():
            if len(files) <= FILES_OF_A_DAY:
                continue
            rows = self.read(spark, [day]).dropDuplicates(["broker_id", "start_id", "sequence"])
            parts = max(1, sum(file.bytes for file in files) // (256 << 20))
            ordered = rows.repartition(parts, "kind", "topic").sortWithinPartitions("kind", "topic", "at_ms")
            added = self._write(ordered, f"compact-{time.time_ns():x}")
            state = read_log(self.folder)
            removed = [file.path for file in files]
            add_commit(self.folder, Commit(version=state.version + 1, reason="compact", added=added, removed=removed))
            saved += len(files) - len(added)
        self.vacuum()
        return saved

    def retain(self, first_day: str) -> int:
        """One commit for all of them."""
        state = read_log(self.folder)
        old = [file for file in state.files.values() if file.day < first_day]
        if old:
            removed = [file.path for file in old]
            add_commit(self.folder, Commit(version=state.version + 1, reason="retain", removed=removed))
        self.vacuum()
        return len({file.day for file in old})

    def vacuum(self, now_s: float | None = None) -> int:
        """Delete folders of files that no commit names any more and that are old; answers how many."""
        live = {Path(path).parts[1] for path in read_log(self.folder).files}
        bound_s = (time.time() if now_s is None else now_s) - ORPHAN_S
        data = self.folder / "data"
        old = (
            [each for each in data.iterdir() if each.name not in live and each.stat().st_mtime < bound_s]
            if data.exists()
            else []
        )
        for each in old:
            shutil.rmtree(each)
        return len(old)

    def _write(self, rows: DataFrame, name: str) -> list[DataFile]:
        target = self.folder / "data" / name
        with_day = rows.withColumn(DAY, day_of("at_ms"))
        with_day.write.mode("overwrite").partitionBy(DAY).parquet(str(target))
        return sorted(map(self._file, target.glob(f"{DAY}=*/*.parquet")), key=lambda file: file.path)

    def _file(self, path: Path) -> DataFile:
        return DataFile(
            path=str(path.relative_to(self.folder)),
            day=path.parent.name.removeprefix(f"{DAY}="),
            rows=pq.read_metadata(path).num_rows,
            bytes=path.stat().st_size,
        )


def _by_day(state: Snapshot) -> dict[str, list[DataFile]]:
    days: dict[str, list[DataFile]] = {}
    for file in state.files.values():
        days.setdefault(file.day, []).append(file)
    return days


def table_at(folder: Path, form: TableFormat | None = None) -> Table:
    """The table in a folder, of the format that it has, else of the one that is asked for. Raises NotFoundError."""
    if (folder / "_delta_log").is_dir() or form is TableFormat.DELTA:
        from spark_analytics.ingest.delta import DeltaTelemetry  # noqa: PLC0415 - an extra

        return DeltaTelemetry(folder)
    if (folder / "catalog.db").is_file() or form is TableFormat.ICEBERG:
        from spark_analytics.ingest.iceberg import IcebergTelemetry  # noqa: PLC0415 - an extra

        return IcebergTelemetry(folder)
    if (folder / "_log").is_dir() or form is TableFormat.PARQUET:
        return ParquetTable(folder)
    raise NotFoundError(f"there is no table in {folder}: make one with `danube-analytics ingest --table {folder}`")


def read_table(spark: SparkSession, folder: Path, since_ms: int, until_ms: int) -> DataFrame:
    """Records of a table within a time, both ends included. Raises NotFoundError."""
    days = list(_days(since_ms, until_ms))
    rows = table_at(folder).read(spark, days if len(days) < 3_660 else None)
    return rows.where(F.col("at_ms").between(since_ms, until_ms)).drop(RAW)


def _days(since_ms: int, until_ms: int) -> Iterable[str]:
    day = datetime.fromtimestamp(since_ms / 1_000, UTC).date()
    last = datetime.fromtimestamp(until_ms / 1_000, UTC).date()
    while day <= last:
        yield day.isoformat()
        day += timedelta(days=1)
