import asyncio

import pytest

from danube.metadata.records.catalog import ExtraWrites, Records
from danube.model.calls.client import ClientKind, HealthStatus
from danube.model.errors import (
    AcknowledgeError,
    ConsumerNotFoundError,
    PreconditionFailedError,
    SubscriptionNotFoundError,
    TopicNotFoundError,
)
from danube.model.subscription import Cursor, SubscriptionType
from danube.model.topic import DispatchStrategy, TopicName
from danube.storage.batches.stored_batch import Saved
from danube.storage.log.topic_log import TopicLog
from danube.testing.in_process_broker import Cell, StartBroker
from danube.testing.patience import PATIENCE_S
from danube.testing.peers.client import Inbox


async def left(cell: Cell, topic: TopicName, inbox: Inbox) -> None:
    """Return once the broker has seen the stream's end."""
    inbox.close()
    async with asyncio.timeout(PATIENCE_S):
        while (await cell.admin.describe(topic))[0].subscriptions[0].connected_count:
            pass


async def test_subscriptions_of_a_topic_are_listed_once_and_sorted(cell: Cell, topic: TopicName) -> None:
    await cell.client.create_producer(topic)
    for name in ("b", "a"):
        for consumer in ("one", "two"):
            await cell.client.subscribe(topic, name, consumer, SubscriptionType.SHARED)
    assert await cell.admin.subscriptions(topic) == ("a", "b")


async def test_subscriptions_of_an_unknown_topic_are_not_found(cell: Cell, topic: TopicName) -> None:
    with pytest.raises(TopicNotFoundError):
        await cell.admin.subscriptions(topic)


@pytest.mark.parametrize("strategy", list(DispatchStrategy))
async def test_unsubscribed_is_gone_with_its_consumers(
    cell: Cell, topic: TopicName, strategy: DispatchStrategy
) -> None:
    await cell.client.create_producer(topic, strategy=strategy)
    consumer = await cell.client.subscribe(topic)
    await left(cell, topic, await cell.client.receive(consumer))
    await cell.admin.unsubscribe(topic)
    assert await cell.admin.subscriptions(topic) == ()
    with pytest.raises(AcknowledgeError):
        await cell.client.acknowledge(topic, 0)
    with pytest.raises(ConsumerNotFoundError):
        await cell.client.receive(consumer)


async def test_subscription_with_a_connected_consumer_stays(cell: Cell, topic: TopicName) -> None:
    producer = await cell.client.create_producer(topic)
    inbox = await cell.client.receive(await cell.client.subscribe(topic))
    with pytest.raises(PreconditionFailedError, match="consumer 'consumer' is connected"):
        await cell.admin.unsubscribe(topic)
    await cell.client.send(topic, producer, b"still here")
    assert (await inbox.next()).payload == b"still here"


async def test_consumer_that_has_just_subscribed_counts_as_connected(cell: Cell, topic: TopicName) -> None:
    await cell.client.create_producer(topic)
    await cell.client.subscribe(topic)
    with pytest.raises(PreconditionFailedError):
        await cell.admin.unsubscribe(topic)


async def test_unsubscribed_does_not_come_back_after_a_restart(start_broker: StartBroker, topic: TopicName) -> None:
    cell = await start_broker()
    producer = await cell.client.create_producer(topic)
    consumer = await cell.client.subscribe(topic)
    await left(cell, topic, await cell.client.receive(consumer))
    await cell.client.send(topic, producer, b"old")
    await cell.admin.unsubscribe(topic)
    cell = await start_broker()
    assert await cell.admin.subscriptions(topic) == ()
    inbox = await cell.client.receive(await cell.client.subscribe(topic))
    await cell.client.send(topic, producer, b"new")
    assert (await inbox.next()).payload == b"new"


async def test_unsubscribing_what_is_not_there_is_not_found(cell: Cell, topic: TopicName) -> None:
    with pytest.raises(TopicNotFoundError):
        await cell.admin.unsubscribe(topic)
    await cell.client.create_producer(topic)
    with pytest.raises(SubscriptionNotFoundError):
        await cell.admin.unsubscribe(topic)


async def test_base_name_of_partitions_has_no_subscriptions_of_its_own(cell: Cell, topic: TopicName) -> None:
    await cell.admin.create_partitioned_topic(topic, 3)
    with pytest.raises(TopicNotFoundError, match="is partitioned: name a partition, from /default/orders-part-0"):
        await cell.admin.subscriptions(topic)


async def test_consumer_that_joins_while_it_is_unsubscribed_starts_at_the_end_of_the_topic(
    cell: Cell, topic: TopicName
) -> None:
    producer = await cell.client.create_producer(topic)
    await left(cell, topic, await cell.client.receive(await cell.client.subscribe(topic)))
    await cell.client.send(topic, producer, b"old")
    unsubscribing = asyncio.create_task(cell.admin.unsubscribe(topic))
    async with asyncio.timeout(PATIENCE_S):
        while not (await cell.admin.audit()).records:  # it begins once it is on record
            pass
    consumer = await cell.client.subscribe(topic)
    await unsubscribing
    inbox = await cell.client.receive(consumer)
    await cell.client.send(topic, producer, b"new")
    assert (await inbox.next()).payload == b"new"


async def test_stream_that_opens_while_its_subscription_goes_is_told_to_close_and_ends_with_ok(
    cell: Cell, topic: TopicName, monkeypatch: pytest.MonkeyPatch
) -> None:
    await cell.client.create_producer(topic)
    consumer = await cell.client.subscribe(topic)
    await left(cell, topic, await cell.client.receive(consumer))
    delete, opened = Records.delete_subscription, []

    async def open_and_delete(
        records: Records, name: TopicName, subscription: str, *, extra_writes: ExtraWrites | None = None
    ) -> None:
        opened.append(await cell.client.receive(consumer))
        await delete(records, name, subscription, extra_writes=extra_writes)

    monkeypatch.setattr(Records, "delete_subscription", open_and_delete)
    await cell.admin.unsubscribe(topic)
    assert await cell.admin.subscriptions(topic) == ()
    async with asyncio.timeout(PATIENCE_S):
        assert await cell.client.health(ClientKind.CONSUMER, consumer) is HealthStatus.CLOSE
        assert await opened[0].stream.receive() is None


async def test_unsubscribed_leaves_no_cursor_in_memory(
    cell: Cell, topic: TopicName, monkeypatch: pytest.MonkeyPatch
) -> None:
    save, seen = TopicLog.save_cursor, []

    def note_and_save(log: TopicLog, subscription_id: int, cursor: Cursor, saved: Saved | None = None) -> None:
        seen.append((log, subscription_id))
        save(log, subscription_id, cursor, saved)

    monkeypatch.setattr(TopicLog, "save_cursor", note_and_save)
    await cell.client.create_producer(topic)
    await left(cell, topic, await cell.client.receive(await cell.client.subscribe(topic)))
    log, subscription_id = seen[0]
    assert log.cursor(subscription_id) == Cursor(0)
    await cell.admin.unsubscribe(topic)
    assert log.cursor(subscription_id) is None
