"""Consumer lag on Spark: the rules of `danube.model.lag` applied to one subscription after the other, in Arrow batches.

Each function answers a column or a DataFrame and reads nothing. Records of a subscription come together and in order;
a worker judges them at every moment that is asked for (`danube.model.lag.history`).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from enum import StrEnum
from functools import partial
from operator import attrgetter
from typing import Any, TypeAlias, get_args, get_type_hints

import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that every user of Spark knows it by

from danube.model.lag.history import OLD_LAG_S, Times, judge_history
from danube.model.lag.verdict import SEVERITY, LagCause, LagPolicy, LagStatus, LagVerdict, Observation
from danube.model.records.telemetry import SilentConsumer
from spark_analytics.telemetry import subscription_records

RecordBatch: TypeAlias = Any  # pyarrow has no types

VERDICT = tuple(LagVerdict.__dataclass_fields__)
"""The columns of a verdict: the fields of `LagVerdict`."""
_VALUES = attrgetter(*VERDICT)
_SPARK_TYPES = {int: "BIGINT", float: "DOUBLE"}
_ARROW_TYPES = {"BIGINT": pa.int64(), "DOUBLE": pa.float64(), "STRING": pa.string()}


def verdict_types(of: type) -> dict[str, str]:
    """Spark's type of each field of numbers and words."""
    hints = {name: (get_args(hint) or (hint,))[0] for name, hint in get_type_hints(of).items()}
    return {name: _SPARK_TYPES.get(hint, "STRING") for name, hint in hints.items()}


_COLUMNS = {"as_of_ms": "BIGINT", "topic": "STRING", "subscription": "STRING", **verdict_types(LagVerdict)}
_SCHEMA = ", ".join(f"{name} {kind}" for name, kind in _COLUMNS.items())
_ARROW_SCHEMA = pa.schema([pa.field(name, _ARROW_TYPES[kind]) for name, kind in _COLUMNS.items()])
_ROWS_AT_ONCE = 5_000
_SPAN_MS = 6 * 3_600_000
"""A worker judges one subscription over so long at once: bounds its memory, and shares a long history among workers."""
_KEY = ("topic", "subscription", "span")


def lag_partitions(records: DataFrame, times: Times, policy: LagPolicy) -> DataFrame:
    """Telemetry records (`telemetry_records`) -> a row for each time, topic and subscription that was there then.

    Columns: `as_of_ms`, `topic`, `subscription`, and those of VERDICT.
    """
    remembered = _remembered(records, times, policy)
    observed = _in_spans(subscription_records(remembered), policy)
    together = observed.repartition(*_KEY).sortWithinPartitions(*_KEY)
    judged = together.mapInArrow(partial(_judged, times, policy), _SCHEMA)
    return _without_deserted(judged, remembered, times, policy)


def lag_groups(partitions: DataFrame, policy: LagPolicy, plain: Sequence[str] = ()) -> DataFrame:
    """Rows of `lag_partitions` -> a row for each time, base topic and subscription (`danube.model.lag.group`).

    `plain` are `plain_topics`.
    """
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
    groups = partitions.withColumn("base", base_of(F.col("topic"), plain))
    groups = groups.withColumn("severity", _severity(F.col("status")))
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
    """Rows of either kind by harm, then by name: `danube.model.lag.group.harm`."""
    rank = F.greatest(F.lit(0), F.lit(SEVERITY[LagStatus.WARN]) - _severity(F.col("status")))
    loses = (rank == 0) & (F.coalesce("cause", F.lit("")) == str(LagCause.DATA_LOSS))
    doublings = F.when(rank > 1, F.lit(0)).otherwise(F.length(F.bin(1 + F.coalesce("lag_messages", F.lit(-1)))))
    return rows.orderBy("as_of_ms", rank, loses.desc(), doublings.desc(), "topic", "subscription")


def plain_topics(records: DataFrame) -> list[str]:
    """Topics that are no partitions, though they have such names: `danube.model.records.telemetry.plain_topics`."""
    topic = F.col("topic")
    found = records.where((F.col("kind") == "topic") & F.col("partition_base").isNull() & (base_of(topic) != topic))
    return [row.topic for row in found.select("topic").distinct().collect()]


def base_of(topic: Column, plain: Sequence[str] = ()) -> Column:
    """The partitioned topic behind a name, or the name: `danube.model.lag.group.base_of`."""
    base = F.regexp_extract(topic, r"^(/[^/]+/.+)-part-(?:0|[1-9][0-9]*)$", 1)
    return F.when((base == "") | topic.isin(*plain), topic).otherwise(base)


def _remembered(records: DataFrame, times: Times, policy: LagPolicy) -> DataFrame:
    """Without what no moment remembers: of a long history with few moments most records go before Python sees them."""
    memory_ms = round(policy.history_s * 1_000)
    if times.step_ms <= memory_ms and times.first_ms < times.last_ms:
        return records
    at, first = F.col("at_ms"), F.lit(times.first_ms)
    steps = F.greatest(F.lit(0), F.ceil((at - first) / times.step_ms))
    moment = first + steps * times.step_ms
    remembers = (moment < at + memory_ms) & (moment <= times.last_ms)
    if times.close_ms is not None:
        is_old = at - F.col("oldest_unread_append_ms") >= round(OLD_LAG_S * 1_000)
        remembers |= F.coalesce(is_old, F.lit(col=False)) | (F.coalesce("blocked", F.lit(0)) > 0)
    return records.where(remembers)


def _in_spans(observed: DataFrame, policy: LagPolicy) -> DataFrame:
    """Each observation in its span of time, and in the next one where that still remembers it."""
    last = F.col("at_ms") + round(policy.history_s * 1_000)
    spans = F.sequence(F.floor(F.col("at_ms") / _SPAN_MS), F.floor(last / _SPAN_MS))
    rest = [name for name in observed.columns if name not in _KEY]
    return observed.select("topic", "subscription", F.explode(spans).alias("span"), *rest)


def _judged(times: Times, policy: LagPolicy, batches: Iterable[RecordBatch]) -> Iterator[RecordBatch]:
    rows: list[tuple[object, ...]] = []
    for (topic, subscription, span), observations in _subscriptions(batches):
        first_ms = span * _SPAN_MS
        for at_ms, verdict in judge_history(observations, times, policy, (first_ms, first_ms + _SPAN_MS - 1)):
            rows.append((at_ms, topic, subscription, *map(_plain, _VALUES(verdict))))
            if len(rows) >= _ROWS_AT_ONCE:
                yield _arrow(rows)
                rows = []
    if rows:
        yield _arrow(rows)


def _subscriptions(batches: Iterable[RecordBatch]) -> Iterator[tuple[tuple[str, str, int], list[Observation]]]:
    """Observations of one subscription and span after the other, whatever batches they are in."""
    key, found = None, list[Observation]()
    for batch in batches:
        keys = zip(*(_values(batch[name]) for name in _KEY), strict=True)
        values = zip(*(_values(batch[name]) for name in Observation._fields), strict=True)
        for own, observation in zip(keys, map(Observation._make, values), strict=True):
            if own != key:
                if key is not None:
                    yield key, found
                key, found = own, []
            found.append(observation)
    if key is not None:
        yield key, found


def _values(column: Any) -> list[Any]:  # noqa: ANN401 - pyarrow has no types
    """The values of a column; each text, of which a batch has few, is made once."""
    if pa.types.is_list(column.type):
        return [each and tuple(SilentConsumer(**one) for one in each) for each in column.to_pylist()]
    if not pa.types.is_string(column.type):
        return list(column.to_pylist())
    coded = column.dictionary_encode()
    words = [*coded.dictionary.to_pylist(), None]
    return [words[-1 if index is None else index] for index in coded.indices.to_pylist()]


def _plain(value: object) -> object:
    return value.value if isinstance(value, StrEnum) else value


def _arrow(rows: Sequence[tuple[object, ...]]) -> RecordBatch:
    columns = zip(*rows, strict=True)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, _ARROW_SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=_ARROW_SCHEMA)


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


def _without_deserted(judged: DataFrame, records: DataFrame, times: Times, policy: LagPolicy) -> DataFrame:
    """Leave out what its broker has not spoken of for two full rounds, while it spoke of others: it is gone."""
    told = records.select("broker_id", "at_ms").distinct()
    each = _at_each_time(told, times, policy)
    if times.close_ms is not None:
        each = each.union(_at_each_time(told, replace(times, step_ms=times.close_ms), policy))
    heard = each.groupBy("as_of_ms", "broker_id").agg(F.max("at_ms").alias("heard_ms"))
    silent_ms = round(policy.silent_after_s * 1_000)
    known = judged.join(heard, ["as_of_ms", "broker_id"], "left")
    return known.where(F.coalesce(F.col("heard_ms") - F.col("observed_ms"), F.lit(0)) <= silent_ms).select(
        *("as_of_ms", "topic", "subscription", *VERDICT)
    )


def _severity(status: Column) -> Column:
    return F.create_map(*(F.lit(part) for name, rank in SEVERITY.items() for part in (str(name), rank)))[status]


def _total(name: str) -> Column:
    return F.when(F.count(name) == F.count("*"), F.sum(name)).alias(name)
