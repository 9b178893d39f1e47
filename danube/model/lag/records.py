"""Telemetry records -> the lag of every subscription at a time. Pure."""

from collections.abc import Iterable, Mapping

from danube.model.lag.group import PartitionLag
from danube.model.lag.rules import judge
from danube.model.lag.verdict import LagPolicy, LagVerdict, Observation
from danube.model.records.telemetry import Reading, Stamp, SubscriptionReading

Key = tuple[str, str]
"""Topic and subscription."""


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
        start_offset=reading.start_offset or 0,
        head=reading.head or 0,
        position=reading.position or 0,
        acknowledged_beyond=reading.acknowledged_beyond or 0,
        lag_messages=reading.lag_messages or 0,
        in_flight=reading.in_flight or 0,
        waiting=reading.waiting or 0,
        ready=reading.ready or 0,
        redelivered=reading.redelivered or 0,
        nacked=reading.nacked or 0,
        blocked=reading.blocked,
        oldest_unread_append_ms=reading.oldest_unread_append_ms,
        head_append_ms=reading.head_append_ms,
    )
