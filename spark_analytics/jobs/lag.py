"""Consumer lag on Spark: the rules of `danube/model/lag/rules.py` as columns, for one time or for many.

Each function answers a column or a DataFrame and reads nothing. A subscription's records are gathered into one sorted
array, and higher-order functions judge it: no user-defined function, so nothing leaves the JVM. The names are those of
the Python rules, which say where each formula comes from; `tests/spark/jobs` holds both to the same verdicts.
"""

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - the name that every user of Spark knows it by

from danube.model.lag.verdict import SEVERITY, LagPolicy
from spark_analytics.jobs.lag_rules import cause_of, eta_of, going_on, status_of, time_lag
from spark_analytics.telemetry import subscription_records

VERDICT = (
    "status",
    "rule",
    "cause",
    "broker_id",
    "observed_ms",
    "consumers",
    "lag_messages",
    "lag_s",
    "lag_method",
    "arrival_rate",
    "consume_rate",
    "rate_window_s",
    "eta_s",
    "eta_reason",
    "start_offset",
    "position",
    "head",
    "retention_margin",
    "retention_ratio",
    "messages_lost",
    "in_flight",
    "waiting",
    "ready",
    "blocked",
    "looks",
    "commits",
    "commit_age_s",
    "arrived",
    "acknowledged",
    "nacked",
    "redelivered",
)
"""The columns of a verdict: the fields of `LagVerdict`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """When to judge: from the first to the last time, both included, in steps; milliseconds by the brokers' clocks."""

    first_ms: int
    last_ms: int
    step_ms: int = 60_000

    @classmethod
    def at(cls, at_ms: int) -> "Times":
        """One time."""
        return cls(first_ms=at_ms, last_ms=at_ms)


def lag_partitions(records: DataFrame, times: Times, policy: LagPolicy) -> DataFrame:
    """Telemetry records (`telemetry_records`) -> a row for each time, topic and subscription that was there then.

    Columns: `as_of_ms`, `topic`, `subscription`, and those of VERDICT.
    """
    history = _histories(subscription_records(records), times, policy)
    judged = _judged(_with_looks(history, policy), policy)
    return _without_deserted(judged, records, times, policy)


def lag_groups(partitions: DataFrame, policy: LagPolicy) -> DataFrame:
    """Rows of `lag_partitions` -> a row for each time, base topic and subscription (`danube.model.lag.group`)."""
    severity = F.col("severity")
    lag = F.coalesce("lag_messages", F.lit(-1))
    worst = F.min(F.struct(-severity, -1 - lag, "topic", "subscription", "status", "rule", "cause"))
    pins = F.struct(
        F.col("eta_s").isNotNull(),
        -F.coalesce("eta_s", F.lit(0.0)),
        -1 - F.coalesce("lag_messages", F.lit(0)),
        "topic",
        "eta_s",
        "eta_reason",
    )
    oldest = F.struct(-F.coalesce("lag_s", F.lit(-1.0)), "topic", "lag_s", "lag_method")
    groups = partitions.withColumn("base", base_of(F.col("topic"))).withColumn("severity", _severity(F.col("status")))
    found = groups.groupBy("as_of_ms", F.col("base").alias("group_topic"), "subscription").agg(
        worst.alias("worst"),
        F.min(pins).alias("pinning"),
        F.min(oldest).alias("oldest"),
        F.count("*").alias("partitions"),
        (F.sum((F.col("looks") == policy.intervals).cast("bigint")) / F.count("*")).alias("complete"),
        F.sum("consumers").alias("consumers"),
        F.sum("lag_messages").alias("lag_messages"),
        _total("arrival_rate"),
        _total("consume_rate"),
        F.max("rate_window_s").alias("rate_window_s"),
        F.min("retention_margin").alias("retention_margin"),
        F.max("retention_ratio").alias("retention_ratio"),
        F.sum("messages_lost").alias("messages_lost"),
        F.sum("blocked").alias("blocked"),
    )
    return found.select(
        "as_of_ms",
        F.col("group_topic").alias("topic"),
        "subscription",
        *(F.col(f"worst.{name}").alias(name) for name in ("status", "rule", "cause")),
        F.col("worst.topic").alias("worst_partition"),
        *("partitions", "complete", "consumers", "lag_messages"),
        *(F.col(f"oldest.{name}").alias(name) for name in ("lag_s", "lag_method")),
        *("arrival_rate", "consume_rate", "rate_window_s"),
        *(F.col(f"pinning.{name}").alias(name) for name in ("eta_s", "eta_reason")),
        F.col("pinning.topic").alias("eta_partition"),
        *("retention_margin", "retention_ratio", "messages_lost", "blocked"),
    )


def worst_first(rows: DataFrame) -> DataFrame:
    """Rows of either kind by status, then by lag, as `danube.model.lag.group.worst_first`."""
    lag = F.coalesce("lag_messages", F.lit(-1))
    return rows.orderBy("as_of_ms", _severity(F.col("status")).desc(), lag.desc(), "topic", "subscription")


def base_of(topic: Column) -> Column:
    """The partitioned topic behind a name, or the name: `danube.model.lag.group.base_of`."""
    base = F.regexp_extract(topic, r"^(/[^/]+/.+)-part-(?:0|[1-9][0-9]*)$", 1)
    return F.when(base == "", topic).otherwise(base)


def _histories(observed: DataFrame, times: Times, policy: LagPolicy) -> DataFrame:
    """For each time and subscription: `recent`, its records in order, up to the newest that holds; `last`, that one."""
    later = Window.partitionBy("topic", "subscription", "start_id").orderBy(F.desc("sequence"))
    in_order = observed.withColumn("at_ms", F.min("at_ms").over(later.rowsBetween(Window.unboundedPreceding, 0)))
    fields = ["at_ms", "start_id", "sequence", *(name for name in observed.columns if name not in _KEYS)]
    told = _at_each_time(in_order, times, policy).groupBy("as_of_ms", "topic", "subscription")
    recent = told.agg(F.sort_array(F.collect_list(F.struct(*fields))).alias("recent"))
    gone = recent.withColumn("gone", F.filter("recent", lambda one: one["gone"]))
    holding = gone.withColumn("last", F.try_element_at(F.filter("recent", _holds(F.col("gone"))), F.lit(-1)))
    return holding.where(F.col("last").isNotNull()).select(
        "as_of_ms",
        "topic",
        "subscription",
        "last",
        F.filter("recent", _belongs_to(F.col("last"))).alias("history"),
    )


_KEYS = ("topic", "subscription", "at_ms", "start_id", "sequence")


def _holds(gone: Column) -> Callable[[Column], Column]:
    """True unless a later record of the same broker start says that the subscription is gone."""

    def holds(one: Column) -> Column:
        ended = F.exists(gone, lambda end: (end["start_id"] == one["start_id"]) & (end["sequence"] >= one["sequence"]))
        return ~one["gone"] & ~ended

    return holds


def _belongs_to(last: Column) -> Callable[[Column], Column]:
    """True for a record of the same topic and subscription ids that is not after the newest one that holds."""

    def belongs(one: Column) -> Column:
        same = (one["topic_id"] == last["topic_id"]) & (one["subscription_id"] == last["subscription_id"])
        return ~one["gone"] & same & (_order(one) <= _order(last))

    return belongs


def _order(one: Column) -> Column:
    return F.struct(one["at_ms"], one["start_id"], one["sequence"])


def _at_each_time(rows: DataFrame, times: Times, policy: LagPolicy) -> DataFrame:
    """Each row once for each time that still remembers it: at <= time < at + history."""
    first, step = F.lit(times.first_ms), times.step_ms
    at, memory_ms = F.col("at_ms"), round(policy.history_s * 1_000)
    begin = first + F.greatest(F.lit(0), F.ceil((at - first) / step)) * step
    end = F.least(F.lit(times.last_ms), at + memory_ms - 1)
    bounded = rows.withColumn("begin", begin.cast("bigint")).withColumn("end", end.cast("bigint"))
    seen = bounded.where(F.col("begin") <= F.col("end"))
    each = F.explode(F.sequence("begin", "end", F.lit(step).cast("bigint")))
    return seen.withColumn("as_of_ms", each).drop("begin", "end")


def _with_looks(histories: DataFrame, policy: LagPolicy) -> DataFrame:
    """`looks`, those of the window, and `commits`, the newest of them: `danube.model.lag.rules._looks`."""
    count, interval_ms = 2 * policy.intervals, policy.interval_ms
    as_of = F.col("as_of_ms")
    times = F.transform(
        F.sequence(F.lit(0), F.lit(count - 1)), lambda number: as_of - (count - 1 - number) * F.lit(interval_ms)
    )
    seen = F.transform(
        times,
        lambda at: F.struct(
            at.alias("at_ms"),
            F.try_element_at(F.filter("history", lambda one: one["at_ms"] <= at), F.lit(-1)).alias("seen"),
        ),
    )
    looks = F.filter(seen, lambda look: look["seen"].isNotNull())
    with_all = histories.withColumn("all_looks", looks)
    commits = F.transform("all_looks", _marked_commit)
    with_commits = with_all.withColumn("all_commits", F.filter(commits, lambda look: look["is_commit"]))
    newest = F.greatest(F.size("all_commits") - policy.intervals + 1, F.lit(1))
    window = F.filter("all_looks", lambda look: look["at_ms"] >= as_of - policy.window_ms)
    return with_commits.select(
        *("as_of_ms", "topic", "subscription", "last", "history"),
        window.alias("window"),
        F.slice("all_commits", newest, policy.intervals).alias("commit_looks"),
    )


def _marked_commit(look: Column, number: Column) -> Column:
    before = F.get(F.col("all_looks"), number - 1)["seen"]
    seen = look["seen"]
    moved = (before["position"] != seen["position"]) | (before["acknowledged_beyond"] != seen["acknowledged_beyond"])
    is_commit = (seen["consumers"] > 0) | F.coalesce(moved, F.lit(col=False))
    return F.struct(look["at_ms"].alias("at_ms"), seen.alias("seen"), is_commit.alias("is_commit"))


def _judged(looked: DataFrame, policy: LagPolicy) -> DataFrame:
    """The columns of VERDICT, a layer at a time: each stands on the one before."""
    last = F.col("last")
    kept = last["kept"]
    silent = F.col("as_of_ms") - last["at_ms"] > round(policy.silent_after_s * 1_000)
    numbers = looked.select(
        *("as_of_ms", "topic", "subscription", "last", "window", "commit_looks"),
        kept.alias("kept"),
        silent.alias("silent"),
        last["broker_id"].alias("broker_id"),
        last["at_ms"].alias("observed_ms"),
        last["consumers"].alias("consumers"),
        *(F.when(kept, last[name]).alias(name) for name in _TOLD),
        time_lag(last, F.col("history"), F.col("as_of_ms")).alias("time_lag"),
        F.when(kept, last["position"] - last["start_offset"]).alias("retention_margin"),
        F.when(
            kept & (last["head"] > last["start_offset"]),
            F.try_divide(last["head"] - last["position"], last["head"] - last["start_offset"]),
        ).alias("retention_ratio"),
        F.when(kept, F.greatest(F.lit(0), last["start_offset"] - last["position"])).alias("messages_lost"),
    )
    moving = going_on(numbers)
    rated = moving.withColumn("eta", eta_of())
    stated = rated.withColumn("state", status_of(policy))
    return stated.select("as_of_ms", "topic", "subscription", *_verdict_columns(policy))


_TOLD = ("lag_messages", "start_offset", "position", "head", "in_flight", "waiting", "ready", "blocked")


def _verdict_columns(policy: LagPolicy) -> list[Column]:
    derived = {
        "status": F.col("state.status"),
        "rule": F.col("state.rule"),
        "cause": cause_of(policy),
        "lag_s": F.when(F.col("kept"), F.col("time_lag.lag_s")),
        "lag_method": F.when(F.col("kept"), F.col("time_lag.lag_method")).otherwise("unknown"),
        "eta_s": F.col("eta.eta_s"),
        "eta_reason": F.col("eta.eta_reason"),
    }
    return [derived.get(name, F.col(name)).alias(name) for name in VERDICT]


def _without_deserted(judged: DataFrame, records: DataFrame, times: Times, policy: LagPolicy) -> DataFrame:
    """Leave out what its broker has not spoken of for two full rounds, while it spoke of others: it is gone."""
    told = records.select("broker_id", "at_ms").distinct()
    heard = _at_each_time(told, times, policy).groupBy("as_of_ms", "broker_id").agg(F.max("at_ms").alias("heard_ms"))
    silent_ms = round(policy.silent_after_s * 1_000)
    known = judged.join(heard, ["as_of_ms", "broker_id"], "left")
    return known.where(F.coalesce(F.col("heard_ms") - F.col("observed_ms"), F.lit(0)) <= silent_ms).select(
        *("as_of_ms", "topic", "subscription", *VERDICT)
    )


def _severity(status: Column) -> Column:
    return F.create_map(*(F.lit(part) for name, rank in SEVERITY.items() for part in (str(name), rank)))[status]


def _total(name: str) -> Column:
    return F.when(F.count(name) == F.count("*"), F.sum(name)).alias(name)
