"""The topics of a cluster as a DataFrame: as brokers last published them, at most a minute old."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from danube.model.limits.broker import TELEMETRY_FULL_INTERVAL_S
from danube.model.records.telemetry import TELEMETRY_TOPIC
from danube.runtime.clock import SystemClock

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_COLUMNS = (
    "topic", "partition_base", "partition_index", "strategy", "broker_id", "start_offset", "head", "log_bytes",
    "producers", "consumers", "subscriptions", "at_ms",
)  # fmt: skip


def topics(spark: "SparkSession", service_url: str, options: Mapping[str, str] | None = None) -> "DataFrame":
    """One row for each topic or partition; `options` are others of the data source, such as `token`."""
    from pyspark.sql import Window  # noqa: PLC0415 - importing the package loads no Spark
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 - the same

    from spark_analytics.telemetry import telemetry_records  # noqa: PLC0415 - the same

    since_ms = SystemClock().now_ms() - round(2_000 * TELEMETRY_FULL_INTERVAL_S)
    given = {"service_url": service_url, **(options or {}), "topic": str(TELEMETRY_TOPIC), "columns": "value"}
    given = {"skip_unreachable": "true", **given}
    reader = spark.read.format("danube").options(**given, starting_timestamp=str(since_ms))
    told = telemetry_records(reader.load()).where("kind = 'topic'")
    newest = Window.partitionBy("topic").orderBy(F.desc("at_ms"), F.desc("sequence"))
    last = told.withColumn("age", F.row_number().over(newest)).where("age = 1 AND NOT coalesce(gone, false)")
    return last.select(*_COLUMNS)
