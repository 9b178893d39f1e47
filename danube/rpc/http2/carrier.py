"""The carrier over our own HTTP/2 engine; with contexts, over TLS."""

import ssl
from collections.abc import Sequence

from danube.rpc.address import join_address, split_address
from danube.rpc.carrier import CarrierOptions, CarrierServer, Channel, Service
from danube.rpc.http2.client.channel import Http2Channel
from danube.rpc.http2.server.server import Http2Server
from danube.rpc.http2.server.side import ServerSide, methods_of
from danube.rpc.listening import listen_at
from danube.rpc.stream_memory import StreamMemory
from danube.runtime.clock import Clock


class Http2Carrier:
    """Serves and connects by the engine."""

    def __init__(
        self,
        clock: Clock,
        options: CarrierOptions | None = None,
        *,
        server_tls: ssl.SSLContext | None = None,
        client_tls: ssl.SSLContext | None = None,
        tls_name: str | None = None,
    ) -> None:
        """`tls_name` is the name that a server's certificate must have, where that is not the host that is dialled."""
        self._clock = clock
        self._options = options or CarrierOptions()
        self._memory = StreamMemory(self._options.stream_memory_bytes_max, clock)
        self._server_tls = server_tls
        self._client_tls = client_tls
        self._tls_name = tls_name

    async def serve(self, address: str, services: Sequence[Service]) -> CarrierServer:
        host, _ = split_address(address)
        listener = await listen_at(address)
        bound = join_address(host, listener.getsockname()[1])
        side = ServerSide(self._clock, self._options, self._memory, methods_of(services))
        server = Http2Server(bound, side)
        await server.listen(listener, self._server_tls)
        return server

    def connect(self, address: str) -> Channel:
        return Http2Channel(address, self._options, self._clock, tls=self._client_tls, tls_name=self._tls_name)
