"""Limits of topics and namespaces: whose holds, and that each of them is kept."""

import asyncio
from pathlib import Path
from time import monotonic

import pytest

from danube.broker.config.settings import load_broker_settings
from danube.model.errors import (
    InvalidRequestError,
    LimitReachedError,
    MessageTooLargeError,
    NamespaceNotFoundError,
    OverloadedError,
    TopicNotFoundError,
    TopicNotServedError,
)
from danube.model.policies import NO_POLICIES, Policies
from danube.model.records.audit import AUDIT_TOPIC
from danube.model.subscription import SubscriptionType
from danube.model.topic import DispatchStrategy, TopicName
from danube.testing.in_process_broker import Cell, StartBroker
from danube.testing.patience import PATIENCE_S
from danube.testing.peers.stream import StreamPeer, payload_batch

OTHER = TopicName("default", "other")


async def test_a_topic_inherits_from_its_namespace_what_it_does_not_set(cell: Cell, topic: TopicName) -> None:
    await cell.admin.create_topic(topic)
    await cell.admin.set_namespace_policies("default", max_producers_per_topic=5, max_message_size=100)
    view = await cell.admin.set_topic_policies(topic, max_producers_per_topic=0)
    assert view.own == Policies(max_producers_per_topic=0)
    assert (view.holding.max_producers_per_topic, view.holding.max_message_size) == (0, 100)
    view = await cell.admin.set_topic_policies(topic, "max_producers_per_topic")
    assert (view.own, view.holding.max_producers_per_topic) == (NO_POLICIES, 5)


async def test_limits_outlive_a_restart_and_hold_for_topics_made_later(
    start_broker: StartBroker, topic: TopicName
) -> None:
    cell = await start_broker()
    await cell.admin.create_topic(topic)
    await cell.admin.set_namespace_policies("default", max_subscriptions_per_topic=9)
    await cell.admin.set_topic_policies(topic, max_publish_rate=7)
    cell = await start_broker(max_consumers_per_topic=3)
    await cell.admin.create_topic(OTHER)
    holding = (await cell.admin.topic_policies(topic)).holding
    assert (holding.max_publish_rate, holding.max_subscriptions_per_topic, holding.max_consumers_per_topic) == (7, 9, 3)
    assert (await cell.admin.topic_policies(OTHER)).holding.max_subscriptions_per_topic == 9
    assert (await cell.admin.namespace_policies("default")).own == Policies(max_subscriptions_per_topic=9)


async def test_the_originals_call_shows_the_limits_that_hold(cell: Cell) -> None:
    await cell.admin.set_namespace_policies("default", max_publish_rate=7)
    assert (await cell.admin.policies("default")).max_publish_rate == 7


async def test_a_namespace_made_anew_has_no_limits(cell: Cell) -> None:
    await cell.admin.create_namespace("apart")
    await cell.admin.set_namespace_policies("apart", max_publish_rate=7)
    await cell.admin.delete_namespace("apart")
    await cell.admin.create_namespace("apart")
    assert (await cell.admin.namespace_policies("apart")).holding.max_publish_rate == 0


async def test_limits_of_a_base_name_are_those_of_all_its_partitions(cell: Cell, topic: TopicName) -> None:
    await cell.admin.create_partitioned_topic(topic, 2)
    await cell.admin.set_topic_policies(topic, max_message_size=3)
    for index in range(2):
        assert (await cell.admin.topic_policies(topic.partition(index))).own == Policies(max_message_size=3)


async def test_limits_of_what_is_not_there_are_not_found(cell: Cell, topic: TopicName) -> None:
    with pytest.raises(TopicNotFoundError):
        await cell.admin.set_topic_policies(topic, max_message_size=3)
    for ask in (cell.admin.namespace_policies, cell.admin.set_namespace_policies):
        with pytest.raises(NamespaceNotFoundError):
            await ask("nowhere")


async def test_one_producer_more_than_allowed_is_refused_and_those_who_are_there_stay(
    cell: Cell, topic: TopicName
) -> None:
    await cell.admin.create_topic(topic)
    await cell.admin.set_topic_policies(topic, max_producers_per_topic=1)
    first = await cell.client.create_producer(topic, "first")
    with pytest.raises(LimitReachedError, match="has 1 producers"):
        await cell.client.create_producer(topic, "second")
    assert await cell.client.create_producer(topic, "first") == first
    await cell.client.send(topic, first, b"x", producer="first")


async def test_a_producer_beyond_the_limit_that_sends_after_a_restart_is_told_to_attach_again(
    start_broker: StartBroker, topic: TopicName
) -> None:
    cell = await start_broker()
    producers = {name: await cell.client.create_producer(topic, name) for name in ("first", "second")}
    await cell.admin.set_topic_policies(topic, max_producers_per_topic=1)
    cell = await start_broker()
    await cell.client.send(topic, producers["first"], b"x", producer="first")
    with pytest.raises(TopicNotServedError):
        await cell.client.send(topic, producers["second"], b"x", producer="second")


async def test_one_subscription_more_than_allowed_is_refused(cell: Cell, topic: TopicName) -> None:
    await cell.admin.create_topic(topic)
    await cell.admin.set_topic_policies(topic, max_subscriptions_per_topic=1)
    await cell.client.subscribe(topic, "first")
    with pytest.raises(LimitReachedError, match="its policies allow 1"):
        await cell.client.subscribe(topic, "second")
    with pytest.raises(LimitReachedError, match="1 is the most it may"):
        await cell.admin.create_subscription(topic, "third")
    await cell.client.subscribe(topic, "first")


@pytest.mark.parametrize("limit", ["max_consumers_per_topic", "max_consumers_per_subscription"])
async def test_of_consumers_that_come_together_no_more_get_in_than_are_allowed(
    cell: Cell, topic: TopicName, limit: str
) -> None:
    await cell.admin.create_topic(topic)
    await cell.admin.set_topic_policies(topic, **{limit: 2})
    outcomes = await asyncio.gather(
        *(cell.client.subscribe(topic, "one", f"c{index}", SubscriptionType.SHARED) for index in range(5)),
        return_exceptions=True,
    )
    assert sum(isinstance(outcome, int) for outcome in outcomes) == 2
    assert all(isinstance(outcome, int | LimitReachedError) for outcome in outcomes)


async def test_consumers_of_a_subscription_do_not_count_for_another_one(cell: Cell, topic: TopicName) -> None:
    await cell.admin.create_topic(topic)
    await cell.admin.set_topic_policies(topic, max_consumers_per_subscription=1)
    for name in ("one", "other"):
        await cell.client.subscribe(topic, name)
    with pytest.raises(LimitReachedError, match="subscription 'one' of /default/orders has 1 consumers"):
        await cell.client.subscribe(topic, "one", "late", SubscriptionType.SHARED)


@pytest.mark.parametrize("strategy", list(DispatchStrategy))
async def test_a_message_larger_than_its_topic_takes_is_refused_and_the_next_one_is_taken(
    cell: Cell, topic: TopicName, strategy: DispatchStrategy
) -> None:
    producer = await cell.client.create_producer(topic, strategy=strategy)
    await cell.admin.set_topic_policies(topic, max_message_size=10)
    with pytest.raises(MessageTooLargeError, match="11 bytes is larger than /default/orders takes"):
        await cell.client.send(topic, producer, b"x" * 11)
    await cell.client.send(topic, producer, b"x" * 10)


async def test_publishes_above_the_rate_are_held_up_in_order_and_then_refused(cell: Cell, topic: TopicName) -> None:
    producer = await cell.client.create_producer(topic)
    inbox = await cell.client.receive(await cell.client.subscribe(topic))
    await cell.admin.set_topic_policies(topic, max_publish_rate=10)
    sent = [asyncio.create_task(cell.client.send(topic, producer, b"%d" % index)) for index in range(30)]
    outcomes = await asyncio.gather(*sent, return_exceptions=True)
    taken = [index for index, outcome in enumerate(outcomes) if not isinstance(outcome, BaseException)]
    assert 20 <= len(taken) < 30
    assert all(isinstance(outcome, OverloadedError) for outcome in outcomes if isinstance(outcome, BaseException))
    async with asyncio.timeout(PATIENCE_S):
        received = [int(message.payload) for message in await inbox.take(10)]
    assert received == taken[:10]


async def test_a_rate_that_is_lifted_lets_everything_pass_at_once(cell: Cell, topic: TopicName) -> None:
    producer = await cell.client.create_producer(topic)
    await cell.admin.set_topic_policies(topic, max_publish_rate_bytes=1)
    await cell.client.send(topic, producer, b"first")
    with pytest.raises(OverloadedError, match="above its publish rate"):
        await cell.client.send(topic, producer, b"second")
    await cell.admin.set_topic_policies(topic, "max_publish_rate_bytes")
    await cell.client.send(topic, producer, b"third")


async def test_publishes_that_are_held_up_are_answered_when_the_topic_goes(cell: Cell, topic: TopicName) -> None:
    producer = await cell.client.create_producer(topic)
    await cell.admin.set_topic_policies(topic, max_publish_rate=1)
    started_s = monotonic()
    await cell.client.send(topic, producer, b"first")
    second = asyncio.create_task(cell.client.send(topic, producer, b"second"))
    await cell.admin.delete_topic(topic)
    async with asyncio.timeout(PATIENCE_S):
        try:
            await second
        except InvalidRequestError as error:
            assert "was deleted" in str(error)
        else:
            assert monotonic() - started_s > 0.9, "it was not held up"


async def test_batches_above_the_rate_wait_in_their_stream_and_all_are_stored(cell: Cell, topic: TopicName) -> None:
    channel = cell.carrier.connect(cell.broker.addresses.broker)
    line = await StreamPeer(channel).opened(topic)
    await cell.admin.set_topic_policies(topic, max_publish_rate=20)
    started_s = monotonic()
    for sequence in range(3):
        await line.send(sequence, payload_batch(topic, [b"x"] * 10))
    async with asyncio.timeout(PATIENCE_S):
        assert await line.stored(3) == [0, 10, 20]
    await cell.admin.set_topic_policies(topic, max_message_size=3)
    assert monotonic() - started_s > 0.04
    await line.send(3, payload_batch(topic, [b"fits", b"x"]))
    async with asyncio.timeout(PATIENCE_S):
        with pytest.raises(MessageTooLargeError):
            await line.stored(1)
    await channel.close()


async def test_settings_limit_no_topic_of_the_brokers_own(start_broker: StartBroker, topic: TopicName) -> None:
    cell = await start_broker(max_publish_rate=1)
    await cell.admin.create_topic(topic)
    assert (await cell.admin.topic_policies(topic)).holding.max_publish_rate == 1
    assert (await cell.admin.topic_policies(AUDIT_TOPIC)).holding.max_publish_rate == 0


def test_policies_of_the_originals_file_are_ours(tmp_path: Path) -> None:
    path = tmp_path / "danube.yml"
    path.write_text("policies:\n  max_producers_per_topic: 4\n  max_message_size: 10485760\n")
    settings = load_broker_settings(path, {}, {}).settings
    assert (settings.max_producers_per_topic, settings.max_message_size) == (4, 10_485_760)
