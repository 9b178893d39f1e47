"""Columns of tables of telemetry: those of the records, the record as it came, and its day."""

from typing import Any

from pyspark.sql import functions as F  # noqa: N812 - the name that every user of Spark knows it by

from spark_analytics.telemetry import RAW, SCHEMA

DAY = "day"
TABLE_SCHEMA = f"{SCHEMA}, {RAW} STRING"


def day_of(at_ms: str) -> Any:  # noqa: ANN401 - a column
    """Day of a time in milliseconds, UTC."""
    return F.date_format(F.timestamp_millis(F.col(at_ms)).cast("timestamp"), "yyyy-MM-dd")
