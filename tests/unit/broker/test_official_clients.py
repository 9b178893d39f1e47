"""Models of the four official clients against a broker, in simulated time: each lives through all that topics do."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from danube.broker.app import Broker
from danube.broker.config.settings import BrokerSettings
from danube.broker.environment import Environment
from danube.model.errors import (
    ConsumerNotFoundError,
    ConsumerReplacedError,
    InvalidRequestError,
    NotFoundError,
    ShuttingDownError,
    TopicNotFoundError,
    TopicNotServedError,
)
from danube.model.limits.broker import CLIENT_HEALTH_INTERVAL_S, DRAIN_WAIT_S, MOVE_WAIT_S, RPC_RECONNECT_DELAY_MAX_S
from danube.model.topic import TopicName
from danube.testing.peers.admin import AdminPeer
from danube.testing.peers.client import Peer
from danube.testing.simulated.clock import SimClock
from danube.testing.simulated.network import MemoryCarrier
from tests.unit.broker.client_models import Client, ModelConsumer, Next, StreamEnd, live, react, send_as

OPENINGS_A_SECOND_MAX = 4
"""Of one consumer: more is a loop without a pause."""
CLIENTS = list(Client)
TOLD_S = CLIENT_HEALTH_INTERVAL_S + 1


class Stage:
    """A broker in simulated time that can be stopped and started, with a topic, a producer and a consumer."""

    def __init__(self, folder: Path, topic: TopicName) -> None:
        self.clock = SimClock()
        self.topic = topic
        self._carrier = MemoryCarrier(self.clock)
        self._folder = folder
        self._parts = AsyncExitStack()
        self._addresses = ("memory:1", "memory:2")
        self._channels = [self._carrier.connect(address) for address in self._addresses]
        self.peer, self.admin = Peer(self._channels[0]), AdminPeer(self._channels[1])
        self.broker: Broker
        self.producer = 0

    async def start(self) -> None:
        values = {
            "data_dir": self._folder,
            "broker_addr": self._addresses[0],
            "admin_addr": self._addresses[1],
            "telemetry_interval_s": 0,
        }
        world = Environment(clock=self.clock, carrier=self._carrier)
        self.broker = await Broker.start(BrokerSettings.model_validate(values), world)
        await live([], self.clock, RPC_RECONNECT_DELAY_MAX_S)  # channels that found nobody connect again
        self._parts.push_async_callback(self.broker.stop)

    async def close(self) -> None:
        await self._parts.aclose()
        for channel in self._channels:
            await channel.close()

    async def consumer(self, client: Client) -> ModelConsumer:
        """A consumer that has got and acknowledged three messages."""
        self.producer = await self.peer.create_producer(self.topic)
        consumer = ModelConsumer(client, self._channels[0], self.topic, self.clock)
        self._parts.push_async_callback(consumer.close)
        await live([consumer], self.clock, 1)
        await self.send(3)
        await live([consumer], self.clock, 1)
        assert consumer.offsets == [0, 1, 2]
        return consumer

    async def send(self, count: int) -> None:
        for _ in range(count):
            await self.peer.send(self.topic, self.producer, b"x")

    async def move(self) -> None:
        """The topic goes, and comes back half a second later: sooner than consumers leave."""
        await self.broker.moves.unload(self.topic)
        await live([], self.clock, 0.5)
        await self.broker.moves.open_again(self.topic)


@pytest.fixture
async def stage(tmp_path: Path, topic: TopicName) -> AsyncIterator[Stage]:
    found = Stage(tmp_path / "data", topic)
    await found.start()
    try:
        yield found
    finally:
        await found.close()


@pytest.mark.parametrize("client", CLIENTS)
async def test_a_consumer_lives_through_three_moves_and_misses_nothing(stage: Stage, client: Client) -> None:
    consumer = await stage.consumer(client)
    for number in range(1, 4):
        await stage.move()
        await stage.send(3)
        await live([consumer], stage.clock, 2 * CLIENT_HEALTH_INTERVAL_S)
        assert (consumer.is_stopped, consumer.subscribed) == (False, number + 1)
    assert consumer.offsets == list(range(12))
    assert consumer.openings_in_a_second() == 1
    assert all(end.told_close and end.error is None for end in consumer.ends)


@pytest.mark.parametrize("client", CLIENTS)
async def test_a_consumer_waits_quietly_while_its_topic_is_nowhere(stage: Stage, client: Client) -> None:
    consumer = await stage.consumer(client)
    await stage.broker.moves.unload(stage.topic)
    await live([consumer], stage.clock, MOVE_WAIT_S - 2)
    assert (consumer.subscribed, len(consumer.opened_s)) == (1, 1)
    await stage.broker.moves.open_again(stage.topic)
    await stage.send(1)
    await live([consumer], stage.clock, TOLD_S)
    assert (consumer.is_stopped, consumer.offsets) == (False, [0, 1, 2, 3])


@pytest.mark.parametrize("client", CLIENTS)
async def test_a_topic_that_stays_nowhere_is_not_waited_for_for_ever(stage: Stage, client: Client) -> None:
    consumer = await stage.consumer(client)
    await stage.broker.moves.unload(stage.topic)
    await live([consumer], stage.clock, MOVE_WAIT_S + 2 * CLIENT_HEALTH_INTERVAL_S)
    assert (consumer.is_stopped, type(consumer.stopped_by)) == (True, TopicNotServedError)
    assert consumer.openings_in_a_second() == 1


@pytest.mark.parametrize("client", CLIENTS)
async def test_a_consumer_that_an_administrator_sends_away_comes_back(stage: Stage, client: Client) -> None:
    consumer = await stage.consumer(client)
    connections, _ = await stage.admin.connections(stage.topic)
    ids = [each.client_id for each in connections if each.subscription is not None]
    await stage.admin.disconnect(stage.topic, ids[0])
    await stage.send(2)
    await live([consumer], stage.clock, TOLD_S)
    assert (consumer.is_stopped, consumer.subscribed, consumer.offsets) == (False, 2, [0, 1, 2, 3, 4])
    assert consumer.openings_in_a_second() == 1


@pytest.mark.parametrize("client", CLIENTS)
async def test_a_consumer_of_a_deleted_topic_comes_to_a_clear_end(stage: Stage, client: Client) -> None:
    consumer = await stage.consumer(client)
    await stage.admin.delete_topic(stage.topic)
    await live([consumer], stage.clock, TOLD_S)
    assert consumer.is_stopped
    assert isinstance(consumer.stopped_by, TopicNotFoundError)
    assert consumer.openings_in_a_second() == 1


@pytest.mark.parametrize("client", CLIENTS)
async def test_a_consumer_goes_on_with_a_topic_that_was_deleted_and_made_anew(stage: Stage, client: Client) -> None:
    consumer = await stage.consumer(client)
    await stage.admin.delete_topic(stage.topic)
    await stage.peer.create_producer(stage.topic)
    await live([consumer], stage.clock, TOLD_S)
    await stage.send(2)
    await live([consumer], stage.clock, 1)
    assert (consumer.is_stopped, consumer.offsets) == (False, [0, 1, 2, 0, 1])


@pytest.mark.parametrize("client", CLIENTS)
async def test_a_consumer_lives_through_a_restart_of_its_broker(stage: Stage, client: Client) -> None:
    consumer = await stage.consumer(client)
    await stage.broker.stop()
    await live([consumer], stage.clock, 2)
    await stage.start()
    await stage.send(2)
    await live([consumer], stage.clock, 5)
    assert (consumer.is_stopped, consumer.offsets) == (False, [0, 1, 2, 3, 4])
    assert isinstance(consumer.ends[0].error, ShuttingDownError)


@pytest.mark.parametrize("client", [Client.PYTHON, Client.GO])
async def test_a_restart_may_take_long_and_these_two_still_come_back(stage: Stage, client: Client) -> None:
    consumer = await stage.consumer(client)
    await stage.broker.stop()
    await live([consumer], stage.clock, 60)
    await stage.start()
    await stage.send(1)
    await live([consumer], stage.clock, 5)
    assert (consumer.is_stopped, consumer.offsets) == (False, [0, 1, 2, 3])


@pytest.mark.parametrize("client", CLIENTS)
async def test_a_restart_in_the_middle_of_a_drain_harms_nobody(stage: Stage, client: Client) -> None:
    consumer = await stage.consumer(client)
    await stage.move()
    await live([consumer], stage.clock, 1)
    await stage.broker.stop()
    await stage.start()
    await stage.send(1)
    await live([consumer], stage.clock, TOLD_S)
    assert (consumer.is_stopped, consumer.offsets) == (False, [0, 1, 2, 3])


@pytest.mark.parametrize("client", CLIENTS)
async def test_a_consumer_whose_health_checks_had_ended_comes_back_to_where_it_was(
    stage: Stage, client: Client
) -> None:
    consumer = await stage.consumer(client)
    consumer._pollers.clear()
    await stage.move()
    await stage.send(2)
    await live([consumer], stage.clock, DRAIN_WAIT_S + 2)
    assert (consumer.is_stopped, consumer.offsets) == (False, [0, 1, 2, 3, 4])
    assert isinstance(consumer.ends[0].error, TopicNotServedError)


@pytest.mark.parametrize("client", CLIENTS)
async def test_a_consumer_that_opens_its_stream_at_a_broker_without_its_topic_is_no_hot_loop(
    stage: Stage, client: Client
) -> None:
    consumer = await stage.consumer(client)
    consumer._pollers.clear()
    await stage.broker.moves.unload(stage.topic)
    stage.broker.moves.reopened(stage.topic)
    await live([consumer], stage.clock, DRAIN_WAIT_S + 10)
    assert consumer.openings_in_a_second() <= OPENINGS_A_SECOND_MAX


@pytest.mark.parametrize("client", CLIENTS)
async def test_a_producer_goes_on_over_a_move(stage: Stage, client: Client) -> None:
    await stage.consumer(client)
    await stage.broker.moves.unload(stage.topic)
    tries = 0

    async def send() -> int:
        nonlocal tries
        tries += 1
        if tries == 3:
            await stage.broker.moves.open_again(stage.topic)
        return await stage.peer.send(stage.topic, stage.producer, b"x")

    async def create() -> int:
        return await stage.peer.create_producer(stage.topic)

    assert await send_as(client, send, create, stage.clock) == 0
    assert tries == 3


@pytest.mark.parametrize("client", CLIENTS)
async def test_a_producer_of_a_deleted_topic_is_told_at_once_and_does_not_make_it_anew(
    stage: Stage, client: Client
) -> None:
    await stage.consumer(client)
    await stage.admin.delete_topic(stage.topic)
    with pytest.raises(InvalidRequestError, match="was deleted"):
        await send_as(
            client,
            lambda: stage.peer.send(stage.topic, stage.producer, b"x"),
            lambda: stage.peer.create_producer(stage.topic),
            stage.clock,
        )
    with pytest.raises(NotFoundError):
        await stage.peer.lookup(stage.topic)


@pytest.mark.parametrize("client", CLIENTS)
async def test_of_two_consumers_of_one_name_the_later_one_reads_and_the_earlier_one_ends_or_waits_longer_and_longer(
    stage: Stage, client: Client
) -> None:
    earlier = await stage.consumer(client)
    later = ModelConsumer(client, stage._channels[0], stage.topic, stage.clock)
    stage._parts.push_async_callback(later.close)
    await live([earlier, later], stage.clock, 1)
    for _ in range(4):
        await stage.send(1)
        await live([earlier, later], stage.clock, 15)
    assert later.offsets == [3, 4, 5, 6]
    assert (earlier.offsets, later.subscribed, len(later.opened_s)) == ([0, 1, 2], 1, 1)
    if client is Client.PYTHON:
        assert (earlier.is_stopped, len(earlier.opened_s)) == (False, 8)
    else:
        assert isinstance(earlier.stopped_by, ConsumerReplacedError)


def test_the_models_die_of_what_kills_the_clients() -> None:
    end = StreamEnd(error=None, had_headers=True, told_close=False, failures=1)
    assert [react(client, end).next for client in CLIENTS] == [Next.REOPEN, Next.STOP, Next.REOPEN, Next.REOPEN]
    gone = StreamEnd(error=ConsumerNotFoundError("gone"), had_headers=False, told_close=False, failures=1)
    assert [react(client, gone).next for client in CLIENTS] == [Next.REOPEN, Next.STOP, Next.STOP, Next.SUBSCRIBE]
