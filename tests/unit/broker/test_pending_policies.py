"""Policies that are set before their subscription exists: it begins with them, whoever creates it."""

from collections.abc import Awaitable, Callable

import pytest

from danube.metadata.records import subscriptions
from danube.model.calls.stream import FetchFrom
from danube.model.errors import InvalidRequestError, LimitReachedError, SubscriptionNotFoundError
from danube.model.policies import BackoffStrategy, FailurePolicy, PoisonPolicy
from danube.model.subscription import SubscriptionType
from danube.model.topic import TopicName
from danube.testing.in_process_broker import Cell, StartBroker

Make = Callable[[Cell, TopicName], Awaitable[object]]
DROP_AT_ONCE = FailurePolicy(
    max_redelivery_count=0, base_redelivery_delay_ms=0, backoff=BackoffStrategy.FIXED, poison=PoisonPolicy.DROP
)


async def by_client(cell: Cell, topic: TopicName) -> object:
    return await cell.client.subscribe(topic, kind=SubscriptionType.SHARED)


async def by_administrator(cell: Cell, topic: TopicName) -> object:
    return await cell.admin.create_subscription(topic, kind=SubscriptionType.SHARED, start=FetchFrom.EARLIEST)


async def pending(cell: Cell, topic: TopicName) -> tuple[str, ...]:
    (described,) = await cell.admin.describe(topic)
    return described.pending_policies


@pytest.mark.parametrize("make", [by_client, by_administrator])
async def test_a_subscription_begins_with_the_policies_that_were_set_before_it_existed(
    start_broker: StartBroker, topic: TopicName, make: Make
) -> None:
    cell = await start_broker()
    await cell.admin.create_topic(topic)
    await cell.admin.set_failure_policy(topic, DROP_AT_ONCE)
    await cell.admin.set_window(topic, 7)
    cell = await start_broker()
    assert await cell.admin.failure_policy(topic) == (DROP_AT_ONCE, SubscriptionType.EXCLUSIVE)
    assert await cell.admin.window(topic) == 7
    assert (await pending(cell, topic), await cell.admin.subscriptions(topic)) == (("subscription",), ())
    await make(cell, topic)
    assert await cell.admin.failure_policy(topic) == (DROP_AT_ONCE, SubscriptionType.SHARED)
    assert (await pending(cell, topic), await cell.admin.subscriptions(topic)) == ((), ("subscription",))
    cell = await start_broker()
    assert await cell.admin.failure_policy(topic) == (DROP_AT_ONCE, SubscriptionType.SHARED)
    assert (await cell.admin.window(topic), await pending(cell, topic)) == (7, ())


async def test_messages_that_fail_go_by_a_policy_that_was_set_before(cell: Cell, topic: TopicName) -> None:
    producer = await cell.client.create_producer(topic)
    await cell.admin.set_failure_policy(topic, DROP_AT_ONCE)
    inbox = await cell.client.receive(await cell.client.subscribe(topic))
    for payload in (b"poison", b"fine"):
        await cell.client.send(topic, producer, payload)
    await cell.client.nack(topic, (await inbox.next()).offset)
    assert (await inbox.next()).payload == b"fine"
    (described,) = await cell.admin.describe(topic)
    state = described.subscriptions[0].reliable
    assert state is not None
    assert state.position == 1


async def test_policies_of_a_subscription_that_is_deleted_are_not_kept_for_the_next_one(
    cell: Cell, topic: TopicName
) -> None:
    await cell.admin.create_topic(topic)
    await cell.admin.set_failure_policy(topic, DROP_AT_ONCE)
    await cell.admin.create_subscription(topic)
    await cell.admin.unsubscribe(topic)
    with pytest.raises(SubscriptionNotFoundError):
        await cell.admin.failure_policy(topic)
    await cell.admin.create_subscription(topic)
    assert (await cell.admin.failure_policy(topic))[0] is None


@pytest.mark.parametrize("planned", [False, True])
async def test_pending_policies_are_deleted_as_a_subscription_is(
    cell: Cell, topic: TopicName, *, planned: bool
) -> None:
    await cell.admin.create_topic(topic)
    await cell.admin.set_window(topic, 7)
    if planned:
        plan = await cell.admin.plan("unsubscribe", topic=str(topic), subscription="subscription")
        assert plan.impact.changes == (
            f"Delete the policies for subscription 'subscription' of {topic}, which does not exist yet.",
        )
        await cell.admin.apply(plan)
    else:
        await cell.admin.unsubscribe(topic)
    assert await pending(cell, topic) == ()
    with pytest.raises(SubscriptionNotFoundError):
        await cell.admin.unsubscribe(topic)


async def test_pending_policies_go_with_their_topic(cell: Cell, topic: TopicName) -> None:
    await cell.admin.create_topic(topic)
    await cell.admin.set_failure_policy(topic, DROP_AT_ONCE)
    await cell.admin.delete_topic(topic)
    await cell.admin.create_topic(topic)
    assert await pending(cell, topic) == ()


async def test_pending_policies_are_bounded_and_stay_when_the_topics_own_change(
    cell: Cell, topic: TopicName, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscriptions, "PENDING_POLICIES_PER_TOPIC_MAX", 2)
    await cell.admin.create_topic(topic)
    for name in ("b", "a"):
        await cell.admin.set_window(topic, 7, name)
    with pytest.raises(LimitReachedError, match="delete some of them"):
        await cell.admin.set_window(topic, 7, "c")
    await cell.admin.set_window(topic, 8, "a")
    await cell.admin.set_topic_policies(topic, max_publish_rate=9)
    assert await pending(cell, topic) == ("a", "b")
    assert await cell.admin.window(topic, "a") == 8
    await cell.admin.create_subscription(topic, "a")
    assert await cell.admin.window(topic, "a") == 8
    assert (await cell.admin.topic_policies(topic)).own.max_publish_rate == 9


async def test_pending_dead_letters_never_come_back_to_where_they_come_from(cell: Cell) -> None:
    first, second = TopicName("default", "a"), TopicName("default", "b")
    for name in (first, second):
        await cell.admin.create_topic(name)
    dead_letters = FailurePolicy(poison=PoisonPolicy.DEAD_LETTER, dead_letter_topic=first)
    await cell.admin.set_failure_policy(second, dead_letters)
    back = FailurePolicy(poison=PoisonPolicy.DEAD_LETTER, dead_letter_topic=second)
    with pytest.raises(InvalidRequestError, match="would come back to it"):
        await cell.admin.set_failure_policy(first, back)


async def test_partitions_that_are_added_have_the_pending_policies_of_the_last_one(
    cell: Cell, topic: TopicName
) -> None:
    await cell.admin.create_partitioned_topic(topic, 2)
    await cell.admin.create_subscription(topic.partition(0), "made")
    for name in ("made", "kept"):
        await cell.admin.set_window(topic.partition(1), 7, name)
    circle = FailurePolicy(poison=PoisonPolicy.DEAD_LETTER, dead_letter_topic=topic.partition(2))
    await cell.admin.set_failure_policy(topic.partition(1), circle, "circle")
    await cell.admin.add_partitions(topic, 1)
    assert await pending(cell, topic.partition(2)) == ("kept",)
    assert await cell.admin.subscriptions(topic.partition(2)) == ("made",)
