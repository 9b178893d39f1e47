"""The clusters that the contract of `AdminGateway` is held against, all seeded alike."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from danube.admin.gateway import AdminGateway
from danube.admin.grpc_gateway import open_gateway
from danube.admin.target import Target
from danube.broker.app import Broker
from danube.broker.config.settings import BrokerSettings
from danube.rpc.grpc.carrier import GrpcCarrier
from danube.runtime.clock import SystemClock
from danube.testing.patience import LONG_S, PATIENCE_S
from danube.testing.peers.admin import AdminPeer
from danube.testing.peers.client import Peer
from tests.contracts.original_broker import OriginalBroker
from tests.faces.seeded import seed, seeded_gateway

TIMEOUT_S = PATIENCE_S


@dataclass(frozen=True, slots=True)
class AdminWorld:
    """A gateway to a seeded cluster, and what it is."""

    kind: str
    gateway: AdminGateway
    endpoint: str = ""

    @property
    def is_ours(self) -> bool:
        return self.kind != "original"


@asynccontextmanager
async def admin_world(kind: str, folder: Path) -> AsyncIterator[AdminWorld]:
    """A seeded cluster of this kind: `memory`, `broker` or `original`."""
    if kind == "memory":
        yield AdminWorld(kind, seeded_gateway(SystemClock()))
        return
    start = seeded_broker(folder) if kind == "broker" else served(OriginalBroker())
    async with start as endpoint, open_gateway(Target(endpoint=endpoint, timeout_s=TIMEOUT_S)) as gateway:
        yield AdminWorld(kind, gateway, endpoint)


@asynccontextmanager
async def seeded_broker(folder: Path) -> AsyncIterator[str]:
    """A whole broker in this process, over gRPC; its endpoint."""
    settings = BrokerSettings.model_validate(
        {"data_dir": folder, "broker_addr": "127.0.0.1:0", "admin_addr": "127.0.0.1:0", "telemetry_interval_s": 0}
        | {"ack_timeout_s": LONG_S}
    )
    async with AsyncExitStack() as parts:
        broker = await Broker.start(settings)
        parts.push_async_callback(broker.stop)
        carrier = GrpcCarrier(SystemClock())
        client, admin = (carrier.connect(address) for address in (broker.addresses.broker, broker.addresses.admin))
        parts.push_async_callback(client.close)
        parts.push_async_callback(admin.close)
        held = await seed(Peer(client), AdminPeer(admin))
        parts.callback(held.close)
        yield f"http://{broker.addresses.admin}"


@asynccontextmanager
async def served(original: OriginalBroker) -> AsyncIterator[str]:
    """The stand-in of the original at a port of its own; its endpoint."""
    server = await GrpcCarrier(SystemClock()).serve("127.0.0.1:0", original.services())
    try:
        yield f"http://{server.address}"
    finally:
        await server.stop(0)
