"""Load over time on Spark: a row for each time, broker and topic, and what `danube.loadmgr` says of each time.

Rates come from counters that count from a broker's start: a difference of two records of one start belongs to the time
of the later one. The scores, the imbalance and the plans are those of `danube.loadmgr`, applied by workers to one time
after the other; nothing is defined anew here.
"""

from collections.abc import Iterable
from typing import Any, TypeAlias

import pandas as pd  # type: ignore[import-untyped]
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - the name that every user of Spark knows it by

from danube.loadmgr.goal import Goal
from spark_analytics.jobs.balance_moments import MOMENT_SCHEMA, OPTIONAL, BrokerNumbers, TopicNumbers, judge_moment

Frame: TypeAlias = Any  # pandas has no types here

_COUNTERS = ("messages_in", "bytes_in")
_IS_TOPIC = "is_topic"


def broker_loads(records: DataFrame, step_ms: int) -> DataFrame:
    """Records of kind `broker` -> a row for each time and broker: what it used and has."""
    own = records.where(F.col("kind") == "broker").withColumn("moment_ms", _moment(step_ms))
    earlier = Window.partitionBy("broker_id", "start_id").orderBy("sequence")
    used = own.withColumns({"cpu": _grown("cpu_s", earlier), "passed_s": _passed_s(earlier)})
    return used.groupBy("moment_ms", "broker_id").agg(
        F.try_divide(F.sum("cpu"), F.sum("passed_s")).alias("cores_used"),
        F.max("rss_bytes").alias("rss_bytes"),
        F.max(F.col("segment_bytes") + F.col("journal_size_bytes")).alias("disk_used_bytes"),
        F.min("disk_free_bytes").alias("disk_free_bytes"),
        *(F.max(name).alias(name) for name in OPTIONAL if name in records.columns),
    )


def topic_loads(records: DataFrame, step_ms: int) -> DataFrame:
    """Records of topics and subscriptions -> a row for each time, broker and topic: rates of a second, and sizes."""
    alive = records.where(~F.coalesce("gone", F.lit(col=False))).withColumn("moment_ms", _moment(step_ms))
    topics = alive.where((F.col("kind") == "topic") & ~F.col("topic").startswith("/system/"))
    earlier = Window.partitionBy("broker_id", "start_id", "topic", "topic_id").orderBy("sequence")
    grown = topics.withColumns({name: _grown(name, earlier) for name in _COUNTERS})
    arrived = grown.groupBy("moment_ms", "broker_id", "topic").agg(
        *(F.sum(name).alias(name) for name in _COUNTERS),
        F.max("producers").alias("producers"),
        F.max("consumers").alias("consumers"),
        F.max("log_bytes").alias("log_bytes"),
        F.max("partition_base").alias("partition_base"),
    )
    sent = _sent(alive)
    both = arrived.join(sent, ["moment_ms", "broker_id", "topic"], "left")
    out = F.coalesce("messages_out", F.lit(0))
    size = F.coalesce(F.try_divide(F.col("bytes_in"), F.col("messages_in")), F.lit(0.0))
    seconds = step_ms / 1_000
    return both.select(
        "moment_ms",
        "broker_id",
        "topic",
        ((F.col("messages_in") + out) / seconds).alias("messages_per_s"),
        ((F.col("bytes_in") + out * size) / seconds).alias("bytes_per_s"),
        F.coalesce("producers", F.lit(0)).alias("producers"),
        F.coalesce("consumers", F.lit(0)).alias("consumers"),
        F.coalesce("log_bytes", F.lit(0)).alias("stored_bytes"),
        F.coalesce("partition_base", F.lit("")).alias("partition_base"),
    )


def moments(brokers: DataFrame, topics: DataFrame, goal: Goal) -> DataFrame:
    """Loads -> a row for each time: imbalance, band, peak to average, the busiest broker, and the plan it would get."""
    both = topics.withColumn(_IS_TOPIC, F.lit(col=True)).unionByName(
        brokers.withColumn(_IS_TOPIC, F.lit(col=False)), allowMissingColumns=True
    )

    def judged(rows: Frame) -> Frame:
        return _judged_moment(goal, rows)

    return both.groupBy("moment_ms").applyInPandas(judged, MOMENT_SCHEMA)


def percentile_loads(brokers: DataFrame, topics: DataFrame, percentile: float) -> tuple[DataFrame, DataFrame]:
    """Loads over the whole time at a percentile, each topic on the broker that had it last; one time, 0."""

    def at(name: str) -> Column:
        return F.percentile_approx(name, percentile, 1_000).alias(name)

    rates = [at(name) for name in ("messages_per_s", "bytes_per_s")]
    newest = [
        F.max_by(name, "moment_ms").alias(name)
        for name in ("broker_id", "producers", "consumers", "stored_bytes", "partition_base")
    ]
    of_topics = topics.groupBy("topic").agg(*rates, *newest, F.max("moment_ms").alias("seen_ms"))
    sizes = [
        F.max_by(name, "moment_ms").alias(name)
        for name in (*OPTIONAL, "rss_bytes", "disk_used_bytes", "disk_free_bytes")
        if name in brokers.columns
    ]
    of_brokers = brokers.groupBy("broker_id").agg(at("cores_used"), *sizes, F.max("moment_ms").alias("seen_ms"))
    zero = F.lit(0).cast("bigint").alias("moment_ms")
    return of_brokers.select("*", zero), of_topics.select("*", zero)


def _sent(alive: DataFrame) -> DataFrame:
    earlier = Window.partitionBy("broker_id", "start_id", "topic", "topic_id", "subscription", "subscription_id")
    subscriptions = alive.where(F.col("kind") == "subscription")
    grown = subscriptions.withColumn("messages_out", _grown("messages_out", earlier.orderBy("sequence")))
    return grown.groupBy("moment_ms", "broker_id", "topic").agg(F.sum("messages_out").alias("messages_out"))


def _moment(step_ms: int) -> Column:
    return (F.floor(F.col("at_ms") / step_ms) * step_ms).cast("bigint")


def _grown(counter: str, earlier: Any) -> Column:  # noqa: ANN401 - Spark's window has two types
    before = F.lag(counter).over(earlier)
    return F.greatest(F.lit(0), F.col(counter) - before)


def _passed_s(earlier: Any) -> Column:  # noqa: ANN401 - the same
    return F.greatest(F.lit(0), F.col("at_ms") - F.lag("at_ms").over(earlier)) / 1_000


def _judged_moment(goal: Goal, rows: Frame) -> Frame:
    """The row of one moment."""
    brokers, topics = rows[~rows[_IS_TOPIC]], rows[rows[_IS_TOPIC]]
    row = judge_moment(
        [BrokerNumbers.of(one) for one in _rows(brokers)], [TopicNumbers.of(one) for one in _rows(topics)], goal
    )
    return pd.DataFrame([{"moment_ms": int(rows["moment_ms"].iloc[0]), **row}])


def _rows(frame: Frame) -> Iterable[dict[str, Any]]:
    found: list[dict[str, Any]] = frame.astype(object).where(frame.notna(), None).to_dict("records")
    return found
