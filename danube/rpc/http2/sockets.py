"""Connections over TCP, with or without TLS; and the protocol by which the engine is given other ones."""

import asyncio
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from danube.model.limits import http2 as limits
from danube.rpc.address import join_address, split_address
from danube.rpc.listening import listen_at

P = TypeVar("P", bound=asyncio.Protocol)


@dataclass(frozen=True, slots=True)
class Listening:
    """An address at which connections are accepted."""

    address: str
    """As bound."""
    close: Callable[[], None]
    """Accepts no more."""


class Network(Protocol):
    """Makes connections, and accepts them."""

    @property
    def scheme(self) -> bytes:
        """`http`, or `https` over TLS."""

    async def listen(self, address: str, accept: Callable[[], asyncio.Protocol]) -> Listening:
        """Accept connections at `host:port` from now on. Raises SettingsError with the reason."""

    async def dial(self, address: str, make: Callable[[], P]) -> P:
        """Connect to `host:port`. Raises OSError, and ssl.SSLError."""


class Sockets:
    """The machine's network."""

    def __init__(
        self,
        server_tls: ssl.SSLContext | None = None,
        client_tls: ssl.SSLContext | None = None,
        tls_name: str | None = None,
    ) -> None:
        """`tls_name` is the name that a server's certificate must have, where that is not the host that is dialled."""
        self._server_tls = server_tls
        self._client_tls = client_tls
        self._tls_name = tls_name

    @property
    def scheme(self) -> bytes:
        return b"http" if self._client_tls is None else b"https"

    async def listen(self, address: str, accept: Callable[[], asyncio.Protocol]) -> Listening:
        host, _ = split_address(address)
        listener = await listen_at(address)
        bound = join_address(host, listener.getsockname()[1])
        server = await asyncio.get_running_loop().create_server(
            accept,
            sock=listener,
            ssl=self._server_tls,
            backlog=limits.HTTP2_BACKLOG,
            ssl_handshake_timeout=None if self._server_tls is None else limits.HTTP2_PREFACE_TIMEOUT_S,
        )
        return Listening(bound, server.close)

    async def dial(self, address: str, make: Callable[[], P]) -> P:
        host, port = split_address(address)
        tls = self._client_tls
        name = None if tls is None else self._tls_name or host
        _, connection = await asyncio.get_running_loop().create_connection(
            make, host, port, ssl=tls, server_hostname=name
        )
        return connection
