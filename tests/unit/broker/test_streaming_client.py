"""Our client against a broker, once with streams and once with single calls: the promises are the same."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from danube.broker.subscriptions.subscription import ReliableSubscription
from danube.client import Consumer, DanubeClient, DanubeClientBuilder, FetchFrom, Message, SubType
from danube.client.consume.consumer import ConsumerBuilder
from danube.client.metrics import Metrics
from danube.model.errors import ConsumerReplacedError, MessageTooLargeError, UnrecoverableError
from danube.model.limits.broker import MESSAGE_BYTES_MAX
from danube.model.topic import DispatchStrategy, TopicName
from danube.testing.in_process_broker import Cell, StartBroker
from danube.testing.patience import PATIENCE_S

WAYS = pytest.mark.parametrize("streams", [True, False], ids=["streams", "calls"])
TYPES = pytest.mark.parametrize("kind", list(SubType))


@pytest.fixture
async def cell(start_broker: StartBroker) -> Cell:
    """A broker whose window for single messages holds all that a test sends."""
    return await start_broker(max_unacked_messages=100)


@pytest.fixture
async def client(cell: Cell) -> AsyncIterator[DanubeClient]:
    builder = DanubeClientBuilder().service_url(f"http://{cell.broker.addresses.broker}").with_carrier(cell.carrier)
    async with await builder.build() as client:
        yield client


def builder_of(
    client: DanubeClient, topic: TopicName, *, streams: bool, kind: SubType = SubType.SHARED
) -> ConsumerBuilder:
    builder = client.new_consumer().with_topic(str(topic)).with_consumer_name("c").with_subscription("sub")
    return builder.with_subscription_type(kind).with_streams(streams)


async def publish(client: DanubeClient, topic: TopicName, count: int, first: int = 0) -> None:
    producer = client.new_producer().with_topic(str(topic)).with_name("p")
    async with producer.with_dispatch_strategy(DispatchStrategy.RELIABLE).build() as sender:
        await sender.send_many(b"%d" % number for number in range(first, first + count))


async def subscribed(cell: Cell, client: DanubeClient, topic: TopicName, builder: ConsumerBuilder) -> Consumer:
    await cell.client.create_producer(topic)
    consumer = builder.build()
    await consumer.subscribe()
    return consumer


async def take(consumer: Consumer, count: int) -> list[Message]:
    found: list[Message] = []
    async with asyncio.timeout(PATIENCE_S):
        while len(found) < count:
            found += await consumer.receive_many(count - len(found))
    return found


def subscription_of(cell: Cell, topic: TopicName) -> ReliableSubscription:
    (subscription,) = cell.broker.moves.topics.get(topic).subscriptions.values()
    assert isinstance(subscription, ReliableSubscription)
    return subscription


def position(cell: Cell, topic: TopicName) -> int:
    return subscription_of(cell, topic).driver.engine.position


@WAYS
@TYPES
async def test_many_messages_are_received_in_order_and_acknowledged_up_to_the_last(
    cell: Cell, client: DanubeClient, topic: TopicName, streams: bool, kind: SubType
) -> None:
    consumer = await subscribed(cell, client, topic, builder_of(client, topic, streams=streams, kind=kind))
    await publish(client, topic, 50)
    if kind is SubType.KEY_SHARED:  # one message of a key at a time
        for number in range(50):
            (message,) = await take(consumer, 1)
            assert message.payload == b"%d" % number
            await consumer.ack(message)
    else:
        found = await take(consumer, 50)
        assert [each.payload for each in found] == [b"%d" % number for number in range(50)]
        await consumer.ack_up_to(found[-1])
    assert position(cell, topic) == 50


@WAYS
async def test_each_way_to_acknowledge_counts(
    cell: Cell, client: DanubeClient, topic: TopicName, streams: bool
) -> None:
    consumer = await subscribed(cell, client, topic, builder_of(client, topic, streams=streams))
    await publish(client, topic, 20)
    found = await take(consumer, 20)
    await consumer.ack(found[0])
    await consumer.ack_range(found[1], found[4])
    await consumer.ack_many(found[5:8])
    await consumer.ack_later(found[8])
    await consumer.flush_acks()
    assert position(cell, topic) == 9
    await consumer.ack_up_to(found[19], waits=False)
    await consumer.close()
    assert position(cell, topic) == 20


@WAYS
async def test_nacked_messages_come_again(cell: Cell, client: DanubeClient, topic: TopicName, streams: bool) -> None:
    consumer = await subscribed(cell, client, topic, builder_of(client, topic, streams=streams))
    await publish(client, topic, 10)
    found = await take(consumer, 10)
    await consumer.nack_range(found[3], found[5], delay_ms=0)
    again = await take(consumer, 3)
    assert sorted(each.offset for each in again) == [3, 4, 5]
    await consumer.ack_many([*found, *again])
    assert position(cell, topic) == 10
    assert subscription_of(cell, topic).nacked == 3


@WAYS
async def test_loop_goes_on_where_the_topic_is_moved_to(
    cell: Cell, client: DanubeClient, topic: TopicName, streams: bool
) -> None:
    consumer = await subscribed(cell, client, topic, builder_of(client, topic, streams=streams))
    await publish(client, topic, 10)
    seen: set[int] = set()
    moved = False
    async with asyncio.timeout(PATIENCE_S):
        async for message in consumer:
            seen.add(message.offset)
            await consumer.ack(message)
            if len(seen) == 5 and not moved:
                moved = True
                await cell.broker.moves.unload(topic)
                await cell.broker.moves.open_again(topic)
            if len(seen) == 10:
                break
    assert seen == set(range(10))


@WAYS
async def test_restarted_broker_is_found_again_and_nothing_is_lost(
    start_broker: StartBroker, cell: Cell, topic: TopicName, streams: bool
) -> None:
    async with await connected(cell) as first:
        consumer = await subscribed(cell, first, topic, builder_of(first, topic, streams=streams))
        await publish(first, topic, 10)
        found = await take(consumer, 10)
        await consumer.ack_range(found[0], found[5])
    again = await start_broker(max_unacked_messages=100)
    async with await connected(again) as second:
        consumer = builder_of(second, topic, streams=streams).build()
        await consumer.subscribe()
        assert [each.offset for each in await take(consumer, 4)] == [6, 7, 8, 9]


async def connected(cell: Cell) -> DanubeClient:
    builder = DanubeClientBuilder().service_url(f"http://{cell.broker.addresses.broker}")
    return await builder.with_carrier(cell.carrier).build()


async def test_prefetch_is_bounded_in_bytes(cell: Cell, client: DanubeClient, topic: TopicName) -> None:
    builder = builder_of(client, topic, streams=True, kind=SubType.EXCLUSIVE).with_prefetch_bytes(64 * 1024)
    consumer = await subscribed(cell, client, topic, builder)
    producer = client.new_producer().with_topic(str(topic)).with_name("p")
    async with producer.with_dispatch_strategy(DispatchStrategy.RELIABLE).build() as sender:
        for _ in range(20):
            await sender.send_many([b"x" * 10_000])
    await take(consumer, 1)
    assert sent(cell, topic) < 12
    await take(consumer, 19)
    assert sent(cell, topic) == 20


def sent(cell: Cell, topic: TopicName) -> int:
    return subscription_of(cell, topic).counts.messages


async def test_new_subscription_begins_where_it_is_asked_to(cell: Cell, client: DanubeClient, topic: TopicName) -> None:
    await publish(client, topic, 5)
    consumer = builder_of(client, topic, streams=True).with_start(FetchFrom.EARLIEST).build()
    await consumer.subscribe()
    assert [each.offset for each in await take(consumer, 5)] == [0, 1, 2, 3, 4]


async def test_second_consumer_of_a_name_ends_the_first_with_the_reason(
    cell: Cell, client: DanubeClient, topic: TopicName
) -> None:
    first = await subscribed(cell, client, topic, builder_of(client, topic, streams=True))
    await first.receive_many(timeout_s=0.01)
    second = builder_of(client, topic, streams=True).build()
    await second.subscribe()
    await second.receive_many(timeout_s=0.01)
    async with asyncio.timeout(PATIENCE_S):
        with pytest.raises(ConsumerReplacedError):
            await first.receive_many()


async def test_messages_of_a_topic_that_is_not_reliable_come_one_by_one(
    cell: Cell, client: DanubeClient, topic: TopicName
) -> None:
    producer = client.new_producer().with_topic(str(topic)).with_name("p").build()
    await producer.create()
    consumer = builder_of(client, topic, streams=True).build()
    await consumer.subscribe()
    await consumer.receive()
    await producer.send(b"x")
    queue = await consumer.receive()
    assert (await asyncio.wait_for(queue.get(), PATIENCE_S)).payload == b"x"


async def test_hooks_see_what_the_application_does(cell: Cell, client: DanubeClient, topic: TopicName) -> None:
    class Counting(Metrics):
        got = done = refused = 0

        def received(self, topic: str, messages: object) -> None:
            self.got += len(messages)  # type: ignore[arg-type]

        def acknowledged(self, topic: str, count: int) -> None:
            self.done += count

        def nacked(self, topic: str, count: int) -> None:
            self.refused += count

    counting = Counting()
    builder = builder_of(client, topic, streams=True).with_metrics(counting)
    consumer = await subscribed(cell, client, topic, builder)
    await publish(client, topic, 4)
    found = await take(consumer, 4)
    await consumer.nack(found[3])
    await consumer.ack_up_to(found[2])
    assert (counting.got, counting.done, counting.refused) == (4, 3, 1)


async def test_hooks_see_what_is_sent_once_a_batch_where_batches_are_sent(
    client: DanubeClient, topic: TopicName
) -> None:
    class Counting(Metrics):
        def __init__(self) -> None:
            self.sends: list[int] = []
            self.failed: list[str] = []

        def sent(self, topic: str, count: int, seconds: float) -> None:
            assert topic == "/default/orders"
            assert 0 <= seconds < PATIENCE_S
            self.sends.append(count)

        def send_failed(self, topic: str, error: Exception) -> None:
            self.failed.append(type(error).__name__)

    counting = Counting()
    builder = client.new_producer().with_topic(str(topic)).with_name("p").with_metrics(counting)
    async with builder.with_dispatch_strategy(DispatchStrategy.RELIABLE).build() as producer:
        await producer.send(b"x")
        assert counting.sends == [1]
        await asyncio.gather(*(producer.send(b"x") for _ in range(50)))
        assert counting.sends == [1] * 51
        await producer.send_many([b"x"] * 40)
        await producer.send_many_with_keys([("k", b"x")] * 60)
        assert sum(counting.sends[51:]) == 100
        assert len(counting.sends) < 60
        too_large = bytes(MESSAGE_BYTES_MAX + 1)
        with pytest.raises(MessageTooLargeError):
            await producer.send(too_large)
        with pytest.raises(MessageTooLargeError):
            await producer.send_many([too_large])
    assert counting.failed == ["MessageTooLargeError"] * 2


async def test_closed_consumer_says_so(cell: Cell, client: DanubeClient, topic: TopicName) -> None:
    consumer = await subscribed(cell, client, topic, builder_of(client, topic, streams=True))
    await publish(client, topic, 1)
    (message,) = await take(consumer, 1)
    await consumer.close()
    with pytest.raises(UnrecoverableError, match="closed"):
        await consumer.ack(message)
    with pytest.raises(UnrecoverableError, match="closed"):
        await consumer.receive_many()
    engine = subscription_of(cell, topic).driver.engine
    assert (engine.in_flight, engine.cursor.failed) == (0, ())
