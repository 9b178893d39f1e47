"""A producer that is closed says so to its broker, where that can be heard."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from danube.client import DanubeClient, DanubeClientBuilder, DispatchStrategy, Producer
from danube.client.connection import paths
from danube.client.connection.connection import Connection
from danube.client.connection.paths import BrokerAddress
from danube.model.errors import UnrecoverableError
from danube.model.limits.broker import CLIENT_DETACH_TIMEOUT_S
from danube.model.limits.stream import CLIENT_SENDS_WAITING_BYTES_MAX
from danube.model.topic import TopicName
from danube.rpc.carrier import Carrier, Service, UnaryCall
from danube.testing.in_process_broker import Cell, running_broker
from danube.testing.patience import PATIENCE_S
from danube.testing.simulated.clock import SimClock
from danube.testing.simulated.network import MemoryCarrier
from danube.wire import client_messages
from tests.unit.client.fake_broker import FakeBroker

TOPIC = TopicName("default", "orders")


@pytest.fixture
async def cell(tmp_path: Path) -> AsyncIterator[Cell]:
    async with running_broker(tmp_path / "data") as cell:
        yield cell


@pytest.fixture
async def direct(cell: Cell) -> AsyncIterator[DanubeClient]:
    """A client of a whole broker."""
    builder = DanubeClientBuilder().service_url(f"http://{cell.broker.addresses.broker}")
    async with await builder.with_carrier(cell.carrier).build() as client:
        yield client


def producer_of(client: DanubeClient, partitions: int = 0) -> Producer:
    builder = client.new_producer().with_topic(str(TOPIC)).with_name("p").with_partitions(partitions)
    return builder.with_dispatch_strategy(DispatchStrategy.RELIABLE).build()


async def connected(cell: Cell) -> int:
    return (await cell.admin.connections(TOPIC))[1]


@pytest.mark.parametrize("partitions", [0, 3])
async def test_closed_producer_is_connected_no_more(cell: Cell, direct: DanubeClient, partitions: int) -> None:
    async with producer_of(direct, partitions) as producer:
        await producer.send(b"single")
        await producer.send_many([b"batch"] * 10)
        assert await connected(cell) == max(1, partitions)
    assert await connected(cell) == 0


async def test_closed_client_has_no_producer_connected(cell: Cell, direct: DanubeClient) -> None:
    await producer_of(direct).create()
    assert await connected(cell) == 1
    await direct.close()
    assert await connected(cell) == 0


@pytest.mark.parametrize("waiting_max", [CLIENT_SENDS_WAITING_BYTES_MAX, 10])
async def test_sends_under_way_of_a_closed_producer_are_stored_or_fail_as_closed(
    direct: DanubeClient, monkeypatch: pytest.MonkeyPatch, waiting_max: int
) -> None:
    monkeypatch.setattr("danube.client.publish.single_sends.CLIENT_SENDS_WAITING_BYTES_MAX", waiting_max)
    producer = producer_of(direct)
    await producer.create()
    sends = [asyncio.ensure_future(producer.send(b"%d" % number)) for number in range(100)]
    await asyncio.sleep(0)
    await producer.close()
    async with asyncio.timeout(PATIENCE_S):
        outcomes = await asyncio.gather(*sends, return_exceptions=True)
    errors = [each for each in outcomes if isinstance(each, BaseException)]
    assert errors
    assert {type(each) for each in errors} == {UnrecoverableError}


class MuteBroker(FakeBroker):
    """A `FakeBroker` that never answers a producer that closes."""

    def __init__(self, carrier: Carrier, address: str) -> None:
        super().__init__(carrier, address)
        self.closed: list[int] = []

    def _services(self) -> list[Service]:
        return [*super()._services(), Service("danube.stream.StreamService", {"CloseProducer": self._close})]

    def _close(self, request: bytes, call: UnaryCall) -> None:
        del call
        self.closed.append(client_messages.CLOSE_PRODUCER.decode(request))


async def test_mute_broker_is_waited_for_a_moment_and_once_for_all_partitions(
    carrier: MemoryCarrier, client: DanubeClient, clock: SimClock
) -> None:
    broker = MuteBroker(carrier, "memory:6650")
    await broker.start()
    producer = producer_of(client, partitions=3)
    await producer.create()
    closing = asyncio.create_task(producer.close())
    await clock.run_for(CLIENT_DETACH_TIMEOUT_S)
    assert closing.done()
    await closing
    assert sorted(broker.closed) == sorted(broker.producers)
    await broker.stop()


async def test_broker_without_the_call_is_no_obstacle_and_is_not_asked_where_that_is_known(
    client: DanubeClient, broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    call = Connection.call

    async def noted(connection: Connection, address: BrokerAddress, path: str, request: bytes, **more: Any) -> bytes:
        asked.append(path)
        return await call(connection, address, path, request, **more)

    monkeypatch.setattr(Connection, "call", noted)
    async with producer_of(client) as producer:
        await producer.send(b"x")
    assert asked.count(paths.CLOSE_PRODUCER) == 1
    async with producer_of(client) as producer:
        await producer.send_many([b"y"])
    assert asked.count(paths.CLOSE_PRODUCER) == 1
    assert broker.payloads(str(TOPIC)) == [b"x", b"y"]


async def test_token_supplier_that_raises_does_not_keep_a_producer_open(
    carrier: MemoryCarrier, broker: FakeBroker, clock: SimClock
) -> None:
    tokens = iter(["create", "look up"])
    builder = DanubeClientBuilder().service_url(broker.url).with_carrier(carrier).with_clock(clock)
    client = await builder.with_token_supplier(lambda: next(tokens)).build()
    producer = producer_of(client)
    await producer.create()
    await producer.close()
    await client.close()
