"""Where subscriptions begin and are put, over the ports of a whole broker."""

import asyncio

import pytest

from danube.metadata.records.catalog import Records, SubscriptionRecord
from danube.model.calls.client import ClientKind, HealthStatus
from danube.model.calls.positions import SubscriptionPosition
from danube.model.calls.stream import FetchFrom, FetchStart, FetchTime
from danube.model.errors import (
    AlreadyExistsError,
    InvalidRequestError,
    LimitReachedError,
    NotFoundError,
    PlanRefusedError,
    PreconditionFailedError,
    SubscriptionNotFoundError,
    TopicNotFoundError,
)
from danube.model.limits.broker import PARTITIONS_MAX, PEEK_PAYLOAD_BYTES_MAX
from danube.model.policies import FailurePolicy, PoisonPolicy
from danube.model.subscription import SubscriptionType
from danube.model.topic import DispatchStrategy, TopicName
from danube.testing.in_process_broker import Cell, StartBroker
from danube.testing.patience import PATIENCE_S
from danube.testing.peers.client import Inbox

MESSAGES = 5
BLOCK_AT_ONCE = FailurePolicy(max_redelivery_count=0, poison=PoisonPolicy.BLOCK)


async def filled(cell: Cell, topic: TopicName, count: int = MESSAGES) -> int:
    """A topic with messages "0", "1", ...; answers its producer."""
    producer = await cell.client.create_producer(topic)
    for index in range(count):
        await cell.client.send(topic, producer, b"%d" % index)
    return producer


async def reading(cell: Cell, topic: TopicName) -> Inbox:
    return await cell.client.receive(await cell.client.subscribe(topic))


async def acknowledged(cell: Cell, topic: TopicName, inbox: Inbox, count: int) -> None:
    for message in await inbox.take(count):
        await cell.client.acknowledge(topic, message.offset)


async def stands(cell: Cell, topic: TopicName) -> tuple[int, int]:
    """Position and lag of the only subscription."""
    state = (await cell.admin.describe(topic))[0].subscriptions[0].reliable
    assert state is not None
    return state.position, state.lag


# Start


@pytest.mark.parametrize(
    ("start", "first"), [(FetchFrom.EARLIEST, 0), (3, 3), (MESSAGES, None), (FetchFrom.LATEST, None), (FetchTime(1), 0)]
)
async def test_a_subscription_begins_where_it_was_created(
    cell: Cell, topic: TopicName, start: FetchStart, first: int | None
) -> None:
    producer = await filled(cell, topic)
    expected = MESSAGES if first is None else first
    answer = await cell.admin.create_subscription(topic, start=start)
    assert answer == SubscriptionPosition(position=expected, lag=MESSAGES - expected)
    await cell.client.send(topic, producer, b"%d" % MESSAGES)
    async with asyncio.timeout(PATIENCE_S):
        assert (await (await reading(cell, topic)).next()).offset == expected


async def test_a_subscription_that_nobody_used_is_there_after_a_restart(
    start_broker: StartBroker, topic: TopicName
) -> None:
    cell = await start_broker()
    await filled(cell, topic)
    await cell.admin.create_subscription(topic, start=2, kind=SubscriptionType.SHARED)
    cell = await start_broker()
    assert await stands(cell, topic) == (2, 3)
    assert (await cell.admin.describe(topic))[0].subscriptions[0].type is SubscriptionType.SHARED


async def test_a_subscription_cannot_begin_where_the_topic_has_nothing(cell: Cell, topic: TopicName) -> None:
    await filled(cell, topic)
    with pytest.raises(InvalidRequestError, match="use 0 to 5"):
        await cell.admin.create_subscription(topic, start=MESSAGES + 1)
    assert await cell.admin.subscriptions(topic) == ()


async def test_a_subscription_is_created_once(cell: Cell, topic: TopicName) -> None:
    with pytest.raises(TopicNotFoundError):
        await cell.admin.create_subscription(topic)
    await filled(cell, topic)
    await cell.admin.create_subscription(topic)
    with pytest.raises(AlreadyExistsError):
        await cell.admin.create_subscription(topic)


async def test_a_subscription_of_a_topic_that_keeps_nothing_can_be_created(cell: Cell, topic: TopicName) -> None:
    await cell.client.create_producer(topic, strategy=DispatchStrategy.NON_RELIABLE)
    assert (await cell.admin.create_subscription(topic, start=FetchFrom.EARLIEST)).lag == 0
    assert await cell.admin.subscriptions(topic) == ("subscription",)
    with pytest.raises(PreconditionFailedError, match="keeps no messages"):
        await cell.admin.seek(topic, FetchFrom.EARLIEST)


# Seek


async def test_a_subscription_that_is_put_back_sends_again_to_who_is_connected(cell: Cell, topic: TopicName) -> None:
    await filled(cell, topic)
    await cell.admin.create_subscription(topic, start=FetchFrom.EARLIEST)
    inbox = await reading(cell, topic)
    await acknowledged(cell, topic, inbox, MESSAGES)
    assert await cell.admin.seek(topic, 2) == SubscriptionPosition(position=2, lag=3)
    async with asyncio.timeout(PATIENCE_S):
        assert [message.offset for message in await inbox.take(3)] == [2, 3, 4]


async def test_a_subscription_that_was_put_back_stands_there_after_a_restart(
    start_broker: StartBroker, topic: TopicName
) -> None:
    cell = await start_broker()
    await filled(cell, topic)
    await cell.admin.create_subscription(topic)
    await cell.admin.seek(topic, 1)
    cell = await start_broker()
    assert await stands(cell, topic) == (1, 4)


async def test_what_was_decided_and_not_finished_when_the_broker_died_is_finished_at_the_next_start(
    start_broker: StartBroker, topic: TopicName, monkeypatch: pytest.MonkeyPatch
) -> None:
    cell = await start_broker()
    await filled(cell, topic)
    await cell.admin.create_subscription(topic)
    real = Records.set_jump

    async def decided_and_no_more(records: Records, *args: object, **options: object) -> SubscriptionRecord:
        await real(records, *args, **options)  # type: ignore[arg-type]
        raise PreconditionFailedError("the broker dies here")

    with monkeypatch.context() as dying:
        dying.setattr(Records, "set_jump", decided_and_no_more)
        with pytest.raises(PreconditionFailedError):
            await cell.admin.seek(topic, 3)
    cell = await start_broker()
    assert await stands(cell, topic) == (3, 2)
    await acknowledged(cell, topic, await reading(cell, topic), 2)
    cell = await start_broker()
    assert await stands(cell, topic) == (5, 0)


async def test_unread_messages_are_passed_over_by_a_plan_alone(cell: Cell, topic: TopicName) -> None:
    await filled(cell, topic)
    await cell.admin.create_subscription(topic, start=FetchFrom.EARLIEST)
    inbox = await reading(cell, topic)
    await acknowledged(cell, topic, inbox, 1)
    with pytest.raises(PreconditionFailedError, match="2 unread messages of 'subscription' would be passed over"):
        await cell.admin.seek(topic, 3)
    assert await stands(cell, topic) == (1, 4)
    plan = await cell.admin.plan("seek_subscription", topic=str(topic), subscription="subscription", to=3)
    assert plan.impact.changes == ("Move subscription 'subscription' of /default/orders from 1 to 3.",)
    assert plan.impact.irreversible == (
        "2 messages that were not acknowledged will never be sent to this subscription.",
    )
    assert (plan.impact.messages, plan.impact.consumers) == (2, 1)
    assert plan.impact.bytes is None  # they are not counted, and not 0
    await cell.admin.apply(plan)
    assert await stands(cell, topic) == (3, 2)


@pytest.mark.parametrize(
    ("to", "position"), [("earliest", 0), ("latest", 5), ("1970-01-02T00:00:00Z", 0), ("2999-01-01T00:00:00+02:00", 5)]
)
async def test_a_plan_says_where_to_in_words_numbers_or_times(
    cell: Cell, topic: TopicName, to: str, position: int
) -> None:
    await filled(cell, topic)
    await cell.admin.create_subscription(topic, start=2)
    plan = await cell.admin.plan("seek_subscription", topic=str(topic), subscription="subscription", to=to)
    await cell.admin.apply(plan)
    assert (await stands(cell, topic))[0] == position


async def test_the_name_of_a_partitioned_topic_moves_the_subscription_on_all_partitions(cell: Cell) -> None:
    base = TopicName("default", "parts")
    await cell.admin.create_partitioned_topic(base, 3)
    partitions = [base.partition(index) for index in range(3)]
    for partition in partitions:
        await filled(cell, partition)
        await cell.admin.create_subscription(partition, start=FetchFrom.EARLIEST)
    plan = await cell.admin.plan("seek_subscription", topic=str(base), subscription="subscription", to="latest")
    assert (plan.impact.topic_count, plan.impact.messages, plan.impact.bytes) == (3, 3 * MESSAGES, None)
    assert len(plan.impact.changes) == 3
    await cell.admin.apply(plan)
    assert [await stands(cell, partition) for partition in partitions] == [(MESSAGES, 0)] * 3
    with pytest.raises(PlanRefusedError):
        await cell.admin.apply(plan)


@pytest.mark.parametrize("to", ["tomorrow", "2026-01-01T00:00:00", -1, True, None, 1.5])
async def test_a_place_that_is_none_is_refused(cell: Cell, topic: TopicName, to: object) -> None:
    await filled(cell, topic)
    await cell.admin.create_subscription(topic)
    with pytest.raises(InvalidRequestError, match="is no place in a topic"):
        await cell.admin.plan("seek_subscription", topic=str(topic), subscription="subscription", to=to)


async def test_a_plan_for_a_subscription_that_was_made_anew_is_refused(cell: Cell, topic: TopicName) -> None:
    await filled(cell, topic)
    await cell.admin.create_subscription(topic, start=FetchFrom.EARLIEST)
    plan = await cell.admin.plan("seek_subscription", topic=str(topic), subscription="subscription", to="latest")
    await cell.admin.unsubscribe(topic)
    await cell.admin.create_subscription(topic, start=FetchFrom.EARLIEST)
    with pytest.raises(PlanRefusedError):
        await cell.admin.apply(plan)
    assert await stands(cell, topic) == (0, 5)


async def test_a_plan_acts_once(cell: Cell, topic: TopicName) -> None:
    await filled(cell, topic)
    await cell.admin.create_subscription(topic, start=FetchFrom.EARLIEST)
    plan = await cell.admin.plan("skip_messages", topic=str(topic), subscription="subscription", count=2)
    await cell.admin.apply(plan)
    with pytest.raises(PlanRefusedError):
        await cell.admin.apply(plan)
    assert await stands(cell, topic) == (2, 3)


# Skip and retry


async def test_skipping_passes_over_the_next_unread_messages_and_no_others(cell: Cell, topic: TopicName) -> None:
    await filled(cell, topic)
    await cell.admin.create_subscription(topic, start=FetchFrom.EARLIEST)
    inbox = await reading(cell, topic)
    await inbox.take(2)
    await cell.client.acknowledge(topic, 1)
    plan = await cell.admin.plan("skip_messages", topic=str(topic), subscription="subscription", count=2)
    assert plan.impact.changes == ("Skip the next 2 messages of subscription 'subscription' of /default/orders.",)
    await cell.admin.apply(plan)
    assert await stands(cell, topic) == (3, 2)


async def test_a_plan_to_skip_the_next_ones_is_refused_when_others_are_the_next(cell: Cell, topic: TopicName) -> None:
    await filled(cell, topic)
    await cell.admin.create_subscription(topic, start=FetchFrom.EARLIEST)
    inbox = await reading(cell, topic)
    plan = await cell.admin.plan("skip_messages", topic=str(topic), subscription="subscription", count=1)
    await acknowledged(cell, topic, inbox, 1)
    with pytest.raises(PlanRefusedError):
        await cell.admin.apply(plan)
    assert await stands(cell, topic) == (1, 4)


async def blocked(cell: Cell, topic: TopicName) -> Inbox:
    """A subscription whose first message blocks it."""
    await filled(cell, topic, 1)
    await cell.admin.create_subscription(topic, start=FetchFrom.EARLIEST)
    await cell.admin.set_failure_policy(topic, BLOCK_AT_ONCE)
    inbox = await reading(cell, topic)
    await cell.client.nack(topic, (await inbox.next()).offset)
    return inbox


async def test_a_blocked_message_that_is_skipped_blocks_no_more(cell: Cell, topic: TopicName) -> None:
    inbox = await blocked(cell, topic)
    await filled(cell, topic, 1)
    state = (await cell.admin.describe(topic))[0].subscriptions[0].reliable
    assert state is not None
    assert state.blocked == 1
    plan = await cell.admin.plan("skip_messages", topic=str(topic), subscription="subscription", count=0)
    assert plan.impact.changes == ("Skip 1 message that blocks subscription 'subscription'.",)
    await cell.admin.apply(plan)
    async with asyncio.timeout(PATIENCE_S):
        assert (await inbox.next()).offset == 1


async def test_a_blocked_message_that_is_tried_again_is_sent_again(cell: Cell, topic: TopicName) -> None:
    inbox = await blocked(cell, topic)
    await cell.admin.retry_blocked(topic)
    async with asyncio.timeout(PATIENCE_S):
        await acknowledged(cell, topic, inbox, 1)
    assert await stands(cell, topic) == (1, 0)


async def test_what_is_not_there_is_neither_put_anywhere_nor_tried_again(cell: Cell, topic: TopicName) -> None:
    await filled(cell, topic)
    with pytest.raises(SubscriptionNotFoundError):
        await cell.admin.seek(topic, 0)
    with pytest.raises(SubscriptionNotFoundError):
        await cell.admin.retry_blocked(topic)


# Peek


async def test_a_look_shows_messages_in_order_and_changes_nothing(cell: Cell, topic: TopicName) -> None:
    await filled(cell, topic)
    await cell.admin.create_subscription(topic, start=FetchFrom.EARLIEST)
    page = await cell.admin.peek(topic, 1, count=2)
    assert [(each.offset, each.payload, each.payload_size) for each in page.messages] == [(1, b"1", 1), (2, b"2", 1)]
    assert (page.start_offset, page.end_offset) == (0, MESSAGES)
    assert {each.producer_name for each in page.messages} == {"producer"}
    assert await stands(cell, topic) == (0, 5)


async def test_a_look_shows_the_beginning_of_a_large_payload_and_how_large_it_is(cell: Cell, topic: TopicName) -> None:
    producer = await filled(cell, topic, 0)
    await cell.client.send(topic, producer, b"x" * 100_000)
    (message,) = (await cell.admin.peek(topic)).messages
    assert (len(message.payload), message.payload_size) == (PEEK_PAYLOAD_BYTES_MAX, 100_000)
    (message,) = (await cell.admin.peek(topic, payload_bytes_max=0)).messages
    assert message.payload == b""


async def test_a_look_counts_the_attributes_that_are_too_long_to_be_shown(cell: Cell, topic: TopicName) -> None:
    producer = await filled(cell, topic, 0)
    attributes = {"a": "t" * 5_000, "b": "u" * 4_000, "c": "v" * 4_000, "zone": "eu"}
    await cell.client.send(topic, producer, b"x", attributes=attributes)
    (message,) = (await cell.admin.peek(topic)).messages
    assert [name for name, _ in message.attributes] == ["b", "zone"]
    assert message.attributes_left_out == 2


async def test_a_look_from_a_time_begins_with_what_was_appended_then_or_later(cell: Cell, topic: TopicName) -> None:
    await filled(cell, topic)
    (third,) = (await cell.admin.peek(topic, 2, count=1)).messages
    (found,) = (await cell.admin.peek(topic, FetchTime(third.append_time_ms), count=1)).messages
    assert found.offset <= 2
    assert (await cell.admin.peek(topic, FetchTime(2**42))).messages == ()
    with pytest.raises(InvalidRequestError):
        await cell.admin.peek(topic, MESSAGES + 1)


# Partitions and connections


async def test_partitions_that_are_added_are_seen_by_who_asks_and_are_like_the_others(
    start_broker: StartBroker, topic: TopicName
) -> None:
    cell = await start_broker()
    await cell.admin.create_partitioned_topic(topic, 2)
    await cell.admin.set_topic_policies(topic, max_publish_rate=9)
    names = tuple(topic.partition(index) for index in range(4))
    assert await cell.admin.add_partitions(topic, 2) == names
    cell = await start_broker()
    assert await cell.client.partitions(topic) == names
    assert (await cell.admin.topic_policies(names[3])).own.max_publish_rate == 9
    producer = await cell.client.create_producer(names[3])
    await cell.client.send(names[3], producer, b"x")


async def test_partitions_are_added_all_or_none_and_only_where_there_are_some(cell: Cell, topic: TopicName) -> None:
    with pytest.raises(TopicNotFoundError, match="has no partitions"):
        await cell.admin.add_partitions(topic, 1)
    await cell.admin.create_partitioned_topic(topic, 2)
    with pytest.raises(LimitReachedError):
        await cell.admin.add_partitions(topic, PARTITIONS_MAX - 1)
    assert len(await cell.client.partitions(topic)) == 2


async def test_who_is_connected_is_listed_and_can_be_sent_away(cell: Cell, topic: TopicName) -> None:
    producer = await filled(cell, topic)
    consumer = await cell.client.subscribe(topic)
    inbox = await cell.client.receive(consumer)
    found, count = await cell.admin.connections(topic)
    assert [(each.client_id, each.name, each.subscription) for each in found] == [
        (consumer, "consumer", "subscription"),
        (producer, "producer", None),
    ]
    assert count == 2
    await cell.admin.disconnect(topic, consumer)
    async with asyncio.timeout(PATIENCE_S):
        assert await cell.client.health(ClientKind.CONSUMER, consumer) is HealthStatus.CLOSE
        assert await inbox.stream.receive() is None
    await cell.admin.disconnect(topic, producer)
    assert await cell.admin.connections(topic) == ((), 0)
    with pytest.raises(NotFoundError, match="is not connected"):
        await cell.admin.disconnect(topic, consumer)
