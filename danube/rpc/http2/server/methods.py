"""Methods of services by their path on the wire."""

from collections.abc import Sequence
from dataclasses import dataclass

from danube.rpc.carrier import Service, StreamFactory, UnaryHandler


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """One method of a service: a unary handler, or the factory of a stream's."""

    path: str
    unary: UnaryHandler | None = None
    factory: StreamFactory | None = None
    both_ways: bool = False


def methods_of(services: Sequence[Service]) -> dict[bytes, Method]:
    """The methods of services by their path on the wire."""
    found: list[Method] = []
    for service in services:
        prefix = f"/{service.name}/"
        found += [Method(path=prefix + name, unary=handler) for name, handler in service.unary.items()]
        found += [Method(path=prefix + name, factory=make) for name, make in service.server_streams.items()]
        found += [Method(path=prefix + name, factory=make, both_ways=True) for name, make in service.streams.items()]
    return {method.path.encode(): method for method in found}
