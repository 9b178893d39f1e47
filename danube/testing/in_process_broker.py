"""A whole broker in the process of a test, reached through memory instead of sockets."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from danube.broker.app import Broker
from danube.broker.config.settings import BrokerSettings
from danube.broker.environment import Environment
from danube.rpc.carrier import Carrier
from danube.runtime.clock import SystemClock
from danube.testing.patience import LONG_S
from danube.testing.peers.admin import AdminPeer
from danube.testing.peers.client import Peer
from danube.testing.simulated.network import MemoryCarrier


@dataclass(frozen=True, slots=True)
class Cell:
    """One broker, and a peer on each of its ports."""

    broker: Broker
    carrier: Carrier
    """For clients: `DanubeClientBuilder.with_carrier` takes it."""
    client: Peer
    admin: AdminPeer
    settings: BrokerSettings


StartBroker = Callable[..., Awaitable[Cell]]
"""Starts a broker with the settings given by keyword; a test's fixture."""


@asynccontextmanager
async def running_broker(data_dir: Path, **settings: Any) -> AsyncIterator[Cell]:  # noqa: ANN401 - of any setting
    """A broker on `data_dir`, with any of `BrokerSettings` set; it is stopped at the end. Raises as `Broker.start`."""
    clock = SystemClock()
    carrier = MemoryCarrier(clock)
    values = {"data_dir": data_dir, "broker_addr": "memory:0", "admin_addr": "memory:0", "ack_timeout_s": LONG_S}
    values |= settings
    wanted = BrokerSettings.model_validate(values)
    broker = await Broker.start(wanted, Environment(clock=clock, carrier=carrier))
    channels = [carrier.connect(address) for address in (broker.addresses.broker, broker.addresses.admin)]
    try:
        yield Cell(broker, carrier, Peer(channels[0]), AdminPeer(channels[1]), wanted)
    finally:
        for channel in channels:
            await channel.close()
        await broker.stop()
