"""Several brokers over one metadata store, in this process, and where their topics are put."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from danube.broker.app import Broker
from danube.broker.cluster.metadata_store import MetaStore
from danube.broker.config.metadata_store import MetaStoreType
from danube.broker.config.settings import BrokerSettings
from danube.broker.environment import Environment
from danube.metadata.memory import MemoryStore
from danube.metadata.records.catalog import Records
from danube.model.calls.client import LookupKind
from danube.model.errors import DanubeError
from danube.model.topic import DispatchStrategy, TopicName
from danube.rpc.carrier import Carrier
from danube.runtime.clock import SystemClock
from danube.testing.in_process_broker import Cell
from danube.testing.patience import PATIENCE_S
from danube.testing.peers.admin import AdminPeer
from danube.testing.peers.client import Peer
from danube.testing.simulated.network import MemoryCarrier


class Network:
    """What the brokers of one test share."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.clock = SystemClock()
        self.carrier: Carrier = MemoryCarrier(self.clock)
        self.meta_store = MetaStore(MemoryStore(self.clock), MetaStoreType.MEMORY)
        self.running: dict[str, AsyncExitStack] = {}

    async def start(self, name: str, **settings: Any) -> Cell:
        values = {"data_dir": self.folder / name, "broker_addr": "memory:0", "admin_addr": "memory:0", **settings}
        wanted = BrokerSettings.model_validate({"mode": "cluster", **values})
        stack = self.running[name] = AsyncExitStack()
        world = Environment(clock=self.clock, carrier=self.carrier, meta_store=self.meta_store)
        broker = await Broker.start(wanted, world)
        stack.push_async_callback(broker.stop)
        channels = [self.carrier.connect(address) for address in (broker.addresses.broker, broker.addresses.admin)]
        for channel in channels:
            stack.push_async_callback(channel.close)
        return Cell(broker, self.carrier, Peer(channels[0]), AdminPeer(channels[1]), wanted)

    async def stop(self, name: str) -> None:
        await self.running.pop(name).aclose()

    async def put(self, name: TopicName, cell: Cell, strategy: DispatchStrategy = DispatchStrategy.RELIABLE) -> None:
        """Create a topic that this broker serves."""
        records = Records(self.meta_store.store)
        await records.create_topic(
            name, strategy, self.clock.now_ms(), base=name.base_by_form, broker=await self.id_of(cell)
        )
        await until(lambda: is_served(cell, name))

    async def id_of(self, cell: Cell) -> int:
        return int((await cell.admin.describe_broker()).info.broker_id)

    async def lose(self, cell: Cell) -> None:
        """Have a broker lose its lease for good, as one that hangs: the others take it for dead."""
        cluster = cell.broker.cluster
        assert cluster is not None
        await cluster.leave()

    async def close(self) -> None:
        for name in list(self.running):
            await self.stop(name)
        await self.meta_store.store.close()


async def is_served(cell: Cell, name: TopicName) -> bool:
    """True once a broker serves a topic itself."""
    try:
        return (await cell.client.lookup(name)).kind is LookupKind.CONNECT
    except DanubeError:
        return False


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not await holds():  # noqa: ASYNC110 - another broker's view has no event here
            await asyncio.sleep(0.005)
