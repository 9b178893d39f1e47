"""The carrier over gRPC: a `grpc.aio` server and channels, on raw bytes.

It serves the admin port, and the client port for whoever must have gRPC's own implementation.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any, cast

import grpc
from grpc import aio

from danube.model.errors import SettingsError
from danube.model.limits import broker as limits
from danube.rpc.address import join_address, split_address
from danube.rpc.carrier import CarrierOptions, CarrierServer, Channel, Service
from danube.rpc.grpc.channel import GrpcChannel
from danube.rpc.grpc.server import GrpcServer, Router, ServerSide
from danube.rpc.listening import check_free
from danube.rpc.stream_memory import StreamMemory
from danube.runtime.clock import Clock
from danube.runtime.tasks import TaskScope

_Arguments = list[tuple[str, int | str]]


class GrpcCarrier:
    """Serves and connects through grpc.aio; with credentials, over TLS."""

    def __init__(
        self,
        clock: Clock,
        options: CarrierOptions | None = None,
        *,
        server_credentials: grpc.ServerCredentials | None = None,
        channel_credentials: grpc.ChannelCredentials | None = None,
        tls_name: str | None = None,
    ) -> None:
        """`tls_name` is the name that a server's certificate must have, where that is not the host that is dialled."""
        self._clock = clock
        self._options = options or CarrierOptions()
        self._memory = StreamMemory(self._options.stream_memory_bytes_max, clock)
        self._server_credentials = server_credentials
        self._channel_credentials = channel_credentials
        self._tls_name = tls_name

    async def serve(self, address: str, services: Sequence[Service]) -> CarrierServer:
        keep_engine()
        host, _ = split_address(address)
        await check_free(address)
        tasks = TaskScope(f"server at {address}")
        side = ServerSide(self._clock, self._options, tasks, self._memory, secure=self._server_credentials is not None)
        server = aio.server(
            handlers=[cast("grpc.GenericRpcHandler[bytes, bytes]", Router(services, side))],
            options=_server_arguments(self._options),
            maximum_concurrent_rpcs=self._options.concurrent_calls_max,
        )
        bound = join_address(host, self._bind(server, address))
        await server.start()
        return GrpcServer(server, bound, side)

    def connect(self, address: str) -> Channel:
        keep_engine()
        arguments = _channel_arguments(self._options)
        if self._tls_name is not None:
            arguments.append(("grpc.ssl_target_name_override", self._tls_name))
        if self._channel_credentials is None:
            channel = aio.insecure_channel(address, arguments)
        else:
            channel = aio.secure_channel(address, self._channel_credentials, arguments)
        return GrpcChannel(address, channel, self._options)

    def _bind(self, server: aio.Server, address: str) -> int:
        try:
            if self._server_credentials is None:
                return server.add_insecure_port(address)
            return server.add_secure_port(address, self._server_credentials)
        except RuntimeError as error:
            raise SettingsError(f"cannot listen on {address}: check the address and, with TLS, the key") from error


def channel_credentials(
    *, ca: bytes | None = None, certificate: bytes | None = None, key: bytes | None = None
) -> grpc.ChannelCredentials:
    """TLS credentials of a client from PEM bytes; without `ca` the system's authorities are trusted."""
    return grpc.ssl_channel_credentials(root_certificates=ca, private_key=key, certificate_chain=certificate)


@cache
def keep_engine() -> None:
    """Have grpc.aio's poller thread stay for the process's life.

    It would end with grpc's last object and be waited for on the event loop, in whatever frame garbage is collected.
    """
    cast("Any", aio).init_grpc_aio()


def _server_arguments(options: CarrierOptions) -> _Arguments:
    return [
        *_shared_arguments(options),
        ("grpc.so_reuseport", 0),  # else a second broker binds the same port and nobody notices
        ("grpc.max_concurrent_streams", options.concurrent_calls_max),
        # With its probes gRPC lets a fast peer send 128 MiB on each stream that is not read.
        ("grpc.http2.bdp_probe", 0),
        ("grpc.http2.lookahead_bytes", options.inbound_bytes_max),
        # Official clients ping as often as they like; a server that counts strikes would send them away.
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.min_ping_interval_without_data_ms", 1),
        ("grpc.http2.max_ping_strikes", 0),
    ]


def _channel_arguments(options: CarrierOptions) -> _Arguments:
    return [
        *_shared_arguments(options),
        ("grpc.enable_retries", 0),  # who asks decides what is tried again
        ("grpc.enable_http_proxy", 0),  # brokers are addressed directly, whatever the environment says
        ("grpc.use_local_subchannel_pool", 1),  # a channel is a connection, and closing it closes that
        ("grpc.initial_reconnect_backoff_ms", _ms(limits.RPC_RECONNECT_DELAY_MIN_S)),
        ("grpc.max_reconnect_backoff_ms", _ms(limits.RPC_RECONNECT_DELAY_MAX_S)),
        ("grpc.min_reconnect_backoff_ms", _ms(limits.CONNECT_TIMEOUT_S)),  # gRPC's name for "one attempt may take"
    ]


def _shared_arguments(options: CarrierOptions) -> _Arguments:
    return [
        ("grpc.max_receive_message_length", options.receive_bytes_max),
        ("grpc.max_send_message_length", -1),  # the receiver decides, and answers with its reason
        ("grpc.max_metadata_size", options.metadata_bytes_max),
        ("grpc.absolute_max_metadata_size", options.metadata_bytes_max),
        ("grpc.keepalive_time_ms", _ms(limits.RPC_KEEPALIVE_S)),
        ("grpc.keepalive_timeout_ms", _ms(limits.RPC_KEEPALIVE_TIMEOUT_S)),
        ("grpc.http2.max_pings_without_data", 0),
    ]


def _ms(seconds: float) -> int:
    return round(seconds * 1_000)
