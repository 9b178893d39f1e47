"""Telemetry as columns: the bytes of `/system/telemetry` -> one typed row a record (`docs/formats/telemetry.md`).

The columns are the fields of `danube/model/records/telemetry.py`, so a new field there is a new column here.
"""

from collections.abc import Mapping
from typing import Final, get_args, get_origin, get_type_hints

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F  # noqa: N812 - the name that every user of Spark knows it by

from danube.model.lag.records import ADDED_UP, AS_TOLD, LISTS
from danube.model.limits.faces import LAG_NUMBER_END
from danube.model.records.telemetry import KINDS, VERSION, Stamp

SKIPPED: Final = "skipped"
RAW: Final = "raw"
"""The record as it came, where it has fields that this version does not know; else null."""
_CORRUPT, _OTHER, _SOUND = "_corrupt", "_is_other", "_is_sound"
_SPARK_TYPES: Final = {int: "BIGINT", float: "DOUBLE", str: "STRING", bool: "BOOLEAN"}


def _column_types(of: type) -> dict[str, str]:
    hints = get_type_hints(of)
    return {name: _spark_type((get_args(hint) or (hint,))[0]) for name, hint in hints.items()}


def _spark_type(of: type) -> str:
    if get_origin(of) is tuple:  # of tuples of numbers and words
        fields = _column_types(get_args(of)[0])
        return f"ARRAY<STRUCT<{', '.join(f'{name}: {kind}' for name, kind in fields.items())}>>"
    return _SPARK_TYPES[of]


COLUMNS: Final[Mapping[str, str]] = {
    "version": "BIGINT",
    "kind": "STRING",
    **_column_types(Stamp),
    **{name: kind for reading in KINDS.values() for name, kind in _column_types(reading).items()},
}
"""Each column with its type: of the record, then of all kinds; null where a kind does not have it."""
SCHEMA: Final = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())


def telemetry_records(messages: DataFrame, seen: Observation | None = None) -> DataFrame:
    """Each record once, typed, from the column `value` (bytes) of messages of the topic.

    Left out: what is no such JSON object, other versions and kinds, and what at-least-once delivery brought twice.
    `seen` is told how many messages are no records, as SKIPPED.
    """
    return typed_records(messages, seen).drop(RAW).dropDuplicates(["broker_id", "start_id", "sequence"])


def typed_records(messages: DataFrame, seen: Observation | None = None) -> DataFrame:
    """The same with RAW, and with what was delivered twice."""
    text = F.try_validate_utf8(F.col("value").cast("string"))
    schema = f"{SCHEMA}, {_CORRUPT} STRING"
    options = {"columnNameOfCorruptRecord": _CORRUPT}
    parsed = messages.select(F.from_json(text, schema, options).alias("record"), text.alias("text"))
    is_other = F.coalesce((F.col("version") != VERSION) | ~F.col("kind").isin(*KINDS), F.lit(col=False))
    is_sound = (
        F.col(_CORRUPT).isNull()
        & F.col("version").isNotNull()
        & F.col("kind").isNotNull()
        & _are_there("broker_id", "start_id", "sequence", "at_ms")
        & _are_numbers("sequence", "at_ms")
    )
    known = F.array(*map(F.lit, COLUMNS))
    is_new = F.coalesce(F.size(F.array_except(F.json_object_keys("text"), known)) > 0, F.lit(col=False))
    judged = parsed.select("record.*", "text").withColumns({_OTHER: is_other, _SOUND: is_sound})
    if seen is not None:
        judged = judged.observe(seen, F.count_if(~F.col(_OTHER) & ~F.col(_SOUND)).alias(SKIPPED))
    sound = judged.where(~F.col(_OTHER) & F.col(_SOUND))
    return sound.withColumn(RAW, F.when(is_new, F.col("text"))).drop(_CORRUPT, _OTHER, _SOUND, "text")


def subscription_records(records: DataFrame) -> DataFrame:
    """The observations of subscriptions: `danube.model.lag.verdict.Observation`, a column a field, and whose they are.

    The times are as told; `danube.model.lag.rules.in_order` puts them in order.
    """
    observed = records.where(
        (F.col("kind") == "subscription")
        & _are_there("topic", "topic_id", "subscription", "subscription_id")
        & F.col("topic").rlike("^/[^/]+/[^/]+$")
        & _are_numbers("at_ms", "sequence", "consumers", *ADDED_UP, *AS_TOLD)
        & F.forall(F.coalesce("silent", F.array()), _is_silent)
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
        *LISTS,
    )


def _are_numbers(*names: str) -> Column:
    """True where each is null or a number that a broker can send: larger ones overflow when they are added up."""
    found = F.lit(col=True)
    for name in names:
        found &= F.coalesce(F.col(name), F.lit(0)).between(0, LAG_NUMBER_END - 1)
    return found


def _is_silent(told: Column) -> Column:
    numbers = F.array(told["since_ms"], told["in_flight"], F.coalesce(told["offset"], F.lit(0)))
    return told["name"].isNotNull() & F.forall(numbers, lambda each: each.between(0, LAG_NUMBER_END - 1))


def _are_there(*names: str) -> Column:
    found = F.lit(col=True)
    for name in names:
        found &= F.col(name).isNotNull()
    return found
