"""Messages that are too old and subscriptions that nobody comes back to, in a broker whose future is looked at."""

import asyncio
from typing import Any, NamedTuple

import pytest

from danube.broker.clients.consumers import Consumers
from danube.broker.policy.retention import Expiry
from danube.broker.topics.local_topics import Topics
from danube.model.calls.stream import FetchFrom
from danube.model.limits.broker import CLOCK_SETTLED_EXPIRY_S
from danube.model.topic import DispatchStrategy, TopicName
from danube.runtime.clock import SystemClock
from danube.testing.in_process_broker import Cell, StartBroker
from danube.testing.patience import PATIENCE_S
from danube.testing.simulated.clock import SimClock

HOUR_S = 3_600.0


class Parts(NamedTuple):
    """Of the broker that was started last."""

    topics: list[Topics]
    consumers: list[Consumers]

    async def sweep(self, *, after_s: float, subscription_expiry_s: float = 0) -> None:
        """Do what the broker would do so much later."""
        now = SystemClock()
        later = SimClock(start_ms=now.now_ms() + round(after_s * 1_000), start_s=now.monotonic_s() + after_s)
        expiry = Expiry(self.topics[-1], self.consumers[-1], later, subscription_expiry_s=subscription_expiry_s)
        await expiry.sweep()


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> Parts:
    found = Parts([], [])
    load_topics, load_consumers = Topics.load, Consumers.load

    async def note_topics(topics: Topics) -> None:
        found.topics.append(topics)
        await load_topics(topics)

    async def note_consumers(consumers: Consumers) -> None:
        found.consumers.append(consumers)
        await load_consumers(consumers)

    monkeypatch.setattr(Topics, "load", note_topics)
    monkeypatch.setattr(Consumers, "load", note_consumers)
    return found


async def unread(cell: Cell, topic: TopicName, count: int = 3) -> int:
    """A topic with messages that its subscription has not acknowledged; answers the producer."""
    producer = await cell.client.create_producer(topic)
    for index in range(count):
        await cell.client.send(topic, producer, b"%d" % index)
    await cell.admin.create_subscription(topic, start=FetchFrom.EARLIEST)
    return producer


async def set_ttl(cell: Cell, **of_what: Any) -> None:
    operation = "set_topic_message_ttl" if "topic" in of_what else "set_namespace_message_ttl"
    await cell.admin.apply(await cell.admin.plan(operation, ttl_s=60, **of_what))


async def stands(cell: Cell, topic: TopicName) -> tuple[int, int, int]:
    """Position and lag of the only subscription, and how many messages have expired."""
    (described,) = await cell.admin.describe(topic)
    state = described.subscriptions[0].reliable
    assert state is not None
    return state.position, state.lag, described.messages_expired


async def test_messages_older_than_their_topic_allows_are_passed_over_and_counted(
    parts: Parts, start_broker: StartBroker, topic: TopicName
) -> None:
    cell = await start_broker()
    producer = await unread(cell, topic)
    await set_ttl(cell, topic=str(topic))
    await parts.sweep(after_s=59)
    assert await stands(cell, topic) == (0, 3, 0)
    await parts.sweep(after_s=62)
    assert await stands(cell, topic) == (3, 0, 3)
    await cell.client.send(topic, producer, b"young")
    inbox = await cell.client.receive(await cell.client.subscribe(topic))
    async with asyncio.timeout(PATIENCE_S):
        assert (await inbox.next()).payload == b"young"


async def test_a_clock_that_jumps_leads_nobody_past_a_message(
    parts: Parts, start_broker: StartBroker, topic: TopicName, caplog: pytest.LogCaptureFixture
) -> None:
    cell = await start_broker()
    await unread(cell, topic)
    await set_ttl(cell, topic=str(topic))
    clock = SimClock(start_ms=SystemClock().now_ms())
    expiry = Expiry(parts.topics[-1], parts.consumers[-1], clock, subscription_expiry_s=0)
    clock.jump_wall(365 * 24 * HOUR_S)
    for _ in range(2):
        await expiry.sweep()
    assert await stands(cell, topic) == (0, 3, 0)
    assert len([record for record in caplog.records if "the clock has jumped by 31536000 s" in record.message]) == 1
    clock.advance(62)
    await expiry.sweep()
    assert await stands(cell, topic) == (3, 0, 3)


async def test_after_a_start_without_the_time_messages_expire_soon_after_the_clock_is_set_right(
    parts: Parts, start_broker: StartBroker, topic: TopicName
) -> None:
    cell = await start_broker()
    await unread(cell, topic)
    await set_ttl(cell, topic=str(topic))
    clock = SimClock(start_ms=0)
    expiry = Expiry(parts.topics[-1], parts.consumers[-1], clock, subscription_expiry_s=0)
    clock.jump_wall(SystemClock().now_ms() / 1_000)
    await expiry.sweep()
    clock.advance(CLOCK_SETTLED_EXPIRY_S - 1)
    await expiry.sweep()
    assert await stands(cell, topic) == (0, 3, 0)
    clock.advance(1)
    await expiry.sweep()
    assert await stands(cell, topic) == (3, 0, 3)


async def test_expired_messages_do_not_come_back_after_a_restart(
    parts: Parts, start_broker: StartBroker, topic: TopicName
) -> None:
    cell = await start_broker()
    await unread(cell, topic)
    await set_ttl(cell, namespace="default")
    await parts.sweep(after_s=62)
    cell = await start_broker()
    assert (await stands(cell, topic))[:2] == (3, 0)


async def test_messages_that_are_acknowledged_do_not_expire_as_well(
    parts: Parts, start_broker: StartBroker, topic: TopicName
) -> None:
    cell = await start_broker()
    await unread(cell, topic)
    inbox = await cell.client.receive(await cell.client.subscribe(topic))
    await inbox.take(3)
    await cell.client.acknowledge(topic, 1)
    await set_ttl(cell, topic=str(topic))
    await parts.sweep(after_s=62)
    assert await stands(cell, topic) == (3, 0, 2)


async def test_no_message_expires_unless_that_is_set(parts: Parts, start_broker: StartBroker, topic: TopicName) -> None:
    cell = await start_broker()
    await unread(cell, topic)
    await parts.sweep(after_s=10 * 365 * 24 * HOUR_S)
    assert await stands(cell, topic) == (0, 3, 0)


async def test_a_subscription_that_nobody_came_back_to_goes_where_that_is_set(
    parts: Parts, start_broker: StartBroker, topic: TopicName
) -> None:
    cell = await start_broker()
    await unread(cell, topic)
    await parts.sweep(after_s=2 * HOUR_S)
    assert await cell.admin.subscriptions(topic) == ("subscription",)
    await parts.sweep(after_s=0.5 * HOUR_S, subscription_expiry_s=HOUR_S)
    assert await cell.admin.subscriptions(topic) == ("subscription",)
    await parts.sweep(after_s=2 * HOUR_S, subscription_expiry_s=HOUR_S)
    assert await cell.admin.subscriptions(topic) == ()


async def test_a_subscription_with_a_consumer_stays_however_long_it_is_silent(
    parts: Parts, start_broker: StartBroker, topic: TopicName
) -> None:
    cell = await start_broker()
    await unread(cell, topic)
    await cell.client.receive(await cell.client.subscribe(topic))
    await parts.sweep(after_s=2 * HOUR_S, subscription_expiry_s=HOUR_S)
    assert await cell.admin.subscriptions(topic) == ("subscription",)


async def test_topics_that_keep_nothing_are_left_alone(
    parts: Parts, start_broker: StartBroker, topic: TopicName
) -> None:
    cell = await start_broker(message_ttl_s=1)
    await cell.client.create_producer(topic, strategy=DispatchStrategy.NON_RELIABLE)
    await cell.admin.create_subscription(topic)
    await parts.sweep(after_s=HOUR_S, subscription_expiry_s=1)
    assert await cell.admin.subscriptions(topic) == ("subscription",)
