"""The job `forecast`: rates and lag of each topic a day ahead, with the error of the model on the part held back."""

from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that every user of Spark knows it by

from danube.model.records.analytics import Row
from spark_analytics.jobs.balance import topic_loads
from spark_analytics.jobs.forecast import forecasts, lag_series, rate_series
from spark_analytics.jobs.run import Computed, JobRequest, Moment, step_ms_of
from spark_analytics.progress import Steps

_MOMENTS = 700
"""Four weeks of hours: more steps make no better forecast, and cost."""
_AHEAD_MS = 86_400_000
_DRAWN = 12


def settings(request: JobRequest) -> Mapping[str, Any]:
    """Numbers in the rules."""
    return {"step_s": step_ms_of(request, _MOMENTS) / 1_000, "ahead_s": _AHEAD_MS / 1_000}


def compute(records: DataFrame, request: JobRequest, moment: Moment, steps: Steps) -> Computed:
    """One row for each series, and the points of those with the largest values."""
    step_ms = step_ms_of(request, _MOMENTS)
    series = rate_series(topic_loads(records, step_ms)).unionByName(lag_series(records, step_ms))
    whole = series.where(F.col("moment_ms") + step_ms <= moment.as_of_ms)  # the step under way is no measurement yet
    found = forecasts(whole, step_ms, moment.as_of_ms + _AHEAD_MS).cache()
    is_ahead = F.col("low").isNotNull()
    summary = found.groupBy("name").agg(
        *(F.first(name).alias(name) for name in ("model", "mase", "mase_seasonal_naive", "points")),
        F.min_by(F.when(is_ahead, F.col("value")), F.when(is_ahead, F.col("moment_ms"))).alias("next_hour"),
        F.max(F.when(is_ahead, F.col("value"))).alias("next_day_peak"),
        F.max("value").alias("peak"),
    )
    rows = [row.asDict() for row in summary.orderBy(F.desc("peak"), "name").collect()]
    steps.done(f"forecast {len(rows):,} series")
    drawn = [row["name"] for row in rows[:_DRAWN]]
    points = found.where(F.col("name").isin(drawn)).select("name", "moment_ms", "value", "low", "high")
    tables: dict[str, list[Row]] = {
        "series": rows,
        "forecast": [row.asDict() for row in points.orderBy("name", "moment_ms").collect()],
    }
    found.unpersist()
    return Computed(tables=tables, totals={name: len(each) for name, each in tables.items()})
