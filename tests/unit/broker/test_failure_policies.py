"""Failure policies and windows of subscriptions, over the ports of a whole broker."""

import asyncio
from dataclasses import replace

import pytest

from danube.model.errors import (
    InvalidRequestError,
    PreconditionFailedError,
    SubscriptionNotFoundError,
    TopicNotFoundError,
)
from danube.model.policies import BackoffStrategy, FailurePolicy, PoisonPolicy
from danube.model.subscription import SubscriptionType
from danube.model.topic import DispatchStrategy, TopicName
from danube.testing.in_process_broker import Cell, StartBroker
from danube.testing.patience import LONG_S, PATIENCE_S
from danube.testing.peers.client import Inbox

DROP_AT_ONCE = FailurePolicy(
    max_redelivery_count=0,
    base_redelivery_delay_ms=0,
    backoff=BackoffStrategy.FIXED,
    poison=PoisonPolicy.DROP,
)


async def subscribed(cell: Cell, topic: TopicName) -> tuple[int, Inbox]:
    """A producer, and a consumer with an open stream."""
    producer = await cell.client.create_producer(topic)
    return producer, await cell.client.receive(await cell.client.subscribe(topic))


async def test_a_failure_policy_is_none_until_it_is_set_and_then_what_was_set(cell: Cell, topic: TopicName) -> None:
    await cell.client.create_producer(topic)
    await cell.client.subscribe(topic, kind=SubscriptionType.SHARED)
    assert await cell.admin.failure_policy(topic) == (None, SubscriptionType.SHARED)
    await cell.admin.set_failure_policy(topic, DROP_AT_ONCE)
    assert await cell.admin.failure_policy(topic) == (DROP_AT_ONCE, SubscriptionType.SHARED)


async def test_a_failure_policy_holds_at_once_for_a_consumer_that_is_connected(cell: Cell, topic: TopicName) -> None:
    producer, inbox = await subscribed(cell, topic)
    await cell.admin.set_failure_policy(topic, DROP_AT_ONCE)
    for payload in (b"poison", b"fine"):
        await cell.client.send(topic, producer, payload)
    await cell.client.nack(topic, (await inbox.next()).offset)
    await cell.client.acknowledge(topic, (await inbox.next()).offset)
    (described,) = await cell.admin.describe(topic)
    state = described.subscriptions[0].reliable
    assert state is not None
    assert (state.position, state.lag) == (2, 0)


async def test_a_failure_policy_holds_after_a_restart_and_no_subscriber_changes_it(
    start_broker: StartBroker, topic: TopicName
) -> None:
    cell = await start_broker()
    await subscribed(cell, topic)
    await cell.admin.set_failure_policy(topic, DROP_AT_ONCE)
    cell = await start_broker()
    producer, inbox = await subscribed(cell, topic)
    assert (await cell.admin.failure_policy(topic))[0] == DROP_AT_ONCE
    await cell.client.send(topic, producer, b"poison")
    await cell.client.nack(topic, (await inbox.next()).offset)
    (described,) = await cell.admin.describe(topic)
    state = described.subscriptions[0].reliable
    assert state is not None
    assert state.position == 1


async def test_a_failure_policy_goes_with_its_subscription(start_broker: StartBroker, topic: TopicName) -> None:
    cell = await start_broker()
    await cell.client.create_producer(topic)
    await cell.admin.create_subscription(topic)
    await cell.admin.set_failure_policy(topic, DROP_AT_ONCE)
    await cell.admin.set_window(topic, 77)
    await cell.admin.unsubscribe(topic)
    await cell.admin.create_subscription(topic)
    assert (await cell.admin.failure_policy(topic))[0] is None
    assert await cell.admin.window(topic) is None


async def test_settings_of_the_broker_hold_where_nothing_is_set(start_broker: StartBroker, topic: TopicName) -> None:
    cell = await start_broker(max_redelivery_count=0, poison_policy="drop")
    producer, inbox = await subscribed(cell, topic)
    await cell.client.send(topic, producer, b"poison")
    await cell.client.nack(topic, (await inbox.next()).offset)
    (described,) = await cell.admin.describe(topic)
    state = described.subscriptions[0].reliable
    assert state is not None
    assert state.position == 1


async def test_a_policy_for_what_is_not_there_is_refused(cell: Cell, topic: TopicName) -> None:
    with pytest.raises(TopicNotFoundError):
        await cell.admin.set_failure_policy(topic, DROP_AT_ONCE)
    await cell.client.create_producer(topic)
    with pytest.raises(SubscriptionNotFoundError):
        await cell.admin.failure_policy(topic)
    with pytest.raises(SubscriptionNotFoundError):
        await cell.admin.window(topic)


async def test_a_topic_that_is_not_reliable_has_no_failure_policies(cell: Cell, topic: TopicName) -> None:
    await cell.client.create_producer(topic, strategy=DispatchStrategy.NON_RELIABLE)
    await cell.client.subscribe(topic)
    with pytest.raises(PreconditionFailedError, match="not reliable"):
        await cell.admin.set_failure_policy(topic, DROP_AT_ONCE)


async def test_dead_letters_never_come_back_to_where_they_come_from(cell: Cell) -> None:
    names = [TopicName("default", name) for name in ("a", "b", "c")]
    for name in names:
        await cell.client.create_producer(name)
        await cell.admin.create_subscription(name)
    first, second, third = names
    dead_letters = FailurePolicy(poison=PoisonPolicy.DEAD_LETTER, dead_letter_topic=first)
    with pytest.raises(InvalidRequestError, match="would come back to it"):
        await cell.admin.set_failure_policy(first, dead_letters)
    await cell.admin.set_failure_policy(second, dead_letters)
    await cell.admin.set_failure_policy(third, replace(dead_letters, dead_letter_topic=second))
    with pytest.raises(InvalidRequestError, match="would come back to it"):
        await cell.admin.set_failure_policy(first, replace(dead_letters, dead_letter_topic=third))


async def test_of_two_policies_that_would_close_a_circle_together_one_is_refused(cell: Cell) -> None:
    first, second = TopicName("default", "a"), TopicName("default", "b")
    for name in (first, second):
        await cell.client.create_producer(name)
        await cell.admin.create_subscription(name)
    dead_letters = FailurePolicy(poison=PoisonPolicy.DEAD_LETTER, dead_letter_topic=first)
    outcomes = await asyncio.gather(
        cell.admin.set_failure_policy(first, replace(dead_letters, dead_letter_topic=second)),
        cell.admin.set_failure_policy(second, dead_letters),
        return_exceptions=True,
    )
    assert [type(outcome) for outcome in outcomes] == [type(None), InvalidRequestError]


async def test_dead_letters_go_to_no_topic_that_could_not_keep_them(cell: Cell, topic: TopicName) -> None:
    passing, parts = TopicName("default", "passing"), TopicName("default", "parts")
    await cell.client.create_producer(topic)
    await cell.admin.create_subscription(topic)
    await cell.admin.create_topic(passing, DispatchStrategy.NON_RELIABLE)
    await cell.admin.create_partitioned_topic(parts, 2)
    for target, error in (
        (passing, PreconditionFailedError),
        (parts, InvalidRequestError),
        (TopicName("system", "audit"), InvalidRequestError),
    ):
        with pytest.raises(error):
            await cell.admin.set_failure_policy(
                topic, FailurePolicy(poison=PoisonPolicy.DEAD_LETTER, dead_letter_topic=target)
            )


async def test_a_window_holds_at_once_and_over_a_restart(start_broker: StartBroker, topic: TopicName) -> None:
    cell = await start_broker(max_unacked_messages=1)
    producer, inbox = await subscribed(cell, topic)
    for _ in range(4):
        await cell.client.send(topic, producer, b"x")
    await inbox.next()
    await cell.admin.set_window(topic, 3)
    async with asyncio.timeout(PATIENCE_S):
        await inbox.take(2)
    assert await cell.admin.window(topic) == 3
    cell = await start_broker(max_unacked_messages=1)
    inbox = await cell.client.receive(await cell.client.subscribe(topic))
    async with asyncio.timeout(PATIENCE_S):
        await inbox.take(3)


LETTERS = TopicName("default", "failed")
AFTER_TWO = FailurePolicy(
    ack_timeout_ms=round(LONG_S * 1_000),
    max_redelivery_count=2,
    base_redelivery_delay_ms=0,
    max_redelivery_delay_ms=0,
    poison=PoisonPolicy.DEAD_LETTER,
    dead_letter_topic=LETTERS,
)


async def dead_letters(cell: Cell) -> Inbox:
    """A consumer of the dead letters."""
    await cell.client.create_producer(LETTERS)
    return await cell.client.receive(await cell.client.subscribe(LETTERS))


@pytest.mark.parametrize("kind", list(SubscriptionType))
async def test_failures_count_on_after_restarts(
    start_broker: StartBroker, topic: TopicName, kind: SubscriptionType
) -> None:
    cell = await start_broker()
    producer = await cell.client.create_producer(topic)
    consumer = await cell.client.subscribe(topic, kind=kind)
    await cell.admin.set_failure_policy(topic, AFTER_TWO)
    dead = await dead_letters(cell)
    await cell.client.send(topic, producer, b"poison")
    for _ in range(2):
        inbox = await cell.client.receive(consumer)
        assert (await inbox.next()).payload == b"poison"
        await cell.client.nack(topic, 0)
        cell = await start_broker()
    inbox = await cell.client.receive(consumer)
    await inbox.next()
    await cell.client.nack(topic, 0, reason="bad")
    dead = await dead_letters(cell)
    async with asyncio.timeout(PATIENCE_S):
        dead_letter = await dead.next()
    assert (dead_letter.payload, dead_letter.attributes["x-delivery-attempt"]) == (b"poison", "3")


async def test_failures_count_on_after_a_move(cell: Cell, topic: TopicName) -> None:
    producer, inbox = await subscribed(cell, topic)
    await cell.admin.set_failure_policy(topic, replace(DROP_AT_ONCE, max_redelivery_count=1))
    await cell.client.send(topic, producer, b"poison")
    await cell.client.nack(topic, (await inbox.next()).offset)
    await cell.broker.moves.unload(topic)
    await cell.broker.moves.open_again(topic)
    producer, inbox = await subscribed(cell, topic)
    await cell.client.send(topic, producer, b"fine")
    await cell.client.nack(topic, (await inbox.next()).offset)
    await cell.client.acknowledge(topic, 1)
    (described,) = await cell.admin.describe(topic)
    state = described.subscriptions[0].reliable
    assert state is not None
    assert (state.position, state.lag) == (2, 0)


async def test_a_blocked_message_is_not_sent_once_more_by_a_restart(
    start_broker: StartBroker, topic: TopicName
) -> None:
    cell = await start_broker(max_redelivery_count=0)
    producer, inbox = await subscribed(cell, topic)
    for payload in (b"poison", b"next"):
        await cell.client.send(topic, producer, payload)
    await cell.client.nack(topic, (await inbox.next()).offset)
    cell = await start_broker(max_redelivery_count=0)
    _, inbox = await subscribed(cell, topic)
    (described,) = await cell.admin.describe(topic)
    state = described.subscriptions[0].reliable
    assert state is not None
    assert (state.blocked, state.in_flight) == (1, 0)
    await cell.admin.retry_blocked(topic)
    assert (await inbox.next()).payload == b"poison"
