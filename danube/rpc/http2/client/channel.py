"""The asking side of the engine: calls and streams over one connection to one address."""

import asyncio
from collections.abc import Sequence

from danube.rpc.carrier import CarrierOptions, ClientStream
from danube.rpc.http2.client.connection import ClientConnection
from danube.rpc.http2.client.connector import Connector
from danube.rpc.http2.client.stream import Http2ClientStream
from danube.rpc.http2.sockets import Network
from danube.runtime.clock import Clock


class Http2Channel:
    """A client's connection to one address."""

    def __init__(self, address: str, options: CarrierOptions, clock: Clock, network: Network) -> None:
        self._connector = Connector(address, options, clock, network)

    async def call(
        self, path: str, request: bytes, *, timeout_s: float | None = None, metadata: Sequence[tuple[str, str]] = ()
    ) -> bytes:
        connection = self._connector.ready()
        if connection is None or not connection.has_room:
            started_s = self._connector.clock.monotonic_s()
            connection = await self._connector.connected_within(timeout_s)
            if timeout_s is not None:
                timeout_s = max(0.001, timeout_s - (self._connector.clock.monotonic_s() - started_s))
        answer = connection.begin(path, request, timeout_s, metadata)
        try:
            return await answer.future
        except asyncio.CancelledError:
            connection.cancel(answer)
            raise

    def stream(
        self, path: str, *, timeout_s: float | None = None, metadata: Sequence[tuple[str, str]] = ()
    ) -> ClientStream:
        return Http2ClientStream(self._connector, path, timeout_s, tuple(metadata))

    def server_stream(
        self,
        path: str,
        request: bytes,
        *,
        timeout_s: float | None = None,
        metadata: Sequence[tuple[str, str]] = (),
    ) -> ClientStream:
        return Http2ClientStream(self._connector, path, timeout_s, tuple(metadata), request=request)

    async def close(self, lost: str | None = None) -> None:
        await self._connector.close(lost)

    def ready(self) -> ClientConnection | None:
        """The connection, if there is one that takes calls. Raises the error of a closed channel."""
        return self._connector.ready()
