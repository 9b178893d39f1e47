"""Telemetry of a real broker: what retention deleted, who is silent, what limits a subscription, and its verdict."""

import asyncio
from dataclasses import replace

from danube.broker.telemetry.readings import mark_subscription, read_subscription
from danube.broker.topics.topic import ReliableTopic
from danube.model.lag.records import observation_of
from danube.model.lag.rules import judge
from danube.model.lag.verdict import LagCause, LagPolicy, LagVerdict
from danube.model.records.telemetry import Stamp, SubscriptionReading
from danube.model.subscription import SubscriptionType
from danube.model.topic import TopicName
from danube.runtime.clock import SystemClock
from danube.testing.in_process_broker import StartBroker
from danube.testing.patience import PATIENCE_S
from tests.unit.broker.keeper import Keeper

STEP_MS = 5_000


def told(keeper: Keeper, topic: TopicName) -> SubscriptionReading:
    served = keeper.topics.get(topic)
    assert isinstance(served, ReliableTopic)
    return read_subscription(served, served.subscription("subscription"))


def verdict_of(readings: list[SubscriptionReading]) -> LagVerdict:
    """The verdict on these, one at each look, the last one at the moment that is judged."""
    first_ms = 1_750_000_000_000
    stamps = [
        Stamp(broker_id="1", start_id="1", sequence=number, at_ms=first_ms + STEP_MS * number, full=False)
        for number in range(len(readings))
    ]
    found = judge([observation_of(*each) for each in zip(stamps, readings, strict=True)], stamps[-1].at_ms, LagPolicy())
    assert found is not None
    return found


async def test_messages_that_retention_deletes_unread_are_lost_and_not_acknowledged(
    keepers: list[Keeper], start_broker: StartBroker, topic: TopicName
) -> None:
    cell = await start_broker(retention_bytes=10_000, retention_drops_unread=True, telemetry_interval_s=0)
    producer = await cell.client.create_producer(topic)
    await cell.client.subscribe(topic)
    for _ in range(60):
        await cell.client.send(topic, producer, bytes(400))
    before = told(keepers[-1], topic)
    assert (before.trimmed, before.retention_messages_left) == (0, 0)  # it is past the limit
    assert await keepers[-1].let_go() > 0
    after = told(keepers[-1], topic)
    assert after.trimmed == after.position == after.start_offset
    assert after.acknowledged == 0
    found = verdict_of([before] * 9 + [after])
    assert (found.cause, found.lost, found.acknowledged) == (LagCause.DATA_LOSS, after.trimmed, 0)


async def test_deadline_of_retention_is_told_only_where_it_may_delete_unread_messages(
    keepers: list[Keeper], start_broker: StartBroker, topic: TopicName
) -> None:
    cell = await start_broker(retention_time_s=600, telemetry_interval_s=0)
    producer = await cell.client.create_producer(topic)
    await cell.client.subscribe(topic)
    await cell.client.send(topic, producer, b"x")
    assert told(keepers[-1], topic).retention_deadline_ms is None
    served = keepers[-1].topics.get(topic)
    served.apply_limits(replace(served.limits, retention_drops_unread=1), SystemClock())
    found = told(keepers[-1], topic)
    assert found.oldest_unread_append_ms is not None
    assert found.retention_deadline_ms == found.oldest_unread_append_ms + 2 * 600_000  # it is in no segment yet


async def test_silent_member_of_a_group_is_named_with_its_host_and_what_it_has(
    keepers: list[Keeper], start_broker: StartBroker, topic: TopicName
) -> None:
    cell = await start_broker(telemetry_interval_s=0)
    producer, kind = await cell.client.create_producer(topic), SubscriptionType.SHARED
    silent = await cell.client.receive(await cell.client.subscribe(topic, kind=kind, name="silent"))
    busy = await cell.client.receive(await cell.client.subscribe(topic, kind=kind, name="busy"))
    served = keepers[-1].topics.get(topic)
    marks, readings = set(), list[SubscriptionReading]()
    async with asyncio.timeout(PATIENCE_S):
        for _ in range(10):
            await cell.client.send(topic, producer, b"x")
            await cell.client.send(topic, producer, b"x")
            await silent.next()
            await cell.client.acknowledge(topic, (await busy.next()).offset)
            readings.append(told(keepers[-1], topic))
            marks.add(mark_subscription(served, served.subscriptions["subscription"]))
    last = readings[-1]
    assert last.silent is not None
    (found,) = last.silent
    assert (found.name, found.in_flight) == ("silent", 10)
    assert found.host
    assert (last.acknowledged, last.in_flight, len(marks)) == (10, 10, 10)
