"""A whole broker in this process, on a real folder, reached through the in-memory carrier."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from danube.broker.app import Broker, World
from danube.broker.settings import BrokerSettings
from danube.model.topic import TopicName
from danube.rpc.memory_carrier import MemoryCarrier
from danube.runtime.clock import SystemClock
from danube.testing.peer import Peer

TOPIC = TopicName("default", "orders")


@dataclass
class Cell:
    """One broker and a client to each of its ports."""

    broker: Broker
    client: Peer
    admin: Peer
    settings: BrokerSettings


StartBroker = Callable[..., Awaitable[Cell]]


@pytest.fixture
def topic() -> TopicName:
    return TOPIC


@pytest.fixture
async def start_broker(tmp_path: Path) -> AsyncIterator[StartBroker]:
    """Start a broker on the test's folder; starting again stops the former one first."""
    async with AsyncExitStack() as running:

        async def start(**settings: Any) -> Cell:
            await running.aclose()
            clock = SystemClock()
            carrier = MemoryCarrier(clock)
            values = {"data_dir": tmp_path / "data", "broker_addr": "memory:0", "admin_addr": "memory:0", **settings}
            wanted = BrokerSettings.model_validate(values)
            broker = await Broker.start(wanted, World(clock=clock, carrier=carrier))
            running.push_async_callback(broker.stop)
            peers = []
            for address in (broker.addresses.broker, broker.addresses.admin):
                channel = carrier.connect(address)
                running.push_async_callback(channel.close)
                peers.append(Peer(channel))
            return Cell(broker, peers[0], peers[1], wanted)

        yield start


@pytest.fixture
async def cell(start_broker: StartBroker) -> Cell:
    return await start_broker()
