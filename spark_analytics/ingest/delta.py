"""A Delta table of telemetry by the package `deltalake`: no jars. Batches are transactions of one application."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from danube.model.errors import SettingsError
from danube.model.text import install_text
from spark_analytics.ingest.columns import DAY, TABLE_SCHEMA, day_of

_APPLICATION = "danube-analytics"


@dataclass(frozen=True, slots=True)
class DeltaTelemetry:
    """A Delta table; rows of a micro-batch pass through the driver."""

    folder: Path

    def last_batch(self) -> int:
        """From the table's transactions."""
        table = self._table()
        found = None if table is None else table.transaction_version(_APPLICATION)
        return -1 if found is None else int(found)

    def append(self, batch: DataFrame, batch_id: int) -> int:
        """One transaction with the batch's id."""
        delta = _package()
        if batch_id <= self.last_batch():
            return 0
        rows = batch.withColumn(DAY, day_of("at_ms")).toArrow()
        transaction = delta.Transaction(_APPLICATION, batch_id)
        delta.write_deltalake(
            str(self.folder),
            rows,
            mode="append",
            partition_by=[DAY],
            schema_mode="merge",
            commit_properties=delta.CommitProperties(app_transactions=[transaction]),
        )
        return int(rows.num_rows)

    def read(self, spark: SparkSession, days: Sequence[str] | None) -> DataFrame:
        """The files of the newest version, read by Spark."""
        table = self._table()
        wanted = None if days is None else [(DAY, "in", list(days))]
        files = [] if table is None else table.file_uris(file_pruning_predicate=wanted)
        if not files:
            return spark.createDataFrame([], TABLE_SCHEMA)
        return spark.read.schema(TABLE_SCHEMA).parquet(*files)

    def compact(self, spark: SparkSession) -> int:
        """By the package."""
        del spark
        table = self._table()
        if table is None:
            return 0
        found = table.optimize.compact()
        return int(found["numFilesRemoved"]) - int(found["numFilesAdded"])

    def retain(self, first_day: str) -> int:
        """Deletes the rows of old days."""
        table = self._table()
        if table is None:
            return 0
        days = {each[DAY] for each in table.partitions() if each[DAY] < first_day}
        if days:
            table.delete(f"{DAY} < '{first_day}'")
        return len(days)

    def _table(self) -> Any:  # noqa: ANN401 - the package has no types for us
        delta = _package()
        return delta.DeltaTable(str(self.folder)) if (self.folder / "_delta_log").is_dir() else None


def _package() -> Any:  # noqa: ANN401 - the same
    try:
        import deltalake  # noqa: PLC0415 - an extra
    except ImportError:
        raise SettingsError(f"Delta tables take {install_text('delta')}") from None
    return deltalake
