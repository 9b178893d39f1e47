"""A topic that was deleted stays deleted, whatever its clients do by themselves; an application can make it anew."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from danube.broker.app import Broker
from danube.broker.config.settings import BrokerSettings
from danube.broker.environment import Environment
from danube.client import Consumer, DanubeClient, DanubeClientBuilder, DispatchStrategy, Producer, SubType
from danube.model.calls.client import ClientKind
from danube.model.calls.stream import ProducerAccess
from danube.model.errors import TopicDeletedError, TopicNotFoundError
from danube.model.limits.broker import CLIENT_HEALTH_INTERVAL_S
from danube.model.topic import TopicName
from danube.runtime.rng import SystemRng
from danube.testing.in_process_broker import Cell
from danube.testing.peers.admin import AdminPeer
from danube.testing.peers.client import Peer
from danube.testing.simulated.clock import SimClock
from danube.testing.simulated.network import MemoryCarrier

NOTICED_S = 2 * CLIENT_HEALTH_INTERVAL_S


@dataclass
class Stage:
    """A broker in simulated time, and a client of ours with one producer and one consumer."""

    clock: SimClock
    peer: Peer
    admin: AdminPeer
    client: DanubeClient
    topic: TopicName

    async def producer(self, *, access: ProducerAccess = ProducerAccess.SHARED) -> Producer:
        builder = self.client.new_producer().with_topic(str(self.topic)).with_name("p").with_access(access)
        producer = builder.with_dispatch_strategy(DispatchStrategy.RELIABLE).build()
        await producer.create()
        return producer

    async def consumer(self) -> Consumer:
        builder = self.client.new_consumer().with_topic(str(self.topic)).with_consumer_name("c").with_subscription("s")
        consumer = builder.with_subscription_type(SubType.SHARED).build()
        await consumer.subscribe()
        return consumer

    async def delete(self) -> None:
        await self.admin.delete_topic(self.topic)

    async def topics(self) -> list[TopicName]:
        return [info.topic for info in await self.admin.topics("default")]


@pytest.fixture
async def stage(tmp_path: Path, topic: TopicName) -> AsyncIterator[Stage]:
    clock = SimClock()
    carrier = MemoryCarrier(clock)
    values = {"data_dir": tmp_path / "data", "broker_addr": "memory:1", "admin_addr": "memory:2"}
    settings = BrokerSettings.model_validate(values | {"telemetry_interval_s": 0})
    channels = [carrier.connect("memory:1"), carrier.connect("memory:2")]
    builder = DanubeClientBuilder().service_url("http://memory:1").with_carrier(carrier)
    async with AsyncExitStack() as parts:
        broker = await Broker.start(settings, Environment(clock=clock, carrier=carrier))
        parts.push_async_callback(broker.stop)
        for channel in channels:
            parts.push_async_callback(channel.close)
        client = await builder.with_clock(clock, SystemRng(seed=7)).build()
        parts.push_async_callback(client.close)
        yield Stage(clock, Peer(channels[0]), AdminPeer(channels[1]), client, topic)


async def test_idle_clients_leave_a_deleted_topic_deleted_and_their_application_is_told(stage: Stage) -> None:
    producer, consumer = await stage.producer(), await stage.consumer()
    queue = await consumer.receive()
    await producer.send(b"x")
    await consumer.ack(await queue.get())
    await stage.delete()
    await stage.clock.run_for(NOTICED_S)
    assert await stage.topics() == []
    with pytest.raises(TopicDeletedError, match=r"was deleted, create\(\) makes it anew"):
        await producer.send(b"y")
    with pytest.raises(TopicNotFoundError, match="was deleted"):
        await queue.get()
    assert await stage.topics() == []


@pytest.mark.parametrize("noticed_s", [0, NOTICED_S])
async def test_an_application_that_asks_makes_a_deleted_topic_anew(stage: Stage, noticed_s: float) -> None:
    producer = await stage.producer()
    await producer.send_many([b"x"])
    await stage.delete()
    await stage.clock.run_for(noticed_s)
    for _ in range(2):
        with pytest.raises(TopicDeletedError):
            await producer.send_many([b"y"])
    assert await stage.topics() == []
    await producer.create()
    assert await producer.send_many([b"z"]) == 1
    assert await stage.topics() == [stage.topic]


async def test_an_exclusive_producer_begins_anew_with_a_topic_that_is_made_anew(stage: Stage) -> None:
    producer = await stage.producer(access=ProducerAccess.EXCLUSIVE)
    await producer.send_many([b"x"])
    await stage.delete()
    await stage.clock.run_for(NOTICED_S)
    await producer.create()
    assert await producer.send_many([b"z"]) == 1


async def test_a_producer_goes_on_with_a_topic_that_another_made_anew(stage: Stage) -> None:
    producer = await stage.producer()
    await stage.delete()
    await stage.clock.run_for(NOTICED_S)
    await stage.peer.create_producer(stage.topic, "another")
    await producer.send(b"x")
    await stage.delete()
    await stage.clock.run_for(NOTICED_S)
    assert await stage.topics() == []


async def test_a_producer_that_attaches_again_by_itself_is_refused_and_a_new_one_is_not(
    cell: Cell, topic: TopicName
) -> None:
    """As the Java client does before its next send, and as all clients do of older versions of ours."""
    producer = await cell.client.create_producer(topic)
    await cell.admin.delete_topic(topic)
    for _ in range(2):
        with pytest.raises(TopicNotFoundError, match="was deleted"):
            await cell.client.create_producer(topic, request_id=5)
    assert await cell.admin.topics("default") == ()
    assert await cell.client.create_producer(topic) == producer
    assert await cell.client.create_producer(topic, request_id=9) == producer
    await cell.client.send(topic, producer, b"x")


async def test_a_producer_that_was_not_attached_makes_a_deleted_topic_anew_with_whatever_try(
    cell: Cell, topic: TopicName
) -> None:
    await cell.client.create_producer(topic)
    await cell.admin.delete_topic(topic)
    await cell.client.create_producer(topic, "another", request_id=3)
    assert [info.topic for info in await cell.admin.topics("default")] == [topic]


async def test_a_producer_of_a_deleted_topic_is_not_told_to_attach_again(cell: Cell, topic: TopicName) -> None:
    producer = await cell.client.create_producer(topic)
    await cell.admin.delete_topic(topic)
    for _ in range(3):
        with pytest.raises(TopicNotFoundError, match="was deleted"):
            await cell.client.health(ClientKind.PRODUCER, producer)
