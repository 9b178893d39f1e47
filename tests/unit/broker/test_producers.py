"""Which producers are remembered, and the rule of exclusive ones."""

from collections.abc import AsyncIterator

import pytest

from danube.broker.access import ProducerAccesses, may_resume
from danube.broker.departures import Departures
from danube.broker.farewell import Cause, Farewell
from danube.broker.producers import Producers
from danube.broker.topic import ReliableTopic
from danube.metadata.memory import MemoryStore
from danube.metadata.producer_records import ProducerEpoch, ProducerEpochs
from danube.metadata.records import TopicRecord
from danube.model.calls import CreateProducer
from danube.model.errors import DanubeError, ProducerFencedError, TopicHeldError, TopicNotFoundError
from danube.model.limits import SESSION_FORGET_S, SWEEP_INTERVAL_S
from danube.model.stream import ProducerAccess, PublishOpen
from danube.model.topic import DispatchStrategy, TopicName
from danube.runtime.rng import SystemRng
from danube.testing.clock import SimClock
from tests.unit.broker.storage_scene import World

NAME = TopicName("default", "orders")
SHARED, EXCLUSIVE, TAKE_OVER = ProducerAccess


class OneTopic:
    """All that producers ask of a broker's topics."""

    def __init__(self, topic: ReliableTopic) -> None:
        self.topic = topic

    def find(self, name: str) -> ReliableTopic | None:
        return self.topic if name == self.topic.name else None


@pytest.fixture
async def topic() -> AsyncIterator[ReliableTopic]:
    world = World()
    record = TopicRecord(name=NAME, topic_id=1, epoch=1, strategy=DispatchStrategy.RELIABLE, created_ms=0)
    yield ReliableTopic(record, (await world.open()).topic(1, 1))
    await world.close()


@pytest.fixture
def epochs() -> ProducerEpochs:
    return ProducerEpochs(MemoryStore(SimClock()), SystemRng(seed=1))


@pytest.fixture
def producers(topic: ReliableTopic, epochs: ProducerEpochs) -> Producers:
    accesses, departures = ProducerAccesses(epochs), Departures(SimClock())
    return Producers(OneTopic(topic), accesses, departures, auto_create_topics=False)  # type: ignore[arg-type]


def opening(name: str = "p", access: ProducerAccess = SHARED, epoch: int = 0) -> PublishOpen:
    return PublishOpen(topic=NAME, producer_name=name, strategy=DispatchStrategy.RELIABLE, access=access, epoch=epoch)


def forget_the_silent(producers: Producers) -> None:
    for _ in range(int(SESSION_FORGET_S / SWEEP_INTERVAL_S) + 1):
        producers.sweep()


async def test_silent_producer_is_forgotten_unless_its_stream_is_open(
    producers: Producers, topic: ReliableTopic
) -> None:
    call = CreateProducer(request_id=1, topic=NAME, producer_name="single", strategy=DispatchStrategy.RELIABLE)
    await producers.create(call)
    stream = await producers.open_stream(opening())
    assert len(topic.producers) == 2
    forget_the_silent(producers)
    assert topic.producers == {stream.producer.producer_id}
    stream.close()
    assert topic.producers == set()


async def test_topic_that_is_deleted_while_an_exclusive_producer_comes_is_not_claimed(
    producers: Producers, topic: ReliableTopic, epochs: ProducerEpochs
) -> None:
    topic.close(Farewell(Cause.DELETED, f"topic {topic.name}"))
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
    later = TopicRecord(name=NAME, topic_id=2, epoch=1, strategy=DispatchStrategy.RELIABLE, created_ms=0)
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
