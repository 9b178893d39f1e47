"""Servers and clients in one process, without sockets: for tests and simulations.

It keeps what `carrier` promises, limits and deadlines included. Two runs that do the same see the same order.
"""

import asyncio
from collections.abc import Callable, Sequence

from danube.model import errors
from danube.model.errors import DanubeError, SettingsError
from danube.rpc.address import join_address, split_address
from danube.rpc.carrier import Caller, CarrierOptions, CarrierServer, Channel, ClientStream, Service
from danube.rpc.memory.server import MemoryServer
from danube.rpc.memory.stream import MemoryClientStream, MemoryStream
from danube.rpc.stream_memory import StreamMemory
from danube.runtime.clock import Clock
from danube.wire.status import Status, error_from, status_of

USER_AGENT = "danube-memory"


class MemoryCarrier:
    """The servers of one simulated network. Addresses are `host:port` with any host, such as `memory:1`."""

    def __init__(self, clock: Clock, options: CarrierOptions | None = None) -> None:
        self.clock = clock
        self.options = options or CarrierOptions()
        self.memory = StreamMemory(self.options.stream_memory_bytes_max, clock)
        self._servers: dict[str, MemoryServer] = {}
        self._last_port = 0

    async def serve(self, address: str, services: Sequence[Service]) -> CarrierServer:
        host, port = split_address(address)
        bound = join_address(host, port or self._free_port(host))
        if bound in self._servers:
            raise SettingsError(f"{bound} is in use by another server; stop it or choose another port")
        server = MemoryServer(bound, services, clock=self.clock, options=self.options, on_stop=self._forget)
        self._servers[bound] = server
        return server

    def connect(self, address: str) -> Channel:
        return MemoryChannel(self, address)

    def server_at(self, address: str) -> MemoryServer | None:
        """The server that listens there now."""
        return self._servers.get(address)

    def _forget(self, server: MemoryServer) -> None:
        if self._servers.get(server.address) is server:
            del self._servers[server.address]

    def _free_port(self, host: str) -> int:
        self._last_port += 1
        while join_address(host, self._last_port) in self._servers:
            self._last_port += 1
        return self._last_port


class MemoryChannel:
    """A client's view of one address in memory."""

    def __init__(self, carrier: MemoryCarrier, address: str) -> None:
        self._carrier = carrier
        self._address = address
        self._closed = False
        self._lost: str | None = None
        self._under_way: set[Callable[[DanubeError], None]] = set()

    async def call(
        self, path: str, request: bytes, *, timeout_s: float | None = None, metadata: Sequence[tuple[str, str]] = ()
    ) -> bytes:
        self._check_open()
        server = self._server()
        call = server.begin_call(path, request, self._caller(metadata))

        def end(error: DanubeError) -> None:
            call.lose(status_of(error))

        self._under_way.add(end)
        cancel_timer = self._expiry(timeout_s, end)
        try:
            return self._response(await call.wait())
        except asyncio.CancelledError:
            end(errors.CancelledError("the caller left"))
            raise
        finally:
            cancel_timer()
            self._under_way.discard(end)
            server.release(call)

    def stream(
        self, path: str, *, timeout_s: float | None = None, metadata: Sequence[tuple[str, str]] = ()
    ) -> ClientStream:
        return MemoryClientStream(self._open(path, timeout_s, metadata, both_ways=True))

    def server_stream(
        self,
        path: str,
        request: bytes,
        *,
        timeout_s: float | None = None,
        metadata: Sequence[tuple[str, str]] = (),
    ) -> ClientStream:
        stream = self._open(path, timeout_s, metadata, both_ways=False)
        stream.request(request)
        stream.half_close()
        return MemoryClientStream(stream, half_closed=True)

    async def close(self, lost: str | None = None) -> None:
        self._closed = True
        self._lost = self._lost or lost
        for end in tuple(self._under_way):
            end(self._closed_error())

    def _open(
        self, path: str, timeout_s: float | None, metadata: Sequence[tuple[str, str]], *, both_ways: bool
    ) -> MemoryStream:
        self._check_open()
        caller, carrier = self._caller(metadata), self._carrier
        stream = MemoryStream(path, caller, carrier.options, carrier.memory, both_ways=both_ways)
        try:
            server = self._server()
        except DanubeError as error:
            stream.lose(error)
            return stream
        stream.at_end(self._expiry(timeout_s, stream.lose))
        self._under_way.add(stream.lose)
        stream.at_end(lambda: self._under_way.discard(stream.lose))
        stream.at_end(lambda: server.release(stream))
        server.begin_stream(path, stream)
        return stream

    def _check_open(self) -> None:
        if self._closed:
            raise self._closed_error()

    def _server(self) -> MemoryServer:
        server = self._carrier.server_at(self._address)
        if server is None:
            raise errors.BrokerUnreachableError(f"nobody listens on {self._address}: check the address and the broker")
        return server

    def _caller(self, metadata: Sequence[tuple[str, str]]) -> Caller:
        return Caller(
            address="memory",
            user_agent=USER_AGENT,
            metadata={key.lower(): text for key, text in metadata},
        )

    def _expiry(self, timeout_s: float | None, end: Callable[[DanubeError], None]) -> Callable[[], None]:
        """Have the call end when its time is up; answers the function that calls that off."""
        if timeout_s is None:
            return lambda: None
        clock = self._carrier.clock
        late = errors.DeadlineExceededError(f"no answer from {self._address} within {timeout_s:g} s")
        return clock.call_at(clock.monotonic_s() + timeout_s, lambda: end(late)).cancel

    def _response(self, outcome: bytes | Status) -> bytes:
        if isinstance(outcome, Status):
            raise error_from(outcome.code, outcome.message, outcome.error_code)
        if len(outcome) > self._carrier.options.receive_bytes_max:
            raise errors.LimitReachedError(f"the answer of {self._address} is larger than this client takes")
        return outcome

    def _closed_error(self) -> DanubeError:
        if self._lost is not None:
            return errors.BrokerUnreachableError(self._lost)
        return errors.CancelledError(f"the channel to {self._address} was closed at this end")
