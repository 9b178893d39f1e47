"""Which producers are remembered, and the rule of exclusive ones."""

from collections.abc import AsyncIterator

import pytest

from danube.broker.clients.producers import Producers
from danube.broker.topics.drain import Cause, ClientDrain, DisconnectedClients
from danube.broker.topics.producer_access import ProducerAccesses, may_resume
from danube.broker.topics.topic import ReliableTopic
from danube.metadata.memory import MemoryStore
from danube.metadata.records.catalog import ProducerEpoch, ProducerEpochs, TopicRecord
from danube.model.calls.client import ClientKind, CreateProducer, HealthStatus, SendMessage
from danube.model.calls.stream import ProducerAccess, PublishOpen
from danube.model.errors import (
    DanubeError,
    InvalidRequestError,
    LimitReachedError,
    ProducerFencedError,
    TopicHeldError,
    TopicNotFoundError,
    TopicNotServedError,
)
from danube.model.limits.broker import CLIENT_HEALTH_INTERVAL_S, PRODUCER_GONE_S, SESSION_FORGET_S
from danube.model.policies import Limits
from danube.model.topic import DispatchStrategy, TopicName
from danube.runtime.rng import SystemRng
from danube.testing.simulated.clock import SimClock
from tests.unit.broker.storage_scene import World

NAME = TopicName("default", "orders")
SHARED, EXCLUSIVE, TAKE_OVER = ProducerAccess


class OneTopic:
    """All that producers ask of a broker's topics."""

    def __init__(self, topic: ReliableTopic) -> None:
        self.topic = topic
        self.is_deleted = False

    def find(self, name: str) -> ReliableTopic | None:
        return self.topic if name == self.topic.name and not self.is_deleted else None


@pytest.fixture
async def topic() -> AsyncIterator[ReliableTopic]:
    world = World()
    record = TopicRecord(name=NAME, topic_id=1, strategy=DispatchStrategy.RELIABLE, created_ms=0)
    yield ReliableTopic(record, (await world.open()).topic(1, 1))
    await world.close()


@pytest.fixture
def epochs() -> ProducerEpochs:
    return ProducerEpochs(MemoryStore(SimClock()), SystemRng(seed=1))


@pytest.fixture
def clock() -> SimClock:
    return SimClock()


@pytest.fixture
def disconnected_clients(clock: SimClock) -> DisconnectedClients:
    return DisconnectedClients(clock)


@pytest.fixture
def topics(topic: ReliableTopic) -> OneTopic:
    return OneTopic(topic)


@pytest.fixture
def producers(
    topics: OneTopic, epochs: ProducerEpochs, disconnected_clients: DisconnectedClients, clock: SimClock
) -> Producers:
    accesses = ProducerAccesses(epochs)
    return Producers(topics, accesses, disconnected_clients, clock, schemas=None, auto_create_topics=False)  # type: ignore[arg-type]


def opening(name: str = "p", access: ProducerAccess = SHARED, epoch: int = 0) -> PublishOpen:
    return PublishOpen(topic=NAME, producer_name=name, strategy=DispatchStrategy.RELIABLE, access=access, epoch=epoch)


async def create(producers: Producers, name: str = "p") -> int:
    call = CreateProducer(request_id=1, topic=NAME, producer_name=name, strategy=DispatchStrategy.RELIABLE)
    return await producers.create(call)


def message(identity: int, name: str = "p") -> SendMessage:
    return SendMessage(1, identity, str(NAME), name, 1, None, None, None)


async def test_producer_that_is_silent_for_thirty_seconds_is_not_connected(
    producers: Producers, topic: ReliableTopic, clock: SimClock
) -> None:
    identity = await create(producers)
    clock.advance(29)
    assert topic.producers == {identity}
    clock.advance(1)
    assert topic.producers == set()
    assert producers.attached_to(topic) == []


async def test_health_checks_and_messages_keep_a_producer_connected(
    producers: Producers, topic: ReliableTopic, clock: SimClock
) -> None:
    asks, sends = await create(producers, "asks"), await create(producers, "sends")
    for _ in range(20):
        clock.advance(CLIENT_HEALTH_INTERVAL_S)
        assert producers.is_attached(asks)
        assert producers.topic_of(message(sends, "sends")) is topic
    assert [session.name for session in producers.attached_to(topic)] == ["asks", "sends"]


async def test_gone_producer_is_connected_again_by_its_next_sign_of_life(
    producers: Producers, topic: ReliableTopic, clock: SimClock
) -> None:
    identity = await create(producers)
    for sign_of_life in (lambda: producers.is_attached(identity), lambda: producers.topic_of(message(identity))):
        clock.advance(PRODUCER_GONE_S)
        assert topic.producers == set()
        assert sign_of_life()
        assert topic.producers == {identity}


async def test_gone_producer_leaves_its_place_and_is_told_so_when_the_place_is_taken(
    producers: Producers, topic: ReliableTopic, disconnected_clients: DisconnectedClients, clock: SimClock
) -> None:
    topic.apply_limits(Limits(max_producers_per_topic=1), clock)
    first = await create(producers, "first")
    with pytest.raises(LimitReachedError):
        await create(producers, "second")
    clock.advance(PRODUCER_GONE_S)
    second = await create(producers, "second")
    assert not producers.is_attached(first)
    assert disconnected_clients.health(ClientKind.PRODUCER, first) is HealthStatus.CLOSE
    with pytest.raises(TopicNotServedError, match="create it"):
        producers.topic_of(message(first, "first"))
    with pytest.raises(LimitReachedError):
        await create(producers, "first")
    producers.closed(second)
    assert await create(producers, "first") == first
    assert topic.producers == {first}


async def test_producer_that_closes_is_gone_at_once_and_another_process_of_its_name_is_not(
    producers: Producers, topic: ReliableTopic
) -> None:
    identity = await create(producers)
    producers.closed(identity)
    producers.closed(identity)
    producers.closed(12345)
    assert topic.producers == set()
    assert producers.is_attached(identity)
    assert topic.producers == {identity}


async def test_producer_with_an_open_stream_is_connected_until_the_stream_ends(
    producers: Producers, topic: ReliableTopic, clock: SimClock
) -> None:
    await create(producers)
    stream = await producers.open_stream(opening())
    clock.advance(10 * PRODUCER_GONE_S)
    assert topic.producers == {stream.producer.producer_id}
    stream.close()
    clock.advance(PRODUCER_GONE_S - 1)
    assert topic.producers == {stream.producer.producer_id}
    clock.advance(1)
    assert topic.producers == set()


async def test_producer_that_closes_while_its_stream_ends_is_gone_with_the_stream(
    producers: Producers, topic: ReliableTopic
) -> None:
    identity = await create(producers)
    stream = await producers.open_stream(opening())
    producers.closed(identity)
    assert topic.producers == {identity}
    stream.close()
    assert topic.producers == set()


async def test_gone_producer_of_a_deleted_topic_hears_that_it_was_deleted(
    producers: Producers, topic: ReliableTopic, topics: OneTopic, clock: SimClock
) -> None:
    identity = await create(producers)
    clock.advance(PRODUCER_GONE_S)
    drain = ClientDrain(Cause.DELETED, f"topic {topic.name}")
    topic.close(drain)
    producers.drain_topic(topic, drain)
    topics.is_deleted = True
    with pytest.raises(InvalidRequestError, match="was deleted"):
        producers.topic_of(message(identity))


async def test_gone_producer_is_forgotten_after_an_hour(
    producers: Producers, topic: ReliableTopic, clock: SimClock
) -> None:
    identity = await create(producers)
    clock.advance(SESSION_FORGET_S - 1)
    producers.sweep()
    assert list(topic.disconnected_producers) == [identity]
    clock.advance(1)
    producers.sweep()
    assert (list(topic.disconnected_producers), producers.is_attached(identity)) == ([], False)


async def test_of_gone_producers_the_one_that_left_longest_ago_is_forgotten_first(
    producers: Producers, topic: ReliableTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("danube.broker.clients.producers.PRODUCERS_AWAY_PER_TOPIC_MAX", 2)
    identities = [await create(producers, name) for name in ("a", "b", "c")]
    for identity in identities:
        producers.closed(identity)
    assert list(topic.disconnected_producers) == identities[1:]
    assert [producers.is_attached(identity) for identity in identities] == [False, True, True]


async def test_producer_of_batches_alone_is_gone_with_its_stream(producers: Producers, topic: ReliableTopic) -> None:
    stream = await producers.open_stream(opening())
    assert topic.producers == {stream.producer.producer_id}
    stream.close()
    assert (topic.producers, topic.disconnected_producers) == (set(), {})


async def test_topic_that_is_deleted_while_an_exclusive_producer_comes_is_not_claimed(
    producers: Producers, topic: ReliableTopic, epochs: ProducerEpochs
) -> None:
    topic.close(ClientDrain(Cause.DELETED, f"topic {topic.name}"))
    with pytest.raises(TopicNotFoundError, match="was deleted"):
        await producers.open_stream(opening(access=TAKE_OVER))
    assert (topic.producers, (await epochs.newest(topic.record)).epoch) == (set(), 0)


async def test_epochs_only_grow_and_those_of_another_topic_of_the_name_count_for_nothing(
    topic: ReliableTopic, epochs: ProducerEpochs
) -> None:
    none = await epochs.newest(topic.record)
    for expected in (1, 2, 3):
        assert await epochs.begin(none, topic.record, "p") == ProducerEpoch(1, expected, "p")
    assert await epochs.newest(topic.record) == ProducerEpoch(1, 3, "p")
    later = TopicRecord(name=NAME, topic_id=2, strategy=DispatchStrategy.RELIABLE, created_ms=0)
    assert await epochs.newest(later) == ProducerEpoch(2, 0, "")
    assert await epochs.begin(await epochs.newest(later), later, "q") == ProducerEpoch(2, 1, "q")


NEWEST = ProducerEpoch(1, 5, "p")


@pytest.mark.parametrize(
    ("wanted", "is_held", "has_streams", "outcome"),
    [
        (opening(access=EXCLUSIVE), False, False, False),
        (opening(access=EXCLUSIVE), True, True, TopicHeldError),
        (opening(access=EXCLUSIVE), False, True, TopicHeldError),
        (opening(access=TAKE_OVER), True, True, False),
        (opening(access=EXCLUSIVE, epoch=5), False, False, True),
        (opening(access=EXCLUSIVE, epoch=5), True, True, True),
        (opening(access=EXCLUSIVE, epoch=4), False, False, ProducerFencedError),
        (opening(access=TAKE_OVER, epoch=4), False, False, ProducerFencedError),
        (opening(access=TAKE_OVER, epoch=6), False, False, ProducerFencedError),
        (opening("q", access=EXCLUSIVE, epoch=5), False, False, ProducerFencedError),
    ],
)
def test_rule_of_exclusive_producers(
    wanted: PublishOpen, *, is_held: bool, has_streams: bool, outcome: bool | type[DanubeError]
) -> None:
    if isinstance(outcome, bool):
        assert may_resume(wanted, NEWEST, is_held=is_held, has_streams=has_streams) is outcome
    else:
        with pytest.raises(outcome):
            may_resume(wanted, NEWEST, is_held=is_held, has_streams=has_streams)
