"""Slow applications: what waits in a client does not fail, whatever the work takes, and nothing is sent twice.

A whole broker and our client on one simulated clock, with the default acknowledgement timeout of 30 s.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from danube.broker.app import Broker
from danube.broker.config.settings import BrokerSettings
from danube.broker.dispatch.events import Seek
from danube.broker.environment import Environment
from danube.broker.subscriptions.subscription import ReliableSubscription
from danube.client import Consumer, DanubeClient, DanubeClientBuilder, DispatchStrategy, SubType
from danube.client.consume.consumer import ConsumerBuilder
from danube.model.limits.stream import CLIENT_PREFETCH_MESSAGES
from danube.model.topic import TopicName
from danube.runtime.clock import sleep_for
from danube.runtime.tasks import TaskScope
from danube.testing.patience import PATIENCE_S
from danube.testing.simulated.clock import SimClock
from danube.testing.simulated.network import MemoryCarrier

TOPIC = "/default/work"


class Place:
    """A broker and a client in simulated time."""

    def __init__(self, clock: SimClock, broker: Broker, client: DanubeClient) -> None:
        self.clock = clock
        self.broker = broker
        self.client = client
        self.scope = TaskScope("applications")
        self.seen: list[int] = []
        """Offsets in the order in which applications took them."""

    async def publish(self, count: int, size: int = 8, keys: int = 0) -> None:
        building = self.client.new_producer().with_topic(TOPIC).with_name("p")
        async with building.with_dispatch_strategy(DispatchStrategy.RELIABLE).build() as producer:
            if keys:
                await producer.send_many_with_keys((f"k{each % keys}", b"x" * size) for each in range(count))
            else:
                await producer.send_many(b"x" * size for _ in range(count))

    def builder(self, kind: SubType, name: str = "c") -> ConsumerBuilder:
        builder = self.client.new_consumer().with_topic(TOPIC).with_subscription("sub").with_consumer_name(name)
        return builder.with_subscription_type(kind)

    async def consumer(self, kind: SubType, name: str = "c", *, streams: bool = True) -> Consumer:
        consumer = self.builder(kind, name).with_streams(streams).build()
        await consumer.subscribe()
        return consumer

    @property
    def subscription(self) -> ReliableSubscription:
        (found,) = self.broker.moves.topics.get(TopicName.parse(TOPIC)).subscriptions.values()
        assert isinstance(found, ReliableSubscription)
        found.driver.engine.validate()
        return found

    async def until(self, reached: Callable[[], bool], *, within_s: float) -> None:
        """Let simulated time pass, a second at most at a time, until the state is reached."""
        end_s = self.clock.monotonic_s() + within_s
        async with asyncio.timeout(PATIENCE_S):
            while not reached():
                assert self.clock.monotonic_s() < end_s, f"not reached: {len(self.seen)} seen"
                await asyncio.sleep(0)
                await self.clock.run_for(1.0)

    def check(self, count: int) -> None:
        """Every message came once, none failed and none was sent again."""
        assert sorted(self.seen) == list(range(count))
        engine = self.subscription.driver.engine
        assert (engine.cursor.position, engine.cursor.failed, engine.is_blocked) == (count, (), False)
        assert self.subscription.counts.redelivered == 0


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    clock = SimClock()
    carrier = MemoryCarrier(clock)
    settings = BrokerSettings.model_validate(
        {"data_dir": tmp_path / "data", "broker_addr": "memory:0", "admin_addr": "memory:0"}
    )
    broker = await Broker.start(settings, Environment(clock=clock, carrier=carrier))
    builder = DanubeClientBuilder().service_url(f"http://{broker.addresses.broker}").with_carrier(carrier)
    client = await builder.with_clock(clock).build()
    place = Place(clock, broker, client)
    yield place
    closing = TaskScope("closing")
    closed = closing.spawn(client.close(), "client")
    while not closed.done():
        await clock.run_for(1.0)
        await asyncio.sleep(0)
    await place.scope.close()
    stopped = closing.spawn(broker.stop(), "broker")
    while not stopped.done():
        await clock.run_for(1.0)
        await asyncio.sleep(0)
    await closing.close()


async def one_by_one(place: Place, consumer: Consumer, work_s: float) -> None:
    async for message in consumer:
        place.seen.append(message.offset)
        await sleep_for(place.clock, work_s)
        await consumer.ack(message)


async def from_the_queue(place: Place, consumer: Consumer, work_s: float) -> None:
    queue = await consumer.receive()
    while True:
        message = await queue.get()
        place.seen.append(message.offset)
        await sleep_for(place.clock, work_s)
        await consumer.ack_later(message)


async def many(place: Place, consumer: Consumer, work_s: float) -> None:
    while True:
        messages = await consumer.receive_many()
        place.seen += [message.offset for message in messages]
        await sleep_for(place.clock, work_s * len(messages))
        await consumer.ack_many(messages)


async def many_with_answers_in_between(place: Place, consumer: Consumer, work_s: float) -> None:
    while True:
        for message in await consumer.receive_many():
            place.seen.append(message.offset)
            await sleep_for(place.clock, work_s)
            await consumer.ack(message)


Work = Callable[[Place, Consumer, float], Awaitable[None]]
WAYS = pytest.mark.parametrize("work", [one_by_one, from_the_queue, many, many_with_answers_in_between])


@WAYS
@pytest.mark.parametrize(("work_s", "count"), [(0.001, 500), (0.25, 300), (300.0, 4)])
async def test_slow_application_gets_each_message_once_and_is_never_blocked(
    place: Place, work: Callable[..., Awaitable[None]], work_s: float, count: int
) -> None:
    await place.publish(0)
    consumer = await place.consumer(SubType.EXCLUSIVE)
    await place.publish(count)
    place.scope.spawn(work(place, consumer, work_s), "application")  # type: ignore[arg-type]  # a coroutine
    engine = place.subscription.driver.engine
    await place.until(lambda: engine.position == count, within_s=2 * work_s * count + 60)
    place.check(count)
    assert place.seen == sorted(place.seen)


@pytest.mark.parametrize("kind", [SubType.SHARED, SubType.KEY_SHARED])
@pytest.mark.parametrize(("work_s", "count"), [(0.25, 300), (100.0, 9)])
async def test_slow_consumers_share_and_each_message_comes_once(
    place: Place, kind: SubType, work_s: float, count: int
) -> None:
    await place.publish(0)
    consumers = [await place.consumer(kind, name) for name in ("one", "two", "three")]
    await place.publish(count, keys=count)
    for consumer in consumers:
        place.scope.spawn(one_by_one(place, consumer, work_s), "application")
    engine = place.subscription.driver.engine
    await place.until(lambda: engine.position == count, within_s=2 * work_s * count + 60)
    place.check(count)


async def test_what_waits_in_an_idle_consumer_goes_to_another_within_the_timeout(place: Place) -> None:
    await place.publish(0)
    idle, working = await place.consumer(SubType.SHARED, "idle"), await place.consumer(SubType.SHARED, "working")
    await place.publish(40)
    stop = asyncio.Event()

    async def stops() -> None:
        async for message in idle:
            place.seen.append(message.offset)
            await idle.ack(message)
            if len(place.seen) == 5:
                await stop.wait()

    place.scope.spawn(stops(), "idle")
    await place.until(lambda: len(place.seen) == 5, within_s=10)
    place.scope.spawn(one_by_one(place, working, 0.01), "working")
    await place.until(lambda: len(place.seen) == 40, within_s=65)
    await place.publish(1)
    stop.set()
    await place.until(lambda: place.subscription.driver.engine.position == 41, within_s=65)
    place.check(41)


async def test_application_that_stands_still_at_a_message_loses_it_to_another(place: Place) -> None:
    await place.publish(0)
    still, other = await place.consumer(SubType.SHARED, "still"), await place.consumer(SubType.SHARED, "other")
    await place.publish(1)
    await place.clock.run_for(0.1)
    (message,) = await still.receive_many(1)
    place.scope.spawn(one_by_one(place, other, 0.0), "other")
    await place.clock.run_for(350.0)
    assert place.seen == []
    await place.until(lambda: place.seen == [message.offset], within_s=60)


async def test_message_that_the_application_forgot_comes_again_once_it_waits_for_more(place: Place) -> None:
    await place.publish(0)
    consumer = await place.consumer(SubType.EXCLUSIVE)
    await place.publish(3)

    async def forgetful() -> None:
        async for message in consumer:
            place.seen.append(message.offset)
            if message.offset != 1 or place.seen.count(1) == 2:
                await consumer.ack(message)

    place.scope.spawn(forgetful(), "forgetful")
    await place.clock.run_for(29.0)
    assert place.seen == [0, 1, 2]
    await place.until(lambda: place.seen == [0, 1, 2, 1], within_s=5)


@pytest.mark.parametrize("kind", [SubType.EXCLUSIVE, SubType.SHARED])
async def test_single_calls_fail_nothing_while_each_message_is_answered_within_the_timeout(
    place: Place, kind: SubType
) -> None:
    await place.publish(0)
    consumer = await place.consumer(kind, streams=False)
    await place.publish(60)
    place.scope.spawn(one_by_one(place, consumer, 20.0), "application")
    engine = place.subscription.driver.engine
    await place.until(lambda: engine.position == 60, within_s=1_300)
    place.check(60)


async def test_seek_gives_the_credit_back_of_what_it_made_void(place: Place) -> None:
    await place.publish(0)
    consumer = place.builder(SubType.EXCLUSIVE).with_prefetch_bytes(1_000).build()
    await consumer.subscribe()
    await place.publish(50, size=100)
    place.scope.spawn(one_by_one(place, consumer, 0.001), "application")
    for _ in range(20):
        await place.until(lambda: place.subscription.driver.engine.position == 50, within_s=60)
        place.subscription.driver.handle(Seek(0))
    await place.until(lambda: place.subscription.driver.engine.position == 50, within_s=60)


async def test_prefetch_of_one_message_is_one_message(place: Place) -> None:
    await place.publish(0)
    for name, builder in {
        "bytes": place.builder(SubType.SHARED, "bytes").with_prefetch_bytes(1),
        "messages": place.builder(SubType.SHARED, "messages").with_prefetch_messages(1),
    }.items():
        consumer = builder.build()
        await consumer.subscribe()
        await place.publish(10)
        for _ in range(3):
            await place.clock.run_for(0.1)
            (message,) = await consumer.receive_many(1)
            await place.clock.run_for(2.0)
            assert place.subscription.driver.engine.in_flight == 2, name
            await consumer.ack(message)
        await consumer.close()


async def test_one_message_waits_behind_slow_work_once_its_rate_is_known(place: Place) -> None:
    await place.publish(0)
    consumer = place.builder(SubType.SHARED).build()
    await consumer.subscribe()
    await place.publish(CLIENT_PREFETCH_MESSAGES + 20)
    for _ in range(CLIENT_PREFETCH_MESSAGES):
        (message,) = await consumer.receive_many(1)
        await place.clock.run_for(2.0)
        await consumer.ack(message)
    await consumer.receive_many(1)
    await place.clock.run_for(0.1)
    assert place.subscription.driver.engine.in_flight == 2
