"""Telemetry as clients see it: a topic like any other, on a whole broker."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from pydantic import ValidationError

from danube import DanubeClientBuilder, SubType
from danube.broker.config.settings import BrokerSettings
from danube.client.consume.consumer import Consumer
from danube.model.message import producer_id
from danube.model.records.telemetry import TELEMETRY_TOPIC
from danube.model.topic import DispatchStrategy, TopicName
from danube.testing.in_process_broker import Cell, StartBroker
from danube.testing.patience import PATIENCE_S
from danube.testing.peers.client import Inbox
from tests.golden.telemetry.reader import Picture, Record, read

OFTEN_S = 0.05


class Watcher:
    """Reads the telemetry topic until it says what the test waits for."""

    def __init__(self, cell: Cell, inbox: Inbox) -> None:
        self._cell = cell
        self._inbox = inbox
        self.picture = Picture()

    async def until(self, holds: Callable[[Record], bool]) -> Record:
        async with asyncio.timeout(PATIENCE_S):
            while True:
                message = await self._inbox.next()
                await self._cell.client.acknowledge(TELEMETRY_TOPIC, message.offset, "watcher")
                record = read(message.payload)
                assert record is not None
                self.picture.apply(record)
                if holds(record):
                    return record


async def watch(cell: Cell) -> Watcher:
    return Watcher(cell, await cell.client.receive(await cell.client.subscribe(TELEMETRY_TOPIC, "watcher")))


@pytest.fixture
async def cell(start_broker: StartBroker) -> Cell:
    return await start_broker(telemetry_interval_s=OFTEN_S)


async def test_lag_of_a_subscription_is_seen_to_grow_and_shrink(cell: Cell, topic: TopicName) -> None:
    watcher = await watch(cell)
    producer = await cell.client.create_producer(topic)
    inbox = await cell.client.receive(await cell.client.subscribe(topic))
    for _ in range(5):
        await cell.client.send(topic, producer, b"x")
    grown = await watcher.until(lambda record: is_lag(record, 5))
    assert (grown["topic"], grown["type"]) == (str(topic), "exclusive")
    assert (grown["head"], grown["position"], grown["in_flight"], grown["consumers"]) == (5, 0, 5, 1)
    assert grown["oldest_unread_append_ms"] <= grown["head_append_ms"] <= grown["at_ms"]
    for message in await inbox.take(5):
        if message.offset != 3:
            await cell.client.acknowledge(topic, message.offset)
    shrunk = await watcher.until(lambda record: is_lag(record, 1) and record["head"] == 5)
    assert (shrunk["position"], shrunk["acknowledged_beyond"], shrunk["messages_out"]) == (3, 1, 5)
    await cell.client.acknowledge(topic, 3)
    done = await watcher.until(lambda record: is_lag(record, 0))
    assert (done["position"], done["oldest_unread_append_ms"]) == (5, None)
    assert watcher.picture.gaps == 0


def is_lag(record: Record, messages: int) -> bool:
    return record.get("subscription") == "subscription" and record["lag_messages"] == messages


async def test_the_public_client_reads_it_like_any_topic(cell: Cell, topic: TopicName) -> None:
    async with reading_client(cell) as consumer:
        messages = await consumer.receive()
        await cell.admin.create_topic(topic)
        async with asyncio.timeout(PATIENCE_S):
            message = await messages.get()
            while json.loads(message.payload).get("topic") != str(topic):
                await consumer.ack(message)
                message = await messages.get()
    assert message.producer_name == "danube-telemetry"
    assert message.msg_id.producer_id == producer_id(TELEMETRY_TOPIC, "danube-telemetry")
    assert abs(message.publish_time - json.loads(message.payload)["at_ms"]) < 10_000


@asynccontextmanager
async def reading_client(cell: Cell) -> AsyncIterator[Consumer]:
    """A consumer of the client library."""
    url = f"http://{cell.broker.addresses.broker}"
    async with await DanubeClientBuilder().service_url(url).with_carrier(cell.carrier).build() as client:
        building = client.new_consumer().with_topic(str(TELEMETRY_TOPIC)).with_consumer_name("me")
        consumer = building.with_subscription("s").with_subscription_type(SubType.EXCLUSIVE).build()
        await consumer.subscribe()
        yield consumer


async def test_partitions_and_what_keeps_nothing_say_so(cell: Cell, topic: TopicName) -> None:
    watcher = await watch(cell)
    await cell.admin.create_partitioned_topic(topic, 2)
    passing = TopicName("default", "passing")
    await cell.client.create_producer(passing, strategy=DispatchStrategy.NON_RELIABLE)
    await cell.client.subscribe(passing)
    await watcher.until(lambda record: "dropped" in record and record["topic"] == str(passing))
    things = {thing[1:]: record for thing, record in watcher.picture.things.items()}
    part = things[str(topic.partition(1)), None]
    assert (part["partition_base"], part["partition_index"], part["head"]) == (str(topic), 1, 0)
    assert (things[str(passing), None]["strategy"], things[str(passing), None]["head"]) == ("non_reliable", None)
    assert things[str(passing), "subscription"]["lag_messages"] is None


async def test_a_deleted_topic_is_told_to_be_gone(cell: Cell, topic: TopicName) -> None:
    watcher = await watch(cell)
    await cell.admin.create_topic(topic)
    await watcher.until(lambda record: record.get("topic") == str(topic))
    await cell.admin.delete_topic(topic)
    assert (await watcher.until(lambda record: record.get("topic") == str(topic)))["gone"]


async def test_a_restart_has_an_id_of_its_own_and_begins_with_a_full_round(
    start_broker: StartBroker, topic: TopicName
) -> None:
    cell = await start_broker(telemetry_interval_s=OFTEN_S)
    watcher = await watch(cell)
    await cell.admin.create_topic(topic)
    first = await watcher.until(lambda record: record["kind"] == "broker")
    again = await watch(await start_broker(telemetry_interval_s=OFTEN_S))
    second = await again.until(lambda record: record["start_id"] != first["start_id"])
    assert (second["sequence"], second["full"]) == (0, True)
    ended = await again.until(lambda record: record["kind"] == "broker")
    assert (ended["full"], ended["broker_id"]) == (True, first["broker_id"])


async def test_switched_off_it_makes_no_topic(start_broker: StartBroker) -> None:
    cell = await start_broker(telemetry_interval_s=0)
    assert TELEMETRY_TOPIC not in [info.topic for info in await cell.admin.topics("system")]


async def test_the_topic_is_there_from_the_start(cell: Cell) -> None:
    assert TELEMETRY_TOPIC in [info.topic for info in await cell.admin.topics("system")]


@pytest.mark.parametrize("interval_s", [0.01, -1, 4_000])
def test_intervals_that_make_no_sense_are_refused(interval_s: float) -> None:
    with pytest.raises(ValidationError):
        BrokerSettings.model_validate({"telemetry_interval_s": interval_s})


def test_it_is_published_every_five_seconds_unless_set() -> None:
    assert BrokerSettings.model_validate({}).telemetry_interval_s == 5
