"""Changes of the metadata that were made though the answer got lost: what is gone is not served for ever."""

from collections.abc import Callable
from typing import Any

import pytest

from danube.broker.clients import consumers
from danube.broker.clients.consumers import Consumers
from danube.metadata.records.catalog import Records
from danube.model.calls.client import ClientKind, HealthStatus
from danube.model.calls.stream import FetchFrom
from danube.model.errors import (
    InvalidRequestError,
    SubscriptionNotFoundError,
    TopicExistsError,
    TopicNotFoundError,
    UnavailableError,
    UnknownOutcomeError,
)
from danube.model.topic import DispatchStrategy, TopicName
from danube.testing.in_process_broker import Cell, StartBroker

Lose = Callable[[str], None]


@pytest.fixture
def lost(monkeypatch: pytest.MonkeyPatch) -> Lose:
    """Have the next change of this name made without an answer."""

    def lose(change: str) -> None:
        real = getattr(Records, change)

        async def silent(records: Records, *arguments: Any, **named: Any) -> None:
            monkeypatch.setattr(Records, change, real)
            await real(records, *arguments, **named)
            raise UnknownOutcomeError("nothing was agreed on in time")

        monkeypatch.setattr(Records, change, silent)

    return lose


async def test_a_subscription_that_was_deleted_is_gone_once_that_is_asked_for_again(
    cell: Cell, topic: TopicName, lost: Lose
) -> None:
    producer = await cell.client.create_producer(topic)
    await cell.client.send(topic, producer, b"old")
    await cell.admin.create_subscription(topic, start=FetchFrom.EARLIEST)
    lost("delete_subscription")
    with pytest.raises(UnknownOutcomeError):
        await cell.admin.unsubscribe(topic)
    with pytest.raises(SubscriptionNotFoundError):
        await cell.admin.unsubscribe(topic)
    assert await cell.admin.subscriptions(topic) == ()
    assert (await cell.admin.create_subscription(topic)).lag == 0


async def test_a_consumer_that_comes_to_a_subscription_that_was_deleted_gets_a_new_one(
    cell: Cell, topic: TopicName, lost: Lose
) -> None:
    producer = await cell.client.create_producer(topic)
    await cell.client.send(topic, producer, b"old")
    await cell.admin.create_subscription(topic, start=FetchFrom.EARLIEST)
    lost("delete_subscription")
    with pytest.raises(UnknownOutcomeError):
        await cell.admin.unsubscribe(topic)
    inbox = await cell.client.receive(await cell.client.subscribe(topic))
    await cell.client.send(topic, producer, b"new")
    assert (await inbox.next()).payload == b"new"


async def test_a_subscription_that_was_deleted_keeps_no_other_that_nobody_uses_from_going(
    start_broker: StartBroker, topic: TopicName, lost: Lose, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, load = list[Consumers](), Consumers.load

    async def note(loaded: Consumers) -> None:
        found.append(loaded)
        await load(loaded)

    monkeypatch.setattr(Consumers, "load", note)
    cell = await start_broker()
    await cell.client.create_producer(topic, strategy=DispatchStrategy.NON_RELIABLE)
    for name in ("first", "second"):
        await cell.admin.create_subscription(topic, name)
    lost("delete_subscription")
    with pytest.raises(UnknownOutcomeError):
        await cell.admin.unsubscribe(topic, "first")
    monkeypatch.setattr(consumers, "NON_RELIABLE_IDLE_S", 0)
    await found[-1].sweep()
    assert await cell.admin.subscriptions(topic) == ()


@pytest.mark.parametrize("strategy", list(DispatchStrategy))
async def test_a_topic_that_was_made_is_served_once_it_is_asked_for_again(
    strategy: DispatchStrategy, cell: Cell, topic: TopicName, lost: Lose
) -> None:
    lost("create_topic")
    with pytest.raises(UnknownOutcomeError):
        await cell.client.create_producer(topic, strategy=strategy)
    producer = await cell.client.create_producer(topic, strategy=strategy)
    await cell.client.send(topic, producer, b"x")
    assert [info.topic for info in await cell.admin.topics("default")] == [topic]


async def test_partitions_that_were_made_are_served_once_they_are_asked_for_again(
    cell: Cell, topic: TopicName, lost: Lose
) -> None:
    lost("create_partitioned_topic")
    with pytest.raises(UnknownOutcomeError):
        await cell.admin.create_partitioned_topic(topic, 2)
    with pytest.raises(TopicExistsError):
        await cell.admin.create_partitioned_topic(topic, 2)
    assert await cell.client.partitions(topic) == (topic.partition(0), topic.partition(1))


async def test_a_topic_that_may_have_been_deleted_takes_nothing_and_is_gone_once_that_is_asked_for_again(
    cell: Cell, topic: TopicName, lost: Lose
) -> None:
    producer = await cell.client.create_producer(topic)
    consumer = await cell.client.subscribe(topic)
    inbox = await cell.client.receive(consumer)
    await cell.client.send(topic, producer, b"old")
    lost("delete_topics")
    with pytest.raises(UnknownOutcomeError):
        await cell.admin.delete_topic(topic)
    with pytest.raises(UnavailableError, match=r"may have been deleted.* delete it again"):
        await cell.client.send(topic, producer, b"would be lost")
    assert (await inbox.next()).payload == b"old"
    with pytest.raises(TopicNotFoundError):
        await cell.admin.delete_topic(topic)
    assert await cell.client.health(ClientKind.CONSUMER, consumer) is HealthStatus.CLOSE
    with pytest.raises(InvalidRequestError, match="was deleted"):
        await cell.client.send(topic, producer, b"x")
    producer = await cell.client.create_producer(topic)
    await cell.client.send(topic, producer, b"new")
    (described,) = await cell.admin.describe(topic)
    assert described.end_offset == 1


async def test_a_topic_that_was_not_deleted_after_all_is_there_after_a_restart(
    start_broker: StartBroker, topic: TopicName, monkeypatch: pytest.MonkeyPatch
) -> None:
    cell = await start_broker()
    producer = await cell.client.create_producer(topic)
    await cell.client.send(topic, producer, b"x")

    async def nothing(*_: Any, **__: Any) -> None:
        raise UnknownOutcomeError("nothing was agreed on in time")

    with monkeypatch.context() as away:
        away.setattr(Records, "delete_topics", nothing)
        with pytest.raises(UnknownOutcomeError):
            await cell.admin.delete_topic(topic)
    cell = await start_broker()
    await cell.client.send(topic, producer, b"y")
    (described,) = await cell.admin.describe(topic)
    assert described.end_offset == 2
