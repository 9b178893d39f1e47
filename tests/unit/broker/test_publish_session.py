"""A stream of batches against a log on a simulated disk: the window, a full backlog, a failed round."""

from collections.abc import AsyncIterator, Sequence
from typing import cast

import pytest

from danube.broker.clients.fetch import FetchSession
from danube.broker.schemas.gate import SchemaGate
from danube.broker.topics.drain import Cause, ClientDrain
from danube.broker.topics.publish_stream import PublishSession
from danube.broker.topics.topic import ReliableTopic
from danube.metadata.records.catalog import TopicRecord
from danube.model.calls.stream import Fetch, FetchedBatch, PublishAcknowledged, PublishBatch, PublishRefused
from danube.model.errors import DanubeError, StorageUnavailableError
from danube.model.limits.stream import PUBLISH_BATCH_COST_BYTES, PUBLISH_RETRY_S
from danube.model.topic import DispatchStrategy, TopicName
from danube.runtime.tasks import TaskScope
from danube.storage.batches.batch import BatchOrigin, records
from danube.storage.batches.placeholder import PLACEHOLDER_PRODUCER_ID
from danube.storage.store import Storage
from danube.testing.peers.stream import payload_batch
from danube.testing.simulated.clock import settle
from danube.testing.simulated.disk import Operation
from tests.unit.broker.storage_scene import World

NAME = TopicName("default", "orders")


class Outlet:
    """What a producer or a reader would see."""

    def __init__(self) -> None:
        self.room = 1
        self.reading = True
        self.answers: list[PublishAcknowledged | PublishRefused | str] = []
        self.batches: list[FetchedBatch] = []

    def acknowledge(self, answer: PublishAcknowledged) -> None:
        self.answers.append(answer)

    def refuse(self, answer: PublishRefused) -> None:
        self.answers.append(answer)

    def finish(self) -> None:
        self.answers.append("finished")

    def fail(self, error: DanubeError) -> None:
        self.answers.append(error.code)

    def write(self, batches: Sequence[FetchedBatch]) -> None:
        assert self.room > 0
        self.batches += batches

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    @property
    def acknowledged(self) -> list[int]:
        return [one.sequence for one in self.answers if isinstance(one, PublishAcknowledged)]


class Scene:
    def __init__(self, world: World, storage: Storage) -> None:
        self.world = world
        record = TopicRecord(name=NAME, topic_id=1, strategy=DispatchStrategy.RELIABLE, created_ms=0)
        self.topic = ReliableTopic(record, storage.topic(1, 1))
        self.outlet = Outlet()

    def session(self, window_bytes: int = 1 << 20, outlet: Outlet | None = None) -> PublishSession:
        return PublishSession(self.topic, outlet or self.outlet, self.world.clock, window_bytes=window_bytes)

    async def stored(self) -> list[bytes]:
        batches = await self.topic.log.read(0, 1 << 30)
        return [record for batch in batches for record in records(batch.body, 0, batch.count)]


@pytest.fixture
async def world() -> AsyncIterator[World]:
    world = World(backlog_bytes_max=4_000)
    yield world
    await world.close()


@pytest.fixture
async def scene(world: World) -> Scene:
    return Scene(world, await world.open())


def batch(sequence: int, payload: bytes | None = None) -> PublishBatch:
    return PublishBatch(sequence, payload_batch(NAME, [payload if payload is not None else b"%d" % sequence]))


async def test_batches_of_one_round_are_one_answer(scene: Scene) -> None:
    session = scene.session()
    scene.world.writes.hold()
    for sequence in range(5):
        session.add(batch(sequence))
    await settle()
    assert scene.outlet.answers == []
    scene.world.writes.release()
    await settle()
    assert len(scene.outlet.answers) <= 2
    assert [
        offset for one in scene.outlet.answers if isinstance(one, PublishAcknowledged) for offset in one.base_offsets
    ] == [*range(5)]


async def test_reading_is_paused_while_the_window_is_full(scene: Scene) -> None:
    cost = len(batch(0).body) + PUBLISH_BATCH_COST_BYTES
    session = scene.session(window_bytes=3 * cost)
    scene.world.writes.hold()
    reading = []
    for sequence in range(3):
        reading.append(scene.outlet.reading)
        session.add(batch(sequence))
    assert (reading, scene.outlet.reading) == ([True] * 3, False)
    scene.world.writes.release()
    await settle()
    assert (scene.outlet.reading, scene.outlet.acknowledged[-1]) == (True, 2)


async def test_answers_that_find_no_room_hold_the_window_too(scene: Scene) -> None:
    session = scene.session(window_bytes=1)
    scene.outlet.room = 0
    session.add(batch(0))
    await settle()
    assert (scene.outlet.answers, scene.outlet.reading) == ([], False)
    scene.outlet.room = 1
    session.ready()
    assert (scene.outlet.acknowledged, scene.outlet.reading) == ([0], True)


async def test_full_backlog_makes_batches_wait_and_loses_and_reorders_nothing(scene: Scene) -> None:
    session = scene.session()
    scene.world.writes.hold()
    payloads = [b"%d" % n + bytes(900) for n in range(8)]
    for sequence, payload in enumerate(payloads):
        session.add(batch(sequence, payload))
    assert not scene.outlet.reading
    scene.world.writes.release()
    for _ in range(10):
        await scene.world.clock.run_for(PUBLISH_RETRY_S)
    assert (scene.outlet.acknowledged[-1], scene.outlet.reading) == (7, True)
    assert await scene.stored() == payloads


async def test_a_batch_that_waits_for_the_backlog_is_checked_by_its_schema_once(scene: Scene) -> None:
    checked: list[object] = []

    class Gate:
        def admit(self, *asked: object) -> None:
            checked.append(asked)

    scene.topic.gate = cast("SchemaGate", Gate())
    session = scene.session()
    scene.world.writes.hold()
    for sequence in range(8):
        session.add(batch(sequence, bytes(900)))
    for _ in range(3):  # tries that find the backlog full
        await scene.world.clock.run_for(PUBLISH_RETRY_S)
    scene.world.writes.release()
    for _ in range(10):
        await scene.world.clock.run_for(PUBLISH_RETRY_S)
    assert scene.outlet.acknowledged[-1] == 7
    assert len(checked) == 8


async def test_failed_round_refuses_its_first_batch_and_stores_none_after_it(scene: Scene) -> None:
    session = scene.session()
    session.add(batch(0))
    await settle()
    scene.world.writes.hold()
    session.add(batch(1))
    await settle()
    session.add(batch(2))  # waits for the next round, which would succeed
    scene.world.sim.fail(Operation.APPEND)
    scene.world.writes.release()
    await settle()
    refused = scene.outlet.answers[-1]
    assert isinstance(refused, PublishRefused)
    assert (refused.sequence, type(refused.error)) == (1, StorageUnavailableError)
    assert scene.outlet.acknowledged == [0]
    assert await scene.stored() == [b"0"]
    assert scene.topic.streams == set()


async def test_wrong_batch_is_refused_only_after_all_before_it_are_answered(scene: Scene) -> None:
    session = scene.session()
    scene.world.writes.hold()
    session.add(batch(0))
    session.add(PublishBatch(1, b"wrong"))
    session.add(batch(2))
    await settle()
    assert scene.outlet.answers == []
    scene.world.writes.release()
    await settle()
    assert scene.outlet.answers[0] == PublishAcknowledged(0, (0,))
    assert [type(one) for one in scene.outlet.answers[1:]] == [PublishRefused]
    assert await scene.stored() == [b"0"]


async def test_batch_that_claims_to_stand_for_lost_messages_is_refused(scene: Scene) -> None:
    """Nobody would ever get it, though it was acknowledged."""
    session = scene.session()
    origin = BatchOrigin(producer_id=PLACEHOLDER_PRODUCER_ID)
    session.add(PublishBatch(0, payload_batch(NAME, [b"1"], origin=origin)))
    await settle()
    (refused,) = scene.outlet.answers
    assert isinstance(refused, PublishRefused)
    assert refused.error.code == "INVALID_BATCH"
    assert await scene.stored() == []


async def test_half_closed_session_finishes_after_its_last_answer(scene: Scene) -> None:
    session = scene.session()
    scene.world.writes.hold()
    session.add(batch(0))
    session.half_close()
    await settle()
    assert scene.outlet.answers == []
    scene.world.writes.release()
    await settle()
    assert scene.outlet.answers == [PublishAcknowledged(0, (0,)), "finished"]


async def test_producer_that_left_is_answered_no_more_and_its_batches_stay(scene: Scene) -> None:
    session = scene.session()
    session.add(batch(0))
    session.cancel()
    await settle()
    assert (scene.outlet.answers, await scene.stored()) == ([], [b"0"])


async def test_two_sessions_keep_the_order_of_each(scene: Scene) -> None:
    one, other = scene.session(), scene.session(outlet=Outlet())
    for sequence in range(4):
        one.add(batch(sequence, b"a%d" % sequence))
        other.add(batch(sequence, b"b%d" % sequence))
    await settle()
    stored = await scene.stored()
    assert sorted(stored) == [b"%s%d" % (who, n) for who in (b"a", b"b") for n in range(4)]
    assert [one for one in stored if one.startswith(b"b")] == [b"b%d" % n for n in range(4)]


async def test_reader_without_room_is_handed_nothing(scene: Scene) -> None:
    session = scene.session()
    for sequence in range(3):
        session.add(batch(sequence))
        await settle()
    outlet, tasks = Outlet(), TaskScope("test")
    outlet.room = 0
    reader = FetchSession(scene.topic, Fetch(topic=NAME, bytes_max=1), outlet, tasks)
    assert await reader.begin()
    reader.pump()
    assert outlet.batches == []
    outlet.room = 1
    reader.pump()
    await settle()
    assert (len(outlet.batches), outlet.answers) == (3, ["finished"])
    await tasks.close()


async def test_follower_is_shown_nothing_that_is_not_durable(scene: Scene) -> None:
    outlet, tasks = Outlet(), TaskScope("test")
    assert await FetchSession(scene.topic, Fetch(topic=NAME, follow=True), outlet, tasks).begin()
    scene.world.writes.hold()
    scene.session().add(batch(0))
    await settle()
    assert outlet.batches == []
    scene.world.writes.release()
    await settle()
    assert [one.base_offset for one in outlet.batches] == [0]
    scene.topic.close(ClientDrain(Cause.MOVED, scene.topic.name))
    assert outlet.answers == ["TOPIC_NOT_SERVED"]
    await tasks.close()
