"""Partitions that come later begin with the subscriptions of their topic, from the first offset on."""

from collections.abc import Awaitable, Callable

import pytest

from danube.metadata.records import new_topics
from danube.model.errors import LimitReachedError
from danube.model.policies import FailurePolicy, PoisonPolicy
from danube.model.subscription import SubscriptionType
from danube.model.topic import DispatchStrategy, TopicName
from danube.testing.in_process_broker import Cell, StartBroker

Grow = Callable[[Cell, TopicName], Awaitable[object]]
LETTERS = FailurePolicy(poison=PoisonPolicy.DEAD_LETTER, dead_letter_topic=TopicName("default", "letters"))


async def by_administrator(cell: Cell, base: TopicName) -> object:
    return await cell.admin.add_partitions(base, 1)


async def by_producer(cell: Cell, base: TopicName) -> object:
    return await cell.client.create_producer(base.partition(2), "new-2")


async def publish(cell: Cell, topic: TopicName, *payloads: bytes) -> None:
    producer = await cell.client.create_producer(topic)
    for payload in payloads:
        await cell.client.send(topic, producer, payload)


async def received(cell: Cell, topic: TopicName, count: int) -> list[bytes]:
    inbox = await cell.client.receive(await cell.client.subscribe(topic, kind=SubscriptionType.SHARED))
    return [message.payload for message in await inbox.take(count)]


@pytest.mark.parametrize("grow", [by_administrator, by_producer])
async def test_a_later_partition_keeps_what_is_published_before_the_consumers_of_its_topic_find_it(
    grow: Grow, start_broker: StartBroker, topic: TopicName
) -> None:
    cell = await start_broker()
    await cell.admin.create_partitioned_topic(topic, 2)
    await publish(cell, topic.partition(0), b"old")
    for index in range(2):
        await cell.client.subscribe(topic.partition(index), kind=SubscriptionType.SHARED)
    await cell.admin.set_failure_policy(topic.partition(0), LETTERS)
    await cell.admin.set_window(topic.partition(0), 7)
    await grow(cell, topic)
    new = topic.partition(2)
    assert await cell.admin.failure_policy(new) == (LETTERS, SubscriptionType.SHARED)
    assert await cell.admin.window(new) == 7
    await publish(cell, new, b"first", b"second")
    cell = await start_broker()
    assert await received(cell, new, 2) == [b"first", b"second"]


async def test_a_subscription_of_one_partition_alone_is_on_those_that_come_later_too(
    cell: Cell, topic: TopicName
) -> None:
    await cell.admin.create_partitioned_topic(topic, 3)
    await cell.client.subscribe(topic.partition(1), "alone")
    await cell.admin.add_partitions(topic, 2)
    found = [await cell.admin.subscriptions(topic.partition(index)) for index in range(5)]
    assert found == [(), ("alone",), (), ("alone",), ("alone",)]


async def test_subscriptions_of_later_partitions_stand_where_they_are_read_to(
    start_broker: StartBroker, topic: TopicName
) -> None:
    cell = await start_broker()
    await cell.admin.create_partitioned_topic(topic, 1)
    await cell.client.subscribe(topic.partition(0), kind=SubscriptionType.SHARED)
    await cell.admin.add_partitions(topic, 1)
    cell = await start_broker()  # its start makes their places durable, as a sweep does in time
    new = topic.partition(1)
    await publish(cell, new, b"first", b"second")
    assert await received(cell, new, 2) == [b"first", b"second"]
    await cell.client.acknowledge(new, 0)
    cell = await start_broker()
    assert await received(cell, new, 1) == [b"second"]


async def test_a_policy_whose_dead_letters_would_come_back_is_not_set_on_the_new_partition(
    cell: Cell, topic: TopicName
) -> None:
    await cell.admin.create_partitioned_topic(topic, 1)
    await cell.client.subscribe(topic.partition(0))
    later = FailurePolicy(poison=PoisonPolicy.DEAD_LETTER, dead_letter_topic=topic.partition(1))
    await cell.admin.set_failure_policy(topic.partition(0), later)
    await cell.admin.add_partitions(topic, 2)
    found = [(await cell.admin.failure_policy(topic.partition(index)))[0] for index in range(3)]
    assert found == [later, None, later]


async def test_more_than_one_change_can_give_is_refused_and_nothing_is_added(
    cell: Cell, topic: TopicName, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(new_topics, "INHERITED_SUBSCRIPTIONS_MAX", 3)
    await cell.admin.create_partitioned_topic(topic, 1)
    for name in ("a", "b"):
        await cell.admin.create_subscription(topic.partition(0), name)
    with pytest.raises(LimitReachedError, match="add fewer partitions at once"):
        await cell.admin.add_partitions(topic, 2)
    assert len(await cell.client.partitions(topic)) == 1
    await cell.admin.add_partitions(topic, 1)
    assert await cell.admin.subscriptions(topic.partition(1)) == ("a", "b")


async def test_a_later_partition_that_keeps_nothing_has_subscriptions_of_the_same_type(
    cell: Cell, topic: TopicName
) -> None:
    first, second = topic.partition(0), topic.partition(1)
    await cell.client.create_producer(first, strategy=DispatchStrategy.NON_RELIABLE)
    await cell.client.subscribe(first, kind=SubscriptionType.KEY_SHARED)
    await cell.admin.add_partitions(topic, 1)
    (described,) = await cell.admin.describe(second)
    assert [one.type for one in described.subscriptions] == [SubscriptionType.KEY_SHARED]
