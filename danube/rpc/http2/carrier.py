"""The carrier over our own HTTP/2 engine; with contexts, over TLS."""

import ssl
from collections.abc import Sequence

from danube.rpc.carrier import CarrierOptions, CarrierServer, Channel, Service
from danube.rpc.http2.client.channel import Http2Channel
from danube.rpc.http2.server.end import ServerSide
from danube.rpc.http2.server.methods import methods_of
from danube.rpc.http2.server.server import Http2Server
from danube.rpc.http2.sockets import Network, Sockets
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
        network: Network | None = None,
    ) -> None:
        """`tls_name` is the name that a server's certificate must have, where that is not the host that is dialled."""
        self._clock = clock
        self._options = options or CarrierOptions()
        self._memory = StreamMemory(self._options.stream_memory_bytes_max, clock)
        self._network = network or Sockets(server_tls, client_tls, tls_name)

    async def serve(self, address: str, services: Sequence[Service]) -> CarrierServer:
        side = ServerSide(self._clock, self._options, self._memory, methods_of(services))
        server = Http2Server(side)
        await server.listen(address, self._network)
        return server

    def connect(self, address: str) -> Channel:
        return Http2Channel(address, self._options, self._clock, self._network)
