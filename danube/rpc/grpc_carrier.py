"""The carrier over gRPC: a `grpc.aio` server and channels, on raw bytes.

It serves the admin port, and the client port for whoever must have gRPC's own implementation.
"""

import asyncio
import errno
import socket
from collections.abc import Sequence
from contextlib import suppress
from ipaddress import ip_address
from typing import cast

import grpc
from grpc import aio

from danube.model import limits
from danube.model.errors import SettingsError
from danube.rpc.address import join_address, split_address
from danube.rpc.carrier import CarrierServer, Channel, Service
from danube.rpc.grpc_channel import GrpcChannel
from danube.rpc.grpc_server import Router, ServerSide
from danube.rpc.options import CarrierOptions
from danube.runtime.clock import Clock
from danube.runtime.tasks import TaskScope

_Arguments = list[tuple[str, int]]


class GrpcCarrier:
    """Serves and connects through grpc.aio; with credentials, over TLS."""

    def __init__(
        self,
        clock: Clock,
        options: CarrierOptions | None = None,
        *,
        server_credentials: grpc.ServerCredentials | None = None,
        channel_credentials: grpc.ChannelCredentials | None = None,
    ) -> None:
        self._clock = clock
        self._options = options or CarrierOptions()
        self._server_credentials = server_credentials
        self._channel_credentials = channel_credentials

    async def serve(self, address: str, services: Sequence[Service]) -> CarrierServer:
        host, port = split_address(address)
        await _check_free(address, host, port)
        tasks = TaskScope(f"server at {address}")
        secure = self._server_credentials is not None
        side = ServerSide(clock=self._clock, options=self._options, tasks=tasks, secure=secure)
        server = aio.server(
            handlers=[cast("grpc.GenericRpcHandler[bytes, bytes]", Router(services, side))],
            options=_server_arguments(self._options),
            maximum_concurrent_rpcs=self._options.concurrent_calls_max,
        )
        bound = join_address(host, self._bind(server, address))
        await server.start()
        return GrpcServer(server, bound, tasks)

    def connect(self, address: str) -> Channel:
        arguments = _channel_arguments(self._options)
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


class GrpcServer:
    """A listening grpc.aio server."""

    def __init__(self, server: aio.Server, address: str, tasks: TaskScope) -> None:
        self._server = server
        self._address = address
        self._tasks = tasks

    @property
    def address(self) -> str:
        return self._address

    async def stop(self, grace_s: float) -> None:
        await self._server.stop(grace_s if grace_s > 0 else None)
        await self._tasks.close()


async def _check_free(address: str, host: str, port: int) -> None:
    """Find out why an address cannot be bound, where it cannot: gRPC would not say."""
    family, target = await _resolve(address, host, port)
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(target)
            probe.listen()
        except OSError as error:
            raise _bind_error(address, error) from error


async def _resolve(address: str, host: str, port: int) -> tuple[int, tuple[str, int]]:
    with suppress(ValueError):
        family = socket.AF_INET if ip_address(host).version == 4 else socket.AF_INET6
        return family, (host, port)
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise SettingsError(f"cannot listen on {address}: the host {host} has no address; check its name") from error
    return found[0][0], (str(found[0][4][0]), port)


def _bind_error(address: str, error: OSError) -> SettingsError:
    if error.errno == errno.EADDRINUSE:
        return SettingsError(f"{address} is in use by another process; stop it or choose another port")
    if error.errno == errno.EADDRNOTAVAIL:
        return SettingsError(f"cannot listen on {address}: this machine does not have that address; choose one it has")
    if error.errno == errno.EACCES:
        return SettingsError(f"cannot listen on {address}: ports below 1024 need a privilege; choose a higher port")
    return SettingsError(f"cannot listen on {address}: {error.strerror}; choose another address")


def _server_arguments(options: CarrierOptions) -> _Arguments:
    return [
        *_shared_arguments(options),
        ("grpc.so_reuseport", 0),  # else a second broker binds the same port and nobody notices
        ("grpc.max_concurrent_streams", options.concurrent_calls_max),
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
