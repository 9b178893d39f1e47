"""Telemetry on simulated time and disk: what it publishes, and that nothing it meets makes it fail or spin."""

import asyncio
import errno
import itertools
import logging
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from danube.broker.dispatch.driver import DispatchSettings
from danube.broker.dispatch.redelivery import RedeliveryPolicy
from danube.broker.ownership.owner import TopicOwner
from danube.broker.subscriptions.subscription import AnySubscription
from danube.broker.telemetry.changes import Entity, Mark
from danube.broker.telemetry.publisher import Telemetry, TelemetrySource
from danube.broker.telemetry.readings import (
    mark_subscription,
    mark_topic,
    read_subscription,
    read_topic,
)
from danube.broker.topics.drain import Cause, ClientDrain
from danube.broker.topics.local_topics import Topics
from danube.broker.topics.topic import ReliableTopic
from danube.metadata.memory import MemoryStore
from danube.metadata.records.catalog import Records
from danube.metadata.records.storage import StorageRecords
from danube.model.errors import OverloadedError
from danube.model.limits.broker import KIB, MIB, TELEMETRY_SLICE_S
from danube.model.records.telemetry import TELEMETRY_TOPIC, BrokerReading, Reading, Stamp, decode_record
from danube.model.subscription import Cursor, SubscriptionType
from danube.model.topic import DispatchStrategy, TopicName
from danube.rpc.carrier import Caller
from danube.runtime.blocking import InlineRunner
from danube.runtime.process import ProcessUsage
from danube.runtime.rng import SystemRng
from danube.runtime.tasks import TaskScope
from danube.storage.store import Storage
from danube.testing.simulated.clock import SimClock
from danube.testing.simulated.disk import Operation
from tests.unit.broker.storage_scene import World
from tests.unit.storage.journal_world import Told, content

INTERVAL_S = 5.0
FULL_TICKS = 12
RELIABLE = DispatchStrategy.RELIABLE


class Usage:
    asked = 0

    def usage(self) -> ProcessUsage:
        self.asked += 1
        return ProcessUsage(1.5, 4_096)


class TellTale:
    """A broker's topics, and telemetry that ticks when the test says."""

    def __init__(self, world: World, storage: Storage, topics: Topics, records: Records) -> None:
        self.world = world
        self.storage = storage
        self.topics = topics
        self.records = records
        self._ids = itertools.count(1_000)
        self.usage = Usage()
        self.telemetry = self.make()

    def make(self, **more: Any) -> Telemetry:
        source = TelemetrySource(broker_id=7, start_id=8, broker_url="http://here", version="1.2.3")
        clock = more.pop("clock", self.world.clock)
        given = {"clock": clock, "process": self.usage, "runner": InlineRunner(), **more}
        return Telemetry(self.topics, self.storage, source, **given)

    async def topic(self, name: str, strategy: DispatchStrategy = RELIABLE, subscription: str | None = None) -> None:
        await self.topics.create(TopicName.parse(name), strategy, None)
        if subscription is not None:
            await self.subscription(name, subscription)

    async def subscription(self, topic_name: str, name: str) -> None:
        topic, identity = self.topics.get(TopicName.parse(topic_name)), next(self._ids)
        if isinstance(topic, ReliableTopic):
            saved = Told()
            topic.log.save_cursor(identity, Cursor(0), saved)
            assert await saved.outcome() is None
        record = await self.records.create_subscription(topic.record.name, name, SubscriptionType.SHARED, identity, 0)
        self.topics.open_subscription(topic, record)

    async def publish(self, name: str) -> None:
        told = Told()
        found = self.topics.find(name)
        assert found is not None
        found.publish(b"", told)
        assert await told.outcome() is None

    async def tick(self) -> int:
        await self.world.clock.run_for(INTERVAL_S)
        return await self.telemetry.tick()

    async def told(self) -> list[tuple[Stamp, Reading]]:
        topic = self.topics.find(str(TELEMETRY_TOPIC))
        assert isinstance(topic, ReliableTopic)
        found = [decode_record(record) for record in await content(topic.log)]
        return [each for each in found if each is not None]


@pytest.fixture
async def world() -> AsyncIterator[World]:
    world = World()
    yield world
    await world.close()


@pytest.fixture
async def broker(world: World) -> AsyncIterator[TellTale]:
    storage = await world.open()
    store = MemoryStore(world.clock)
    records = Records(store)
    for namespace in ("default", "system"):
        await records.ensure_namespace(namespace)
    tasks = TaskScope("test")
    dispatch = DispatchSettings(window=10, policy=RedeliveryPolicy())
    owner = TopicOwner(storage, StorageRecords(store, SystemRng()), 0, is_alone=True)
    topics = Topics(records=records, storage=storage, owner=owner, clock=world.clock, tasks=tasks, dispatch=dispatch)
    yield TellTale(world, storage, topics, records)
    for topic in list(topics):
        topic.close(ClientDrain(Cause.GOING_DOWN, topic.name))
    await tasks.close()


async def test_an_idle_broker_publishes_nothing_between_full_rounds(broker: TellTale) -> None:
    await broker.topic("/default/orders", subscription="s")
    sizes = [await broker.tick() for _ in range(2 * FULL_TICKS + 1)]
    assert sizes == [4, *[0] * (FULL_TICKS - 1), 4, *[0] * (FULL_TICKS - 1), 4]
    assert [stamp.sequence for stamp, _ in await broker.told()] == list(range(12))


async def test_a_tick_tells_what_changed_and_of_the_broker_last(broker: TellTale) -> None:
    await broker.topic("/default/orders", subscription="s")
    await broker.topic("/default/bills")
    await broker.tick()
    appended_ms = broker.world.clock.now_ms()
    await broker.publish("/default/orders")
    assert await broker.tick() == 3
    stamps, (orders, subscription, load) = zip(*(await broker.told())[-3:], strict=True)
    assert [(stamp.broker_id, stamp.start_id, stamp.full, stamp.gone) for stamp in stamps] == [
        ("7", "8", False, False)
    ] * 3
    assert (orders.topic, orders.head, orders.messages_in, orders.head_append_ms) == (
        "/default/orders",
        1,
        1,
        appended_ms,
    )
    assert (subscription.lag_messages, subscription.oldest_unread_append_ms) == (1, appended_ms)
    assert (load.broker_version, load.topics, load.cpu_s, load.rss_bytes) == ("1.2.3", 3, 1.5, 4_096)
    assert load.journal_rounds == broker.storage.stats.journal.rounds - 1


async def test_the_stream_tells_the_state_of_everything_whatever_happened(broker: TellTale) -> None:
    rng = random.Random(3)
    names = ["/default/a", "/default/b-part-0", "/default/c"]
    steps: list[Callable[[str], Awaitable[object]]] = [
        broker.publish,
        lambda name: broker.topics.delete(TopicName.parse(name)),
        lambda name: move_on(broker, name, rng),
        lambda _: broker.tick(),
    ]
    marked: dict[tuple[str, str | None, Mark], Reading] = {}
    for _ in range(500):
        name = rng.choice(names)
        if broker.topics.find(name) is None:
            strategy = DispatchStrategy.NON_RELIABLE if name.endswith("c") else RELIABLE
            await broker.topic(name, strategy, "s")
        await rng.choices(steps, [6, 1, 8, 4])[0](name)
        for (topic, subscription), mark, reading in readings(broker):
            assert marked.setdefault((topic, subscription, mark), reading) == reading
    await broker.tick()
    latest: dict[tuple[str, str | None], Reading] = {}
    for stamp, reading in await broker.told():
        if not isinstance(reading, BrokerReading):
            key = (reading.topic, getattr(reading, "subscription", None))
            latest[key] = reading
            if stamp.gone:
                del latest[key]
    latest.pop((str(TELEMETRY_TOPIC), None), None)
    assert latest == {key: reading for key, _, reading in readings(broker) if key[0] != str(TELEMETRY_TOPIC)}


def readings(broker: TellTale) -> list[tuple[Entity, Mark, Reading]]:
    found: list[tuple[Entity, Mark, Reading]] = []
    for topic in broker.topics:
        found.append(((topic.name, None), mark_topic(topic), read_topic(topic)))
        subscriptions: list[tuple[str, AnySubscription]] = [*topic.subscriptions.items()]
        for name, one in subscriptions:
            found.append(((topic.name, name), mark_subscription(topic, one), read_subscription(topic, one)))
    return found


async def move_on(broker: TellTale, name: str, rng: random.Random) -> None:
    """Have the subscription's consumer come or go, and answer something."""
    subscription = broker.topics.get(TopicName.parse(name)).subscriptions["s"]
    if not subscription.consumers:
        subscription.subscribe("consumer", 5)
    consumer = subscription.consumers["consumer"]
    if consumer.stream is None:
        subscription.attach(consumer, Stream())
    elif rng.random() < 0.2:
        subscription.detach(consumer, consumer.stream)
    topic = broker.topics.get(TopicName.parse(name))
    if isinstance(topic, ReliableTopic) and topic.log.durable_end:
        offset = rng.randrange(topic.log.durable_end)
        if rng.random() < 0.5:
            topic.acknowledge("s", offset)
        else:
            topic.nack("s", offset, None, "")


class Stream:
    """Takes everything that is written to it."""

    caller = Caller(address="memory")
    is_left = False
    room = 1_000_000

    def nothing(self, *_: object) -> None:
        """Whatever it is told."""

    open = write = finish = fail = pause_reading = resume_reading = nothing


async def test_no_batch_has_more_records_than_the_bound_and_the_rest_follows(broker: TellTale) -> None:
    for number in range(10):
        await broker.topic(f"/default/t{number}")
    broker.telemetry = broker.make(records_max=4)
    await broker.telemetry.open()
    sizes = [await broker.tick() for _ in range(5)]
    assert sizes == [4, 4, 4, 3, 0]
    assert {reading.topic for _, reading in await broker.told() if not isinstance(reading, BrokerReading)} == {
        topic.name for topic in broker.topics
    }


async def test_others_run_every_few_milliseconds_while_a_tick_looks_at_many_topics(broker: TellTale) -> None:
    for number in range(20):
        await broker.topic(f"/default/t{number}")
        await broker.subscription("/default/t0", f"s{number}")
    clock = SlowClock(broker.world.clock)
    slow = broker.make(clock=clock)
    await slow.open()
    turns_s = [clock.now_s]
    ticking = asyncio.ensure_future(slow.tick())
    while not ticking.done():
        await asyncio.sleep(0)
        turns_s.append(clock.now_s)
    assert await ticking == 42
    assert clock.now_s > 40 * TELEMETRY_SLICE_S
    assert max(after - before for before, after in itertools.pairwise(turns_s)) < 5 * TELEMETRY_SLICE_S


class SlowClock:
    """Half a slice passes with every look at it."""

    def __init__(self, clock: SimClock) -> None:
        self._clock = clock
        self.now_s = 0.0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._clock, name)

    def monotonic_s(self) -> float:
        self.now_s += TELEMETRY_SLICE_S / 2
        return self.now_s


async def test_a_stopped_journal_is_logged_once_and_ticks_cost_nothing(
    broker: TellTale, world: World, caplog: pytest.LogCaptureFixture
) -> None:
    await broker.tick()
    await broker.topic("/default/orders")
    world.sim.fail(Operation.SYNC)
    caplog.set_level(logging.INFO, "danube.broker.telemetry.publisher")
    works: list[tuple[int, int]] = []
    for _ in range(5):
        assert await broker.tick() == 0
        works.append((world.writes.works, broker.usage.asked))
    assert broker.storage.stopped is not None
    assert len(set(works[1:])) == 1
    (record,) = [each for each in caplog.records if each.name == "danube.broker.telemetry.publisher"]
    assert "the journal has stopped" in record.getMessage()


async def test_what_a_full_disk_kept_out_is_published_when_there_is_room_again(
    broker: TellTale, world: World, caplog: pytest.LogCaptureFixture
) -> None:
    await broker.tick()
    await broker.topic("/default/orders")
    caplog.set_level(logging.INFO, "danube.broker.telemetry.publisher")
    world.sim.fail(Operation.APPEND, error=errno.ENOSPC, times=100)
    assert [await broker.tick() for _ in range(3)] == [0, 0, 0]
    world.sim.clear_faults()
    assert await broker.tick() == 2
    assert [stamp.sequence for stamp, _ in await broker.told()] == list(range(4))
    assert [each.levelname for each in caplog.records if each.name == "danube.broker.telemetry.publisher"] == [
        "WARNING",
        "INFO",
    ]


async def test_an_overloaded_journal_is_left_alone(world: World, broker: TellTale) -> None:
    await broker.telemetry.open()
    topic = broker.topics.find(str(TELEMETRY_TOPIC))
    assert isinstance(topic, ReliableTopic)
    world.writes.hold()
    for size in (4 * MIB, 64 * KIB, KIB, 1):
        with pytest.raises(OverloadedError):
            while True:
                topic.log.append_record(bytes(size), Told())
    assert await broker.telemetry.tick() == 0
    world.writes.release()
    await broker.world.clock.run_for(INTERVAL_S)
    assert await broker.telemetry.tick() == 2


async def test_a_tick_that_is_cancelled_while_it_waits_leaves_nothing_behind(world: World, broker: TellTale) -> None:
    await broker.telemetry.open()
    world.writes.hold()
    running = asyncio.ensure_future(broker.telemetry.run(INTERVAL_S))
    await world.clock.run_for(2 * INTERVAL_S)
    assert broker.storage.stats.journal.backlog_bytes > 0
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert running.cancelled()
    world.writes.release()
    await world.clock.run_for(INTERVAL_S)
    assert broker.storage.stats.journal.backlog_bytes == 0


async def test_it_ticks_every_interval(world: World, broker: TellTale) -> None:
    running = asyncio.ensure_future(broker.telemetry.run(INTERVAL_S))
    await world.clock.run_for(60 + INTERVAL_S)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    start_ms = world.clock.now_ms() - 65_000
    at_s = [(stamp.at_ms - start_ms) / 1_000 for stamp, reading in await broker.told() if stamp.full]
    assert sorted(set(at_s)) == [5.0, 65.0]


async def test_a_topic_that_was_deleted_is_made_again_and_begins_with_a_full_round(broker: TellTale) -> None:
    await broker.tick()
    await broker.topics.delete(TELEMETRY_TOPIC)
    assert await broker.tick() == 2
    assert [(stamp.sequence, stamp.full) for stamp, _ in await broker.told()] == [(2, True), (3, True)]


async def test_a_topic_of_that_name_that_keeps_nothing_is_named_in_the_log(
    broker: TellTale, caplog: pytest.LogCaptureFixture
) -> None:
    await broker.topic(str(TELEMETRY_TOPIC), DispatchStrategy.NON_RELIABLE)
    await broker.telemetry.open()
    assert await broker.tick() == 0
    assert caplog.text.count("is not a reliable topic") == 1
