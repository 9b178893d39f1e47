"""Consumers that end: the message that one had longest counts as failed, unless the end was in good order."""

import asyncio

import pytest

from danube.broker.subscriptions.subscription import ReliableSubscription
from danube.client import DanubeClient, DanubeClientBuilder
from danube.client.consume.consumer import Consumer
from danube.model.policies import FailurePolicy, PoisonPolicy
from danube.model.subscription import SubscriptionType
from danube.model.topic import TopicName
from danube.rpc.carrier import Channel
from danube.rpc.http2.client.channel import Http2Channel
from danube.testing.in_process_broker import Cell, StartBroker
from danube.testing.patience import LONG_S, PATIENCE_S
from danube.testing.peers.client import Peer

DEAD_LETTERS = TopicName("default", "failed")
POLICY = FailurePolicy(
    ack_timeout_ms=round(LONG_S * 1_000),
    max_redelivery_count=2,
    base_redelivery_delay_ms=1,
    max_redelivery_delay_ms=1,
    poison=PoisonPolicy.DEAD_LETTER,
    dead_letter_topic=DEAD_LETTERS,
)
TYPES = pytest.mark.parametrize("kind", list(SubscriptionType))


class PoisonError(Exception):
    """What a message does to an application."""


async def prepare(cell: Cell, topic: TopicName, kind: SubscriptionType, count: int = 5) -> None:
    """A subscription with messages, the first of which is poison."""
    producer = await cell.client.create_producer(topic)
    await cell.admin.create_subscription(topic, kind=kind)
    await cell.admin.set_failure_policy(topic, POLICY)
    for index in range(count):
        await cell.client.send(topic, producer, f"message {index}".encode())


async def failed(cell: Cell, topic: TopicName) -> dict[int, int]:
    """How often each message failed, as it is stored."""
    await cell.broker.moves.unload(topic)
    await cell.broker.moves.open_again(topic)
    (subscription,) = cell.broker.moves.topics.get(topic).subscriptions.values()
    assert isinstance(subscription, ReliableSubscription)
    ranges = subscription.driver.engine.cursor.failed
    return {offset: failures for start, end, failures in ranges for offset in range(start, end)}


async def connected(cell: Cell, topic: TopicName) -> list[int]:
    """The ids of the consumers."""
    connections, _ = await cell.admin.connections(topic)
    return [each.client_id for each in connections if each.subscription is not None]


async def all_gone(cell: Cell, topic: TopicName) -> None:
    """Return when the broker knows that no consumer is connected."""
    async with asyncio.timeout(PATIENCE_S):
        while await connected(cell, topic):
            pass


def cut(channel: Channel) -> None:
    """Have the connection break, as when a process dies."""
    assert isinstance(channel, Http2Channel)
    connection = channel.ready()
    assert connection is not None
    connection.abort()


async def built(cell: Cell) -> DanubeClient:
    url = f"http://{cell.broker.addresses.broker}"
    return await DanubeClientBuilder().service_url(url).with_carrier(cell.carrier).build()


def consumer_of(client: DanubeClient, topic: TopicName, kind: SubscriptionType) -> Consumer:
    building = client.new_consumer().with_topic(str(topic)).with_consumer_name("consumer")
    return building.with_subscription("subscription").with_subscription_type(kind).build()


async def read_first(consumer: Consumer) -> None:
    async with asyncio.timeout(PATIENCE_S):
        await (await consumer.receive()).get()


@TYPES
async def test_a_message_that_ends_every_consumer_becomes_a_dead_letter_and_the_others_are_read(
    start_broker: StartBroker, topic: TopicName, kind: SubscriptionType
) -> None:
    cell = await start_broker(key_shared_grace_s=0)
    await prepare(cell, topic, kind)
    await cell.client.create_producer(DEAD_LETTERS)
    dead_letters = await cell.client.receive(await cell.client.subscribe(DEAD_LETTERS))
    read: list[bytes] = []
    for life in range(POLICY.max_redelivery_count + 1):
        channel = cell.carrier.connect(cell.broker.addresses.broker)
        peer = Peer(channel)
        inbox = await peer.receive(await peer.subscribe(topic, name=f"consumer {life}", kind=kind))
        async with asyncio.timeout(PATIENCE_S):
            while (message := await inbox.next()).offset:
                await peer.acknowledge(topic, message.offset)
                read.append(message.payload)
        cut(channel)
        await all_gone(cell, topic)
        await channel.close()
    inbox = await cell.client.receive(await cell.client.subscribe(topic, name="consumer 9", kind=kind))
    async with asyncio.timeout(PATIENCE_S):
        while len(read) < 4:
            message = await inbox.next()
            await cell.client.acknowledge(topic, message.offset)
            read.append(message.payload)
        dead_letter = await dead_letters.next()
    assert sorted(read) == [b"message 1", b"message 2", b"message 3", b"message 4"]
    assert (dead_letter.payload, dead_letter.attributes["x-failure-reason"]) == (b"message 0", "consumer disconnected")


@TYPES
async def test_an_official_client_that_ends_its_stream_fails_nothing_and_changes_no_order(
    cell: Cell, topic: TopicName, kind: SubscriptionType
) -> None:
    await prepare(cell, topic, kind)
    for _ in range(POLICY.max_redelivery_count + 2):
        inbox = await cell.client.receive(await cell.client.subscribe(topic, kind=kind))
        async with asyncio.timeout(PATIENCE_S):
            assert (await inbox.next()).payload == b"message 0"
        inbox.close()
        await all_gone(cell, topic)
    assert await failed(cell, topic) == {}


@TYPES
async def test_a_consumer_of_ours_that_closes_fails_nothing_however_often(
    cell: Cell, topic: TopicName, kind: SubscriptionType
) -> None:
    await prepare(cell, topic, kind)
    for _ in range(POLICY.max_redelivery_count + 2):
        async with await built(cell) as client, consumer_of(client, topic, kind) as consumer:
            await read_first(consumer)
        await all_gone(cell, topic)
    assert await failed(cell, topic) == {}


async def test_an_application_that_fails_at_a_message_counts_though_it_closes_its_consumer(
    cell: Cell, topic: TopicName
) -> None:
    await prepare(cell, topic, SubscriptionType.SHARED)
    with pytest.raises(PoisonError):
        async with await built(cell) as client, consumer_of(client, topic, SubscriptionType.SHARED) as consumer:
            await read_first(consumer)
            raise PoisonError
    await all_gone(cell, topic)
    client = await built(cell)
    consumer = consumer_of(client, topic, SubscriptionType.SHARED)
    await consumer.subscribe()
    with pytest.raises(PoisonError):
        try:
            await read_first(consumer)
            raise PoisonError
        finally:
            await client.close()
    await all_gone(cell, topic)
    assert await failed(cell, topic) == {0: 2}


async def test_consumers_that_are_sent_away_fail_nothing(start_broker: StartBroker, topic: TopicName) -> None:
    cell = await start_broker()
    await prepare(cell, topic, SubscriptionType.SHARED)
    for _ in range(POLICY.max_redelivery_count + 1):
        inbox = await cell.client.receive(await cell.client.subscribe(topic, kind=SubscriptionType.SHARED))
        await inbox.next()
        await cell.admin.disconnect(topic, (await connected(cell, topic))[0])
    await cell.client.receive(await cell.client.subscribe(topic, kind=SubscriptionType.SHARED))
    assert await failed(cell, topic) == {}
    await cell.client.receive(await cell.client.subscribe(topic, kind=SubscriptionType.SHARED))
    cell = await start_broker()
    assert await failed(cell, topic) == {}


async def test_disconnects_fail_nothing_where_the_settings_say_so(start_broker: StartBroker, topic: TopicName) -> None:
    cell = await start_broker(disconnects_fail=False)
    await prepare(cell, topic, SubscriptionType.SHARED)
    for _ in range(POLICY.max_redelivery_count + 1):
        inbox = await cell.client.receive(await cell.client.subscribe(topic, kind=SubscriptionType.SHARED))
        await inbox.next()
        inbox.close()
        await all_gone(cell, topic)
    assert await failed(cell, topic) == {}


async def test_a_consumer_is_not_closed_from_another_connection(cell: Cell, topic: TopicName) -> None:
    await prepare(cell, topic, SubscriptionType.SHARED)
    identity = await cell.client.subscribe(topic, kind=SubscriptionType.SHARED)
    await cell.client.receive(identity)
    cell.broker.moves._consumers.close(identity, "10.0.0.1:1")
    assert await connected(cell, topic) == [identity]
    cell.broker.moves._consumers.close(identity, "memory:1")
    cell.broker.moves._consumers.close(99, "memory:1")
    assert await connected(cell, topic) == []
