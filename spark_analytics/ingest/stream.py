"""The stream that fills a table: micro-batches of the telemetry topic, each stored once."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from danube.model.errors import InternalError, PreconditionFailedError, SettingsError
from spark_analytics.ingest.request import IngestRequest, IngestResult
from spark_analytics.ingest.tables import Table, table_at
from spark_analytics.progress import Steps
from spark_analytics.telemetry import typed_records


def ingest(spark: SparkSession, request: IngestRequest, now_ms: int, steps: Steps) -> IngestResult:
    """Store what is there, or go on until the process is told to end. Raises DanubeError."""
    table = table_at(request.folder, request.form)
    result = IngestResult()
    with alone(request.folder):
        _run_stream(spark, request, table, result)
        steps.done(f"stored {result.rows:,} records in {result.batches} batches")
        if request.keep_days is not None:
            first = datetime.fromtimestamp(now_ms / 1_000, UTC) - timedelta(days=request.keep_days)
            result.days_removed = table.retain(first.strftime("%Y-%m-%d"))
        if request.compact:
            result.files_saved = table.compact(spark)
            steps.done(f"compacted: {result.files_saved} files fewer")
    return result


def _run_stream(spark: SparkSession, request: IngestRequest, table: Table, result: IngestResult) -> None:
    options = {
        **request.cluster.telemetry_options(),
        "max_rows_per_trigger": str(request.max_rows),
        "fail_on_data_loss": "false",  # telemetry is trimmed: what is left is worth having
    }

    def store(batch: DataFrame, batch_id: int) -> None:
        rows = typed_records(batch).dropDuplicates(["broker_id", "start_id", "sequence"])
        result.rows += table.append(rows, batch_id)
        result.batches += 1

    writer = spark.readStream.format("danube").options(**options).load().writeStream.foreachBatch(store)
    writer = writer.option("checkpointLocation", str(request.folder / "_checkpoint"))
    trigger = {"processingTime": f"{request.interval_s:g} seconds"} if request.continuous else {"availableNow": True}
    query = writer.trigger(**trigger).start()
    try:
        query.awaitTermination()
    except PySparkException as error:
        raise InternalError(f"the ingest stopped: {str(error).splitlines()[0][:300]}") from error
    finally:
        query.stop()


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Hold the table's lock. Raises PreconditionFailedError while another job has it, or SettingsError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / "_lock").open("a")
    except OSError as error:
        raise SettingsError(f"cannot write to {folder} ({error.strerror}): give another folder with --table") from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise PreconditionFailedError(f"another ingest writes to {folder}: wait for its end, or stop it") from None
        yield
