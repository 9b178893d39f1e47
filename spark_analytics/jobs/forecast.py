"""Forecasts on Spark: series of rates and lag, each forecast by a worker (`spark_analytics/jobs/series.py`)."""

from typing import Any, TypeAlias

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that every user of Spark knows it by

from spark_analytics.jobs.series import forecast

Frame: TypeAlias = Any  # pandas has no types here
_DAY_MS = 86_400_000
_COLUMNS = (
    "name STRING, moment_ms BIGINT, value DOUBLE, low DOUBLE, high DOUBLE, model STRING, mase DOUBLE,"
    " mase_seasonal_naive DOUBLE, points BIGINT"
)
_NAMES = [part.split()[0] for part in _COLUMNS.split(", ")]


def rate_series(topics: DataFrame) -> DataFrame:
    """Rows of `topic_loads` -> `name`, `moment_ms` and `value`: messages a second of each topic."""
    rates = topics.groupBy("topic", "moment_ms").agg(F.sum("messages_per_s").alias("value"))
    return rates.select(F.concat("topic", F.lit(": messages/s")).alias("name"), "moment_ms", "value")


def lag_series(records: DataFrame, step_ms: int) -> DataFrame:
    """Telemetry records -> the same: the largest lag of each topic and subscription."""
    moment = (F.floor(F.col("at_ms") / step_ms) * step_ms).cast("bigint").alias("moment_ms")
    lags = records.where((F.col("kind") == "subscription") & F.col("lag_messages").isNotNull())
    found = lags.groupBy("topic", "subscription", moment).agg(F.max("lag_messages").cast("double").alias("value"))
    name = F.concat("topic", F.lit(" by "), "subscription", F.lit(": messages that wait"))
    return found.select(name.alias("name"), "moment_ms", "value")


def forecasts(series: DataFrame, step_ms: int, until_ms: int) -> DataFrame:
    """Series -> the past with null bounds, then the forecast up to a day ahead or `until_ms`."""

    def found(rows: Frame) -> Frame:
        return _forecast(step_ms, until_ms, rows)

    return series.groupBy("name").applyInPandas(found, _COLUMNS)


def _forecast(step_ms: int, until_ms: int, rows: Frame) -> Frame:
    name, first_ms = rows["name"].iloc[0], int(rows["moment_ms"].min())
    last_ms = max(first_ms, int(rows["moment_ms"].max()))
    count = (last_ms - first_ms) // step_ms + 1
    values = np.full(count, np.nan)
    values[((rows["moment_ms"] - first_ms) // step_ms).astype(int)] = rows["value"]
    season, ahead = max(1, _DAY_MS // step_ms), max(1, (until_ms - last_ms) // step_ms)
    found = forecast(values, season, ahead)
    known = (found.model, found.mase, found.mase_seasonal_naive, int(np.isfinite(values).sum()))
    past = [(name, first_ms + at * step_ms, value, None, None, *known) for at, value in enumerate(values.tolist())]
    future = [
        (name, last_ms + (at + 1) * step_ms, value, low, high, *known)
        for at, (value, low, high) in enumerate(
            zip(found.values.tolist(), found.low.tolist(), found.high.tolist(), strict=True)
        )
    ]
    rows_found = [row for row in past if row[2] == row[2]] + future  # NaN is no measurement
    return pd.DataFrame(rows_found, columns=_NAMES)
