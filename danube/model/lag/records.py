"""Telemetry records -> the lag of every subscription at a time. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from danube.model.lag.group import PartitionLag
from danube.model.lag.rules import judge
from danube.model.lag.verdict import LagPolicy, LagVerdict, Observation
from danube.model.records.telemetry import Reading, Stamp, SubscriptionReading

Key = tuple[str, str]
"""Topic and subscription."""
ADDED_UP: Final = (
    "start_offset",
    "head",
    "position",
    "acknowledged_beyond",
    "lag_messages",
    "in_flight",
    "waiting",
    "ready",
    "redelivered",
    "nacked",
)
"""Numbers of a reading that are 0 where nothing is kept."""
AS_TOLD: Final = (
    *("oldest_unread_append_ms", "head_append_ms", "blocked"),
    *("acknowledged", "skipped", "expired", "trimmed", "seeks", "timed_out", "disconnected"),
    *("failures", "failed_offset", "failed_on"),
    *("dispatch_limit", "retention_deadline_ms", "retention_messages_left", "last_acknowledged_ms"),
)
"""Numbers of a reading where null is not 0."""
LISTS: Final = ("silent",)


def judge_all(records: Iterable[tuple[Stamp, Reading]], at_ms: int, policy: LagPolicy) -> list[PartitionLag]:
    """The verdict on each subscription that was there at `at_ms`, by topic and subscription."""
    told, heard = observations_of(records, at_ms)
    found = []
    for topic, subscription in sorted(told):
        verdict = judge(told[topic, subscription], at_ms, policy)
        if verdict is not None and verdict.observed_ms is not None and not deserted(verdict, heard, policy):
            found.append(PartitionLag(topic=topic, subscription=subscription, verdict=verdict))
    return found


def observations_of(
    records: Iterable[tuple[Stamp, Reading]], at_ms: int
) -> tuple[dict[Key, list[Observation]], dict[str, int]]:
    """Observations of each subscription, and the time of each broker's last record up to `at_ms`."""
    told: dict[Key, list[Observation]] = {}
    heard: dict[str, int] = {}
    for stamp, reading in records:
        if stamp.at_ms <= at_ms:
            heard[stamp.broker_id] = max(stamp.at_ms, heard.get(stamp.broker_id, 0))
        if isinstance(reading, SubscriptionReading):
            told.setdefault((reading.topic, reading.subscription), []).append(observation_of(stamp, reading))
    return told, heard


def deserted(verdict: LagVerdict, heard: Mapping[str, int], policy: LagPolicy) -> bool:
    """True when its broker left it out for two full rounds and reported others: then it is gone."""
    if verdict.broker_id is None or verdict.observed_ms is None:
        return False
    return heard.get(verdict.broker_id, 0) - verdict.observed_ms > policy.silent_after_s * 1_000


def observation_of(stamp: Stamp, reading: SubscriptionReading) -> Observation:
    """Observation that one record gives."""
    numbers: dict[str, Any] = {name: getattr(reading, name) or 0 for name in ADDED_UP}
    as_told: dict[str, Any] = {name: getattr(reading, name) for name in (*AS_TOLD, *LISTS)}
    return Observation(
        at_ms=stamp.at_ms,
        broker_id=stamp.broker_id,
        start_id=stamp.start_id,
        sequence=stamp.sequence,
        gone=stamp.gone,
        topic_id=reading.topic_id,
        subscription_id=reading.subscription_id,
        kept=reading.head is not None,
        consumers=reading.consumers,
        **numbers,
        **as_told,
    )
