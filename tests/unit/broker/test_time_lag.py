"""Time lag by telemetry and rules beside the truth, on idle, bursty and trimmed topics: below 1 % off."""

import asyncio
import random
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest

from danube.broker.topics.local_topics import Topics
from danube.broker.topics.topic import ReliableTopic
from danube.model.lag.records import judge_all
from danube.model.lag.verdict import LagPolicy
from danube.model.records.telemetry import TELEMETRY_TOPIC, decode_record
from danube.model.topic import TopicName
from danube.runtime.clock import SystemClock
from danube.testing.in_process_broker import StartBroker
from danube.testing.patience import PATIENCE_S
from tests.unit.broker.keeper import Keeper
from tests.unit.broker.test_telemetry import INTERVAL_S, Stream, TellTale, broker, world
from tests.unit.storage.journal_world import content

__all__ = ["broker", "world"]

NAME = "/default/orders"


def reliable(topics: Topics, name: str) -> ReliableTopic:
    found = topics.get(TopicName.parse(name))
    assert isinstance(found, ReliableTopic)
    return found


@dataclass
class Course:
    """A topic whose messages and acknowledgements the test knows."""

    broker: TellTale
    appended_ms: list[int] = field(default_factory=list)
    position: int = 0
    errors: list[float] = field(default_factory=list)

    @property
    def topic(self) -> ReliableTopic:
        return reliable(self.broker.topics, NAME)

    async def publish(self, count: int) -> None:
        for _ in range(count):
            self.appended_ms.append(self.broker.world.clock.now_ms())
            await self.broker.publish(NAME)

    def acknowledge(self, count: int) -> None:
        for _ in range(min(count, len(self.appended_ms) - self.position)):
            self.topic.acknowledge("s", self.position)
            self.position += 1

    async def tick(self) -> None:
        """Let telemetry be published, and judge a while later."""
        await self.broker.tick()
        await self.broker.world.clock.run_for(self.broker.world.clock.now_ms() % 4)
        now_ms = self.broker.world.clock.now_ms()
        (found,) = [one for one in judge_all(await self.broker.told(), now_ms, LagPolicy()) if one.topic == NAME]
        oldest = max(self.position, self.topic.log.start_offset)
        if oldest < len(self.appended_ms):
            truth_s = (now_ms - self.appended_ms[oldest]) / 1_000
            assert found.verdict.lag_s is not None
            self.errors.append(abs(found.verdict.lag_s - truth_s) / max(truth_s, 1.0))
        else:
            assert found.verdict.lag_s == 0


@pytest.fixture
async def course(broker: TellTale) -> AsyncIterator[Course]:
    await broker.topic(NAME, subscription="s")
    subscription = broker.topics.get(TopicName.parse(NAME)).subscriptions["s"]
    subscription.attach(subscription.subscribe("consumer", 5), Stream())
    yield Course(broker)


async def test_time_lag_of_an_idle_topic_is_the_age_of_its_oldest_unread_message(course: Course) -> None:
    await course.publish(10)
    course.acknowledge(3)
    for _ in range(round(400 / INTERVAL_S)):  # nothing comes and nothing is read
        await course.tick()
    assert len(course.errors) == 80
    assert max(course.errors) < 0.01


async def test_time_lag_of_a_bursty_topic_is_exact_at_each_moment(course: Course) -> None:
    rng = random.Random(32)
    for _ in range(60):
        await course.publish(rng.choice((0, 0, 1, 40)))
        await course.broker.world.clock.run_for(rng.random() * 3)
        await course.publish(rng.choice((0, 3)))
        course.acknowledge(rng.choice((0, 5, 25)))
        await course.tick()
    assert len(course.errors) > 20
    assert max(course.errors) < 0.01


async def test_time_lag_of_a_trimmed_topic_is_the_age_of_the_oldest_message_that_is_kept(
    keepers: list[Keeper], start_broker: StartBroker, topic: TopicName
) -> None:
    cell = await start_broker(retention_bytes=10_000, retention_drops_unread=True, telemetry_interval_s=0.05)
    producer, clock, sent_ms = await cell.client.create_producer(topic), SystemClock(), list[int]()
    await cell.client.subscribe(topic, "s")
    for _ in range(60):
        sent_ms.append(clock.now_ms())
        await cell.client.send(topic, producer, bytes(400))
    assert await keepers[-1].let_go() > 0
    log, told = reliable(keepers[-1].topics, str(topic)).log, reliable(keepers[-1].topics, str(TELEMETRY_TOPIC)).log
    assert 0 < log.start_offset < 60
    async with asyncio.timeout(PATIENCE_S):
        while True:
            records = [found for each in await content(told) if (found := decode_record(each)) is not None]
            now_ms = clock.now_ms() + 60_000  # a minute later, when a millisecond is nothing
            (judged,) = [one for one in judge_all(records, now_ms, LagPolicy()) if one.topic == str(topic)]
            if judged.verdict.lag_messages == 60 - log.start_offset:  # it tells of what was trimmed
                break
    truth_s = (now_ms - sent_ms[log.start_offset]) / 1_000
    assert judged.verdict.lag_s == pytest.approx(truth_s, rel=0.01)
