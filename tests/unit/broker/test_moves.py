"""A topic unloaded and opened again: nothing acknowledged is lost, offsets go on, and nobody finds it missing."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from danube.broker.topics import topic as topic_module
from danube.broker.topics.topic import ReliableTopic
from danube.metadata.records.catalog import Records
from danube.model.calls.client import ClientKind, HealthStatus
from danube.model.calls.stream import Fetch
from danube.model.errors import (
    DanubeError,
    PreconditionFailedError,
    TopicExistsError,
    TopicNotFoundError,
    TopicNotServedError,
    UnavailableError,
)
from danube.model.records.telemetry import TELEMETRY_TOPIC
from danube.model.subscription import SubscriptionType
from danube.model.topic import DispatchStrategy, TopicName
from danube.testing.in_process_broker import Cell, StartBroker
from danube.testing.patience import PATIENCE_S
from danube.testing.peers.stream import StreamPeer, payload_batch


@pytest.fixture
async def filled(cell: Cell, topic: TopicName) -> AsyncIterator[int]:
    """A topic with ten messages, of which one consumer holds all and has acknowledged 0, 1 and 4: the producer's id."""
    producer = await cell.client.create_producer(topic)
    consumer = await cell.client.subscribe(topic)
    inbox = await cell.client.receive(consumer)
    for index in range(10):
        await cell.client.send(topic, producer, b"%d" % index)
    await inbox.take(10)
    for offset in (0, 1, 4):
        await cell.client.acknowledge(topic, offset)
    yield producer
    inbox.close()


async def test_what_was_not_acknowledged_comes_again_and_what_was_does_not(
    cell: Cell, topic: TopicName, filled: int
) -> None:
    await cell.broker.moves.unload(topic)
    await cell.broker.moves.open_again(topic)
    await cell.client.send(topic, filled, b"10")
    inbox = await cell.client.receive(await cell.client.subscribe(topic))
    assert [message.offset for message in await inbox.take(7)] == [2, 3, 5, 6, 7, 8, 9]
    for offset in (2, 3, 5, 6, 7, 8, 9):
        await cell.client.acknowledge(topic, offset)
    assert [(message.offset, message.payload) for message in await inbox.take(1)] == [(10, b"10")]


async def test_an_unload_writes_where_subscriptions_stand_before_it_returns(
    cell: Cell, topic: TopicName, filled: int
) -> None:
    served = cell_topic(cell, topic)
    subscription = served.subscriptions["subscription"].record.subscription_id
    await cell.broker.moves.unload(topic)
    cursor = served.log.cursor(subscription)
    assert filled
    assert cursor is not None
    assert (cursor.position, cursor.beyond) == (2, ((4, 5),))


async def test_each_opening_begins_an_epoch(cell: Cell, topic: TopicName, filled: int) -> None:
    epochs = [cell_epoch(cell, topic)]
    for _ in range(2):
        await cell.broker.moves.unload(topic)
        await cell.broker.moves.open_again(topic)
        await cell.client.send(topic, filled, b"x")
        epochs.append(cell_epoch(cell, topic))
    assert epochs == [1, 2, 3]


async def test_what_was_accepted_before_is_stored_and_answered(cell: Cell, topic: TopicName, filled: int) -> None:
    sends = [asyncio.ensure_future(cell.client.send(topic, filled, b"%d" % index)) for index in range(10, 60)]
    await asyncio.sleep(0)
    await cell.broker.moves.unload(topic)
    outcomes = await asyncio.gather(*sends, return_exceptions=True)
    assert all(isinstance(outcome, int | TopicNotServedError) for outcome in outcomes)
    stored = sum(isinstance(outcome, int) for outcome in outcomes)
    await cell.broker.moves.open_again(topic)
    assert cell_topic(cell, topic).log.durable_end == 10 + stored


async def test_meanwhile_every_call_says_try_again_and_none_that_the_topic_is_missing(
    cell: Cell, topic: TopicName, filled: int
) -> None:
    await cell.broker.moves.unload(topic)
    consumer = 4_711
    for call in (
        cell.client.send(topic, filled, b"x"),
        cell.client.create_producer(topic),
        cell.client.create_producer(topic, "another"),
        cell.client.subscribe(topic),
        cell.client.lookup(topic),
        cell.admin.delete_topic(topic),
    ):
        with pytest.raises(TopicNotServedError):
            await call
    assert await cell.client.partitions(topic) == (topic,)
    assert await cell.client.health(ClientKind.CONSUMER, consumer) is HealthStatus.CLOSE


async def test_a_late_acknowledgement_is_no_failure_of_the_application(
    cell: Cell, topic: TopicName, filled: int
) -> None:
    await cell.broker.moves.unload(topic)
    await cell.client.acknowledge(topic, 2)
    await cell.client.nack(topic, 3)
    await cell.broker.moves.open_again(topic)
    await cell.client.acknowledge(topic, 3)
    inbox = await cell.client.receive(await cell.client.subscribe(topic))
    assert filled
    assert (await inbox.next()).offset == 2


async def test_consumers_of_before_are_known_after_it_and_open_their_streams_without_subscribing(
    cell: Cell, topic: TopicName
) -> None:
    producer = await cell.client.create_producer(topic)
    consumers = [
        await cell.client.subscribe(topic, name=f"c{index}", kind=SubscriptionType.SHARED) for index in range(3)
    ]
    await cell.broker.moves.unload(topic)
    early = await cell.client.receive(consumers[0])
    await cell.broker.moves.open_again(topic)
    inboxes = [await cell.client.receive(consumer) for consumer in consumers]
    for index in range(3):
        await cell.client.send(topic, producer, b"%d" % index)
    assert sorted([(await inbox.next()).payload for inbox in inboxes]) == [b"0", b"1", b"2"]
    assert await early.stream.receive() is None


async def test_a_topic_that_keeps_nothing_is_unloaded_and_opened_too(cell: Cell, topic: TopicName) -> None:
    producer = await cell.client.create_producer(topic, strategy=DispatchStrategy.NON_RELIABLE)
    consumer = await cell.client.subscribe(topic)
    await cell.broker.moves.unload(topic)
    await cell.broker.moves.open_again(topic)
    inbox = await cell.client.receive(consumer)
    await cell.client.send(topic, producer, b"x")
    assert (await inbox.next()).payload == b"x"


async def test_a_journal_that_does_not_get_on_keeps_the_topic_here(
    cell: Cell, topic: TopicName, filled: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic_module, "UNLOAD_TIMEOUT_S", 0.01)
    served = cell_topic(cell, topic)
    served._unsettled += 1
    with pytest.raises(UnavailableError, match="1 publishes that the journal has not answered"):
        await cell.broker.moves.unload(topic)
    served._unsettled -= 1
    await cell.client.send(topic, filled, b"goes on")
    assert served.log.durable_end == 11


async def test_an_unload_that_is_cancelled_at_its_last_step_is_one_all_the_same(
    cell: Cell, topic: TopicName, filled: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def cancelled(_: ReliableTopic) -> None:
        raise asyncio.CancelledError

    monkeypatch.setattr(ReliableTopic, "save_cursors", cancelled)
    with pytest.raises(asyncio.CancelledError):
        await cell.broker.moves.unload(topic)
    with pytest.raises(TopicNotServedError):
        await cell.client.send(topic, filled, b"x")
    await cell.broker.moves.open_again(topic)
    await cell.client.send(topic, filled, b"x")
    inbox = await cell.client.receive(await cell.client.subscribe(topic))
    assert len(await inbox.take(8)) == 8


async def test_streams_of_batches_and_followers_are_told_to_look_elsewhere(cell: Cell, topic: TopicName) -> None:
    channel = cell.carrier.connect(cell.broker.addresses.broker)
    streams = StreamPeer(channel)
    line = await streams.opened(topic)
    await line.send(0, payload_batch(topic, [b"x"]))
    assert await line.stored(1) == [0]
    reader = streams.fetch(Fetch(topic=topic, follow=True))
    await reader.next()
    await cell.broker.moves.unload(topic)
    with pytest.raises(TopicNotServedError):
        await line.stored(1)
    with pytest.raises(TopicNotServedError):
        await reader.next()
    await channel.close()


async def test_a_restart_finds_an_unloaded_topic_where_it_was(start_broker: StartBroker, topic: TopicName) -> None:
    cell = await start_broker()
    producer = await cell.client.create_producer(topic)
    await cell.client.send(topic, producer, b"0")
    await cell.broker.moves.unload(topic)
    cell = await start_broker()
    await cell.client.send(topic, producer, b"1")
    assert cell_topic(cell, topic).log.durable_end == 2


async def test_a_partition_that_is_elsewhere_is_still_a_partition(cell: Cell, topic: TopicName) -> None:
    await cell.admin.create_partitioned_topic(topic, 3)
    await cell.broker.moves.unload(topic.partition(1))
    assert await cell.client.partitions(topic) == tuple(topic.partition(index) for index in range(3))


async def test_what_cannot_be_moved_or_opened_says_why(cell: Cell, topic: TopicName) -> None:
    await cell.client.create_producer(topic)
    for name, error in ((TELEMETRY_TOPIC, PreconditionFailedError), (TopicName("default", "no"), TopicNotFoundError)):
        with pytest.raises(error):
            await cell.broker.moves.unload(name)
    with pytest.raises(TopicExistsError, match="unload it first"):
        await cell.broker.moves.open_again(topic)
    with pytest.raises(TopicNotFoundError):
        await cell.broker.moves.open_again(TopicName("default", "no"))


async def test_topics_are_unloaded_and_opened_while_clients_send_and_subscribe(
    cell: Cell, topic: TopicName, filled: int
) -> None:
    async def send() -> int:
        stored = 0
        for index in range(200):
            try:
                await cell.client.send(topic, filled, b"%d" % index)
            except DanubeError as error:
                assert isinstance(error, TopicNotServedError)
            else:
                stored += 1
        return stored

    async def move() -> None:
        for _ in range(5):
            await cell.broker.moves.unload(topic)
            await cell.broker.moves.open_again(topic)

    stored, _ = await asyncio.gather(send(), move())
    assert cell_topic(cell, topic).log.durable_end == 10 + stored


def cell_epoch(cell: Cell, name: TopicName) -> int:
    """The epoch under which the broker writes a topic."""
    return cell.broker.moves.topics._storage.epoch(cell_topic(cell, name).record.topic_id)


def cell_topic(cell: Cell, name: TopicName) -> ReliableTopic:
    """The broker's own view of a topic."""
    found = cell.broker.moves.topics.find(str(name))
    assert isinstance(found, ReliableTopic)
    return found


async def test_a_consumer_that_subscribes_while_its_topic_is_opened_again_follows_the_next_move(
    cell: Cell, topic: TopicName, monkeypatch: pytest.MonkeyPatch
) -> None:
    await cell.client.create_producer(topic)
    await cell.client.subscribe(topic)
    listing, putting, opened = asyncio.Event(), asyncio.Event(), asyncio.Event()
    consumers, put_consumer = Records.consumers, Records.put_consumer

    async def list_meanwhile(records: Records, *of: Any) -> Any:
        found = await consumers(records, *of)
        listing.set()
        await putting.wait()
        return found

    async def put_after(records: Records, *of: Any) -> None:
        putting.set()
        await opened.wait()
        await put_consumer(records, *of)

    await cell.broker.moves.unload(topic)
    with monkeypatch.context() as patched:
        patched.setattr(Records, "consumers", list_meanwhile)
        patched.setattr(Records, "put_consumer", put_after)
        async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as both:
            opening = both.create_task(cell.broker.moves.open_again(topic))
            await listing.wait()
            subscribing = both.create_task(cell.client.subscribe(topic))
            await opening
            opened.set()
    inbox = await cell.client.receive(subscribing.result())
    await cell.broker.moves.unload(topic)
    await cell.broker.moves.open_again(topic)
    assert await cell.client.health(ClientKind.CONSUMER, subscribing.result()) is HealthStatus.CLOSE
    inbox.close()
