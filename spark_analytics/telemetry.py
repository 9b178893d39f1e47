"""Telemetry as columns: the bytes of `/system/telemetry` -> one typed row a record (`docs/formats/telemetry.md`)."""

from typing import Final

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F  # noqa: N812 - the name that every user of Spark knows it by

from danube.model.lag.records import ADDED_UP, AS_TOLD
from danube.model.limits.faces import LAG_NUMBER_END
from danube.model.records.telemetry import KINDS, VERSION

SKIPPED: Final = "skipped"
_CORRUPT, _OTHER, _SOUND = "_corrupt", "_is_other", "_is_sound"
_RECORD: Final = (
    "version BIGINT, kind STRING, broker_id STRING, start_id STRING, sequence BIGINT, at_ms BIGINT, full BOOLEAN,"
    " gone BOOLEAN"
)
_SUBSCRIPTION: Final = (
    "topic STRING, topic_id STRING, subscription STRING, subscription_id STRING, type STRING, consumers BIGINT,"
    " consumers_known BIGINT, messages_out BIGINT, dropped BIGINT, start_offset BIGINT, head BIGINT, position BIGINT,"
    " acknowledged_beyond BIGINT, lag_messages BIGINT, in_flight BIGINT, waiting BIGINT, ready BIGINT,"
    " redelivered BIGINT, nacked BIGINT, oldest_unread_append_ms BIGINT, head_append_ms BIGINT, blocked BIGINT"
)


def telemetry_records(messages: DataFrame, seen: Observation | None = None) -> DataFrame:
    """Each record once, typed, from the column `value` (bytes) of messages of the topic.

    Left out: what is no such JSON object, other versions and kinds, and what at-least-once delivery brought twice.
    Fields of the kinds `broker` and `topic` that lag does not ask for are not read. `seen` is told how many messages
    are no records, as SKIPPED.
    """
    text = F.try_validate_utf8(F.col("value").cast("string"))
    schema = f"{_RECORD}, {_SUBSCRIPTION}, {_CORRUPT} STRING"
    parsed = messages.select(F.from_json(text, schema, {"columnNameOfCorruptRecord": _CORRUPT}).alias("record"))
    is_other = F.coalesce((F.col("version") != VERSION) | ~F.col("kind").isin(*KINDS), F.lit(col=False))
    is_sound = (
        F.col(_CORRUPT).isNull()
        & F.col("version").isNotNull()
        & F.col("kind").isNotNull()
        & _are_there("broker_id", "start_id", "sequence", "at_ms")
        & _are_numbers("sequence", "at_ms")
    )
    judged = parsed.select("record.*").withColumns({_OTHER: is_other, _SOUND: is_sound})
    if seen is not None:
        judged = judged.observe(seen, F.count_if(~F.col(_OTHER) & ~F.col(_SOUND)).alias(SKIPPED))
    records = judged.where(~F.col(_OTHER) & F.col(_SOUND)).drop(_CORRUPT, _OTHER, _SOUND)
    return records.dropDuplicates(["broker_id", "start_id", "sequence"])


def subscription_records(records: DataFrame) -> DataFrame:
    """The observations of subscriptions: `danube.model.lag.verdict.Observation`, a column a field, and whose they are.

    The times are as told; `spark_analytics/jobs/lag.py` puts them in order.
    """
    observed = records.where(
        (F.col("kind") == "subscription")
        & _are_there("topic", "topic_id", "subscription", "subscription_id")
        & F.col("topic").rlike("^/[^/]+/[^/]+$")
        & _are_numbers("at_ms", "sequence", "consumers", *ADDED_UP, *AS_TOLD)
    )
    return observed.select(
        "topic",
        "subscription",
        "at_ms",
        "broker_id",
        "start_id",
        "sequence",
        F.coalesce("gone", F.lit(col=False)).alias("gone"),
        "topic_id",
        "subscription_id",
        F.col("head").isNotNull().alias("kept"),
        F.coalesce("consumers", F.lit(0)).alias("consumers"),
        *(F.coalesce(name, F.lit(0)).alias(name) for name in ADDED_UP),
        *AS_TOLD,
    )


def _are_numbers(*names: str) -> Column:
    """True where each is null or a number that a broker can send: larger ones overflow when they are added up."""
    found = F.lit(col=True)
    for name in names:
        found &= F.coalesce(F.col(name), F.lit(0)).between(0, LAG_NUMBER_END - 1)
    return found


def _are_there(*names: str) -> Column:
    found = F.lit(col=True)
    for name in names:
        found &= F.col(name).isNotNull()
    return found
