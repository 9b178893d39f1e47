import asyncio

import pytest

from danube.model.calls.admin import DescribeCursor, ReliableState, TopicDescription
from danube.model.errors import TopicNotFoundError
from danube.model.limits.broker import DESCRIBE_BYTES_MAX, DESCRIBE_CONSUMERS_MAX
from danube.model.subscription import SubscriptionType
from danube.model.topic import DispatchStrategy, TopicName
from danube.testing.in_process_broker import Cell


async def all_pages(cell: Cell, page_size: int) -> list[tuple[TopicDescription, ...]]:
    pages, after = [], None
    while True:
        page = await cell.admin.describe_page(namespace="default", page_size=page_size, after=after)
        pages.append(page.topics)
        if page.next is None:
            return pages
        after = page.next


async def test_topic_is_shown_as_the_original_shows_it(cell: Cell, topic: TopicName) -> None:
    await cell.client.create_producer(topic)
    await cell.client.subscribe(topic, "mine")
    (listed,) = await cell.admin.topics("default")
    shown = await cell.admin.topic(topic)
    assert (shown.info, shown.subscriptions, shown.schema_subject) == (listed, ("mine",), None)


async def test_unknown_topic_and_base_name_are_not_shown(cell: Cell, topic: TopicName) -> None:
    with pytest.raises(TopicNotFoundError, match="list the topics"):
        await cell.admin.topic(topic)
    await cell.admin.create_partitioned_topic(topic, 2)
    with pytest.raises(
        TopicNotFoundError, match="name a partition, from /default/orders-part-0 to /default/orders-part-1"
    ):
        await cell.admin.topic(topic)
    assert (await cell.admin.topic(topic.partition(1))).subscriptions == ()


async def test_subscription_is_described_with_where_it_stands(cell: Cell, topic: TopicName) -> None:
    producer = await cell.client.create_producer(topic)
    inbox = await cell.client.receive(await cell.client.subscribe(topic, kind=SubscriptionType.SHARED))
    for _ in range(20):
        await cell.client.send(topic, producer, b"payload")
    await inbox.take(10)
    for offset in (0, 1, 5):
        await cell.client.acknowledge(topic, offset)
    await cell.client.nack(topic, 7, delay_s=60)
    await inbox.take(4)
    (described,) = await cell.admin.describe(topic)
    (subscription,) = described.subscriptions
    oldest_ms = subscription.reliable.oldest_unacknowledged_ms if subscription.reliable else None
    assert subscription.reliable == ReliableState(
        position=2,
        acknowledged_beyond=1,
        lag=17,
        in_flight=10,
        waiting=1,
        ready=0,
        oldest_unacknowledged_ms=oldest_ms,
    )
    assert oldest_ms is not None
    assert oldest_ms >= described.created_ms
    assert (subscription.messages_out, subscription.nacked, subscription.connected_count) == (14, 1, 1)
    assert [(one.name, one.is_connected, one.in_flight) for one in subscription.consumers] == [("consumer", True, 10)]


async def test_topic_is_described_with_its_offsets_and_counters(cell: Cell, topic: TopicName) -> None:
    producer = await cell.client.create_producer(topic)
    for _ in range(3):
        await cell.client.send(topic, producer, b"payload")
    (described,) = await cell.admin.describe(topic)
    assert (described.start_offset, described.end_offset, described.messages_in, described.producers) == (0, 3, 3, 1)
    assert described.bytes_in > 3 * len(b"payload")
    assert described.strategy is DispatchStrategy.RELIABLE
    assert described.broker_id == (await cell.admin.brokers())[0].broker_id


async def test_subscription_without_lag_has_no_oldest_message(cell: Cell, topic: TopicName) -> None:
    await cell.client.create_producer(topic)
    await cell.client.subscribe(topic)
    (described,) = await cell.admin.describe(topic)
    state = described.subscriptions[0].reliable
    assert state is not None
    assert (state.lag, state.oldest_unacknowledged_ms) == (0, None)


async def test_subscription_of_a_topic_that_keeps_nothing_has_no_position(cell: Cell, topic: TopicName) -> None:
    producer = await cell.client.create_producer(topic, strategy=DispatchStrategy.NON_RELIABLE)
    inbox = await cell.client.receive(await cell.client.subscribe(topic))
    await cell.client.send(topic, producer, b"x")
    await inbox.next()
    (described,) = await cell.admin.describe(topic)
    (subscription,) = described.subscriptions
    assert (described.end_offset, described.messages_in) == (0, 1)
    assert (subscription.reliable, subscription.messages_out, subscription.dropped) == (None, 1, 0)


async def test_pages_hold_every_topic_once_in_the_order_of_names(cell: Cell) -> None:
    names = [TopicName("default", f"t{index}") for index in range(7)]
    for name in reversed(names):
        await cell.admin.create_topic(name)
    pages = await all_pages(cell, 3)
    assert [len(page) for page in pages] == [3, 3, 1]
    assert [topic.topic for page in pages for topic in page] == names


async def test_page_that_is_just_full_is_the_last_one(cell: Cell) -> None:
    for index in range(3):
        await cell.admin.create_topic(TopicName("default", f"t{index}"))
    assert [len(page) for page in await all_pages(cell, 3)] == [3]


async def test_only_topics_of_the_namespace_and_the_names_asked_for_are_described(cell: Cell) -> None:
    await cell.admin.create_namespace("apart")
    for name in (TopicName("default", "a"), TopicName("default", "b"), TopicName("apart", "a")):
        await cell.admin.create_topic(name)
    page = await cell.admin.describe_page(namespace="default")
    assert [str(topic.topic) for topic in page.topics] == ["/default/a", "/default/b"]
    found = await cell.admin.describe(TopicName("default", "b"), TopicName("apart", "a"), TopicName("default", "b"))
    assert [str(topic.topic) for topic in found] == ["/apart/a", "/default/b"]


async def test_base_name_describes_all_its_partitions(cell: Cell, topic: TopicName) -> None:
    await cell.admin.create_partitioned_topic(topic, 3)
    found = await cell.admin.describe(topic, topic.partition(0))
    assert [each.topic for each in found] == [topic.partition(index) for index in range(3)]


async def test_describing_a_topic_that_is_not_there_says_which(cell: Cell, topic: TopicName) -> None:
    await cell.admin.create_topic(topic)
    with pytest.raises(TopicNotFoundError, match="/default/missing"):
        await cell.admin.describe(topic, TopicName("default", "missing"))


async def test_consumers_beyond_the_bound_are_counted_and_the_connected_ones_shown(
    cell: Cell, topic: TopicName
) -> None:
    await cell.client.create_producer(topic)
    count = DESCRIBE_CONSUMERS_MAX + 5
    ids = [
        await cell.client.subscribe(topic, name=f"c{index:03}", kind=SubscriptionType.SHARED) for index in range(count)
    ]
    await cell.client.receive(ids[-1])
    (described,) = await cell.admin.describe(topic)
    (subscription,) = described.subscriptions
    assert (subscription.consumer_count, subscription.connected_count) == (count, 1)
    assert len(subscription.consumers) == DESCRIBE_CONSUMERS_MAX
    assert [consumer.name for consumer in subscription.consumers[:2]] == [f"c{count - 1:03}", "c000"]


async def test_subscriptions_that_do_not_fit_come_on_the_next_page(
    cell: Cell, topic: TopicName, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("danube.broker.control.describe.DESCRIBE_BYTES_MAX", 2_000)
    assert DESCRIBE_BYTES_MAX > 2_000
    other = TopicName("default", "other")
    names = [f"{index:02}{'x' * 200}" for index in range(9)]
    for each in (topic, other):
        await cell.client.create_producer(each)
        await asyncio.gather(*(cell.client.subscribe(each, name) for name in names))
    pages = await all_pages(cell, 10)
    assert len(pages) > 3
    for each in (topic, other):
        parts = [described for page in pages for described in page if described.topic == each]
        assert [one.name for part in parts for one in part.subscriptions] == names
        assert {part.subscription_count for part in parts} == {len(names)}


async def test_topic_that_went_between_two_pages_is_passed_over(cell: Cell) -> None:
    names = [TopicName("default", f"t{index}") for index in range(3)]
    for name in names:
        await cell.admin.create_topic(name)
    page = await cell.admin.describe_page(namespace="default", page_size=1)
    assert page.next == DescribeCursor(topic=names[0])
    for name in names[:2]:
        await cell.admin.delete_topic(name)
    rest = await cell.admin.describe_page(namespace="default", page_size=2, after=page.next)
    assert ([topic.topic for topic in rest.topics], rest.next) == ([names[2]], None)
