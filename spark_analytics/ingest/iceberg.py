"""An Iceberg table of telemetry by the package `pyiceberg`: no jars. Snapshots carry the ids of their batches."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from danube.model.errors import SettingsError
from danube.model.text import install_text
from spark_analytics.ingest.columns import DAY, TABLE_SCHEMA, day_of

_NAME = "danube.telemetry"
_BATCH = "danube.batch"


@dataclass(frozen=True, slots=True)
class IcebergTelemetry:
    """An Iceberg table with a catalog in its own folder; rows of a micro-batch pass through the driver."""

    folder: Path

    def last_batch(self) -> int:
        """From the snapshots."""
        table = self._table()
        found = [] if table is None else [one.summary for one in table.metadata.snapshots if one.summary is not None]
        return max((int(summary[_BATCH]) for summary in found if summary[_BATCH] is not None), default=-1)

    def append(self, batch: DataFrame, batch_id: int) -> int:
        """One snapshot with the batch's id."""
        if batch_id <= self.last_batch():
            return 0
        rows = batch.withColumn(DAY, day_of("at_ms")).toArrow()
        table = self._table()
        if table is None:
            self.folder.mkdir(parents=True, exist_ok=True)
            catalog = self._catalog()
            catalog.create_namespace_if_not_exists("danube")
            table = catalog.create_table(_NAME, schema=rows.schema)
        else:
            with table.update_schema() as update:
                update.union_by_name(rows.schema)
        table.append(rows, snapshot_properties={_BATCH: str(batch_id)})
        return int(rows.num_rows)

    def read(self, spark: SparkSession, days: Sequence[str] | None) -> DataFrame:
        """The files of the newest snapshot, read by Spark."""
        table = self._table()
        chosen = {} if days is None else {"row_filter": _in_days(days)}
        files = [] if table is None else [task.file.file_path for task in table.scan(**chosen).plan_files()]
        if not files:
            return spark.createDataFrame([], TABLE_SCHEMA)
        return spark.read.schema(TABLE_SCHEMA).parquet(*files)

    def compact(self, spark: SparkSession) -> int:
        """Nothing: engines that know Iceberg compact its tables."""
        del spark
        return 0

    def retain(self, first_day: str) -> int:
        """Deletes the rows of old days; their number is not known."""
        table = self._table()
        if table is not None:
            table.delete(f"{DAY} < '{first_day}'")
        return 0

    def _catalog(self) -> Any:  # noqa: ANN401 - an extra without types for us
        try:
            from pyiceberg.catalog.sql import SqlCatalog  # noqa: PLC0415 - an extra
        except ImportError:
            raise SettingsError(f"Iceberg tables take {install_text('iceberg')}") from None
        folder = self.folder.resolve()
        return SqlCatalog("danube", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}")

    def _table(self) -> Any:  # noqa: ANN401 - the same
        if not (self.folder / "catalog.db").is_file():
            return None
        catalog = self._catalog()
        return catalog.load_table(_NAME) if catalog.table_exists(_NAME) else None


def _in_days(days: Sequence[str]) -> Any:  # noqa: ANN401 - the same
    from pyiceberg.expressions import In, Reference  # noqa: PLC0415 - an extra

    values: Any = set(days)
    return In(term=Reference(DAY), values=values)
