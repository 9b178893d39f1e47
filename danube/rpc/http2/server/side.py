"""State that the connections of one server share."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from danube.rpc.carrier import CarrierOptions, Service, StreamFactory, UnaryHandler
from danube.rpc.http2.server.arrivals import PartialRequests
from danube.rpc.stream_memory import StreamMemory
from danube.runtime.clock import Clock
from danube.runtime.tasks import Wakeup

if TYPE_CHECKING:
    from danube.rpc.http2.server.connection import ServerConnection


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """One method of a service: a unary handler, or the factory of a stream's."""

    path: str
    unary: UnaryHandler | None = None
    factory: StreamFactory | None = None
    both_ways: bool = False


@dataclass(slots=True)
class ServerSide:
    """Shared by the connections of one server."""

    clock: Clock
    options: CarrierOptions
    memory: StreamMemory
    """Shared with the carrier's other servers."""
    methods: dict[bytes, Method]
    partial: PartialRequests = field(default_factory=PartialRequests)
    connections: "dict[ServerConnection, None]" = field(default_factory=dict)
    """By age."""
    active: int = 0
    """Calls and streams that are under way, or whose answer is still on its way."""
    changed: Wakeup = field(default_factory=Wakeup)
    """Notified when no call is left, and when no connection is."""
    stopping: bool = False

    def ended(self) -> None:
        """Count one call less."""
        self.active -= 1
        if not self.active:
            self.changed.notify()


def methods_of(services: Sequence[Service]) -> dict[bytes, Method]:
    """The methods of services by their path on the wire."""
    found: list[Method] = []
    for service in services:
        prefix = f"/{service.name}/"
        found += [Method(path=prefix + name, unary=handler) for name, handler in service.unary.items()]
        found += [Method(path=prefix + name, factory=make) for name, make in service.server_streams.items()]
        found += [Method(path=prefix + name, factory=make, both_ways=True) for name, make in service.streams.items()]
    return {method.path.encode(): method for method in found}
