"""The choice of the engine that carries calls: our own HTTP/2, or gRPC's. Only the chosen one is loaded."""

import os
from dataclasses import dataclass, field
from enum import StrEnum

from danube.model.errors import SettingsError
from danube.rpc.carrier import Carrier, CarrierOptions
from danube.runtime.clock import Clock


class RpcEngine(StrEnum):
    """Implementations of gRPC over HTTP/2."""

    HTTP2 = "http2"
    """Our own: `danube/rpc/http2/`."""
    GRPC = "grpc"
    """The library grpcio."""


DEFAULT_ENGINE = RpcEngine.HTTP2
ENGINE_VARIABLE = "DANUBE_RPC_ENGINE"
"""Environment variable that chooses for clients and commands, as the setting `rpc_engine` does for a broker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientTls:
    """PEM bytes; None stands for what the system trusts, and for presenting no certificate."""

    ca: bytes | None = None
    certificate: bytes | None = None
    key: bytes | None = field(default=None, repr=False)
    name: str | None = None
    """Name that a server's certificate must have, where that is not the host that is dialled."""


def engine_of_environment() -> RpcEngine:
    """The engine of clients and commands. Raises SettingsError for a name that is none."""
    name = os.environ.get(ENGINE_VARIABLE, DEFAULT_ENGINE)
    try:
        return RpcEngine(name)
    except ValueError:
        raise SettingsError(f"{ENGINE_VARIABLE} is {name!r}: set it to http2 or grpc, or unset it") from None


def server_carrier(engine: RpcEngine, clock: Clock, options: CarrierOptions) -> Carrier:
    """A carrier that serves, and connects to other brokers."""
    if engine is RpcEngine.HTTP2:
        from danube.rpc.http2.carrier import Http2Carrier  # noqa: PLC0415 - only the chosen engine is loaded

        return Http2Carrier(clock, options)
    from danube.rpc.grpc.carrier import GrpcCarrier  # noqa: PLC0415 - as above; grpcio costs 20 MB

    return GrpcCarrier(clock, options)


def client_carrier(clock: Clock, tls: ClientTls | None = None, engine: RpcEngine | None = None) -> Carrier:
    """A carrier that connects, over TLS with `tls`. Raises SettingsError for a certificate that cannot be read."""
    if (engine or engine_of_environment()) is RpcEngine.HTTP2:
        return _http2_client(clock, tls)
    from danube.rpc.grpc.carrier import GrpcCarrier, channel_credentials  # noqa: PLC0415 - as above

    if tls is None:
        return GrpcCarrier(clock)
    credentials = channel_credentials(ca=tls.ca, certificate=tls.certificate, key=tls.key)
    return GrpcCarrier(clock, channel_credentials=credentials, tls_name=tls.name)


def _http2_client(clock: Clock, tls: ClientTls | None) -> Carrier:
    from danube.rpc.http2.carrier import Http2Carrier  # noqa: PLC0415 - as above

    if tls is None:
        return Http2Carrier(clock)
    from danube.rpc.http2.tls import client_context  # noqa: PLC0415 - as above

    context = client_context(ca=tls.ca, certificate=tls.certificate, key=tls.key)
    return Http2Carrier(clock, client_tls=context, tls_name=tls.name)
