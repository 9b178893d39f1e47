"""Lag without Spark: the telemetry of the last minutes and the present state, judged here.

The rules are those of the job (`danube/model/lag/rules.py`), so both answers agree. The present state closes the gap
since the last telemetry, and knows subscriptions that telemetry has not spoken of yet.
"""

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

from danube.admin.gateway import AdminGateway, SystemRecord
from danube.model.calls.admin import DescribeTopics, ReliableState, SubscriptionDescription, TopicDescription
from danube.model.errors import InvalidRequestError, UnsupportedError
from danube.model.lag.group import LagFilter, PartitionLag
from danube.model.lag.records import AS_TOLD, LISTS, Key, deserted, observations_of
from danube.model.lag.rules import judge
from danube.model.lag.verdict import LagPolicy, Observation
from danube.model.limits.broker import DESCRIBE_TOPICS_MAX
from danube.model.limits.faces import (
    LAG_LIVE_PAGES_MAX,
    LAG_LIVE_RECORDS_MAX,
    LAG_LIVE_SLICE_JUDGED,
    LAG_LIVE_SLICE_RECORDS,
)
from danube.model.records.telemetry import (
    TELEMETRY_TOPIC,
    Reading,
    Stamp,
    SubscriptionReading,
    decode_record,
    plain_topics,
)
from danube.model.topic import TopicName
from danube.runtime.clock import Clock


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveLag:
    """Lag that was judged live, and from how much."""

    as_of_ms: int
    partitions: list[PartitionLag]
    records: int
    """Of telemetry that were read."""
    skipped: int
    """That are no telemetry, and were left out."""
    is_whole: bool
    """Whether all telemetry of the time and all topics were read."""
    plain: Collection[str]
    """As in LagFilter."""
    not_answered: Sequence[str]
    """As `ClusterTopics.not_answered`."""


async def live_lag(gateway: AdminGateway, clock: Clock, wanted: LagFilter, policy: LagPolicy) -> LiveLag:
    """The lag of this moment, by the clocks of the brokers.

    Raises UnsupportedError for the original's brokers, NotFoundError, DanubeError.
    """
    since_ms = clock.now_ms() - round(policy.history_s * 1_000)
    stored = await gateway.system_records(TELEMETRY_TOPIC, since_ms=since_ms, limit=LAG_LIVE_RECORDS_MAX)
    topics, all_read, missing = await _topics(gateway, wanted)
    nows_ms = {str(topic.topic): topic.described_ms for topic in topics if topic.described_ms is not None}
    records, skipped = await _decoded(stored, wanted)
    wanted = replace(wanted, plain=plain_topics(records) | {str(each.topic) for each in topics if each.base is None})
    now_ms = max([*(nows_ms.values() or [clock.now_ms()]), *(stamp.at_ms for stamp, _ in records)])
    told, heard = await _observations(records, now_ms)
    _add_present(told, topics, wanted, now_ms)
    described = {topic.broker_id for topic in topics} if all_read else set()
    present = {(str(topic.topic), each.name) for topic in topics for each in topic.subscriptions}
    found = []
    for number, (topic, subscription) in enumerate(sorted(key for key in told if wanted.takes(*key))):
        if number % LAG_LIVE_SLICE_JUDGED == 0:
            await asyncio.sleep(0)
        verdict = judge(told[topic, subscription], nows_ms.get(topic, now_ms), policy)
        if verdict is None or (verdict.broker_id in described and (topic, subscription) not in present):
            continue
        if not deserted(verdict, heard, policy):
            found.append(PartitionLag(topic=topic, subscription=subscription, verdict=verdict))
    is_whole = all_read and len(stored) < LAG_LIVE_RECORDS_MAX
    return LiveLag(
        as_of_ms=now_ms,
        partitions=found,
        records=len(records),
        skipped=skipped,
        is_whole=is_whole,
        not_answered=missing,
        plain=wanted.plain,
    )


async def require_telemetry(gateway: AdminGateway) -> None:
    """Raise UnsupportedError for the original's brokers, which publish none."""
    connection = await gateway.connection()
    if not connection.is_ours:
        raise UnsupportedError(
            f"the broker at {connection.endpoint} is the original one and publishes no telemetry, so its lag cannot be"
            " judged: describe_topic and list_subscriptions show what it tells"
        )


async def _topics(gateway: AdminGateway, wanted: LagFilter) -> tuple[list[TopicDescription], bool, Sequence[str]]:
    """The topics that are asked for, whether those are all, and the brokers that did not answer."""
    topics = (TopicName.parse(wanted.topic),) if wanted.topic else ()
    found: list[TopicDescription] = []
    missing: dict[str, None] = {}
    after = None
    for _ in range(LAG_LIVE_PAGES_MAX):
        page = await gateway.describe_topics(
            DescribeTopics(namespace=wanted.namespace, topics=topics, page_size=DESCRIBE_TOPICS_MAX, after=after)
        )
        found += page.topics
        missing |= dict.fromkeys(page.not_answered)
        after = page.next
        if after is None:
            return found, True, [*missing]
    return found, False, [*missing]


async def _decoded(stored: Sequence[SystemRecord], wanted: LagFilter) -> tuple[list[tuple[Stamp, Reading]], int]:
    """The records that lag is judged from, and how many are none: they are skipped, whatever they hold.

    Others get their turn in between: with many records this takes a while.
    """
    found: list[tuple[Stamp, Reading]] = []
    skipped = 0
    for first in range(0, len(stored), LAG_LIVE_SLICE_RECORDS):
        for each in stored[first : first + LAG_LIVE_SLICE_RECORDS]:
            try:
                record = decode_record(each.payload)
            except InvalidRequestError:
                skipped += 1
                continue
            if record is not None and _is_wanted(record[1], wanted):
                found.append(record)
        await asyncio.sleep(0)
    return found, skipped


async def _observations(
    records: Sequence[tuple[Stamp, Reading]], now_ms: int
) -> tuple[dict[Key, list[Observation]], dict[str, int]]:
    """As `observations_of`, and others get their turn in between."""
    told: dict[Key, list[Observation]] = {}
    heard: dict[str, int] = {}
    for first in range(0, len(records), LAG_LIVE_SLICE_RECORDS):
        some, heard_then = observations_of(records[first : first + LAG_LIVE_SLICE_RECORDS], now_ms)
        for key, observations in some.items():
            told.setdefault(key, []).extend(observations)
        for broker, at_ms in heard_then.items():
            heard[broker] = max(at_ms, heard.get(broker, 0))
        await asyncio.sleep(0)
    return told, heard


def _is_wanted(reading: Reading, wanted: LagFilter) -> bool:
    """Records of brokers and topics say when their broker was heard."""
    return not isinstance(reading, SubscriptionReading) or wanted.takes(reading.topic, reading.subscription)


def _add_present(
    told: dict[Key, list[Observation]], topics: Sequence[TopicDescription], wanted: LagFilter, now_ms: int
) -> None:
    for topic in topics:
        for each in topic.subscriptions:
            key = str(topic.topic), each.name
            if wanted.takes(*key):
                before = told.setdefault(key, [])
                before.append(_present(topic, each, before, topic.described_ms or now_ms))


def _present(
    topic: TopicDescription, subscription: SubscriptionDescription, before: Sequence[Observation], now_ms: int
) -> Observation:
    """The present state, as the newest record of whoever told of it last."""
    last = max(before, key=lambda one: (one.at_ms, one.sequence), default=None)
    known = last is not None and last.topic_id == str(topic.topic_id) and last.at_ms >= subscription.created_ms
    state = subscription.reliable
    present = Observation(
        at_ms=now_ms,
        broker_id=topic.broker_id or "",
        start_id=last.start_id if last is not None and known else "now",
        sequence=last.sequence + 1 if last is not None and known else 0,
        topic_id=str(topic.topic_id),
        subscription_id=last.subscription_id if last is not None and known else "now",
        kept=state is not None,
        consumers=subscription.connected_count,
        redelivered=subscription.redelivered,
        nacked=subscription.nacked,
    )
    if state is None:
        return present
    return present._replace(
        start_offset=topic.start_offset,
        head=topic.end_offset,
        position=state.position,
        acknowledged_beyond=state.acknowledged_beyond,
        lag_messages=state.lag,
        in_flight=state.in_flight,
        waiting=state.waiting,
        ready=state.ready,
        blocked=state.blocked,
        oldest_unread_append_ms=state.oldest_unacknowledged_ms,
        **(_told(last, state, topic) if last is not None and known else {}),
    )


_DESCRIBED = frozenset({"blocked", "oldest_unread_append_ms"})


def _told(last: Observation, state: ReliableState, topic: TopicDescription) -> dict[str, Any]:
    """Numbers that telemetry alone tells, as of its last record, and what was acknowledged since."""
    told: dict[str, Any] = {name: getattr(last, name) for name in (*AS_TOLD, *LISTS) if name not in _DESCRIBED}
    moved = state.position + state.acknowledged_beyond - last.position - last.acknowledged_beyond
    trimmed = max(0, min(topic.start_offset, state.position) - last.position)
    if last.acknowledged is not None:
        told["acknowledged"] = last.acknowledged + max(0, moved - trimmed)
    if last.trimmed is not None and state.position == topic.start_offset:  # a consumer would have gone beyond
        told["trimmed"] = last.trimmed + trimmed
    if moved:
        told["last_acknowledged_ms"] = None
    if topic.storage is not None:
        told["head_append_ms"] = topic.storage.newest_ms
    elif topic.end_offset != last.head:
        told["head_append_ms"] = None
    return told
