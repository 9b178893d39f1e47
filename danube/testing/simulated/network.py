"""Connections in memory under the HTTP/2 engine: for tests and simulations.

The engine is the one that ships; only its sockets are pairs of transports here. Two runs that do the same see the same
order: bytes reach the other end in a later turn of the event loop, so that no callback runs inside another.
"""

import asyncio
import errno
from collections import deque
from collections.abc import Callable

from danube.model.errors import SettingsError
from danube.rpc.address import join_address, split_address
from danube.rpc.carrier import CarrierOptions
from danube.rpc.http2.carrier import Http2Carrier
from danube.rpc.http2.sockets import Listening, P
from danube.runtime.clock import Clock

_READ_BYTES_MAX = 256 * 1024
"""Most that one end is given at once, as by asyncio from a socket."""


class MemoryCarrier(Http2Carrier):
    """The servers of one simulated network. Addresses are `host:port` with any host, such as `memory:1`."""

    def __init__(self, clock: Clock, options: CarrierOptions | None = None) -> None:
        super().__init__(clock, options, network=MemoryNetwork())


class MemoryNetwork:
    """The listening ends of one process, by their addresses."""

    scheme = b"http"

    def __init__(self) -> None:
        self._accepting: dict[str, Callable[[], asyncio.Protocol]] = {}
        self._last_port = 0
        self._connections = 0

    async def listen(self, address: str, accept: Callable[[], asyncio.Protocol]) -> Listening:
        host, port = split_address(address)
        bound = join_address(host, port or self._free_port(host))
        if bound in self._accepting:
            raise SettingsError(f"{bound} is in use by another server; stop it or choose another port")
        self._accepting[bound] = accept

        def close() -> None:
            if self._accepting.get(bound) is accept:
                del self._accepting[bound]

        return Listening(bound, close)

    async def dial(self, address: str, make: Callable[[], P]) -> P:
        accept = self._accepting.get(address)
        if accept is None:
            raise ConnectionRefusedError(errno.ECONNREFUSED, f"nobody listens on {address}")
        self._connections += 1
        client, server = make(), accept()
        connect(client, server, ("memory", self._connections))
        return client

    def _free_port(self, host: str) -> int:
        self._last_port += 1
        while join_address(host, self._last_port) in self._accepting:
            self._last_port += 1
        return self._last_port


def connect(client: asyncio.Protocol, server: asyncio.Protocol, client_address: tuple[str, int]) -> None:
    """Have two protocols speak to each other."""
    ends = MemoryTransport(client, None), MemoryTransport(server, client_address)
    for end, other in (ends, ends[::-1]):
        end.join(other)
    server.connection_made(ends[1])
    client.connection_made(ends[0])


class MemoryTransport(asyncio.Transport):
    """One end of a connection, as asyncio's over a socket: bounded, and closed or cut."""

    def __init__(self, protocol: asyncio.Protocol, peer_address: tuple[str, int] | None) -> None:
        super().__init__({} if peer_address is None else {"peername": peer_address})
        self._loop = asyncio.get_running_loop()
        self._protocol = protocol
        self._other = self
        self._unread: deque[bytes] = deque()
        self._unread_bytes = 0
        self._write_bytes_max = 64 * 1024
        self._reads = True
        self._writer_waits = False
        self._turn_due = False
        self._closing = False
        self._ended = False
        """True once the other end will send nothing more."""

    def join(self, other: "MemoryTransport") -> None:
        """Have the other end at the other end."""
        self._other = other

    # asyncio.

    def write(self, data: bytes | bytearray | memoryview) -> None:
        other = self._other
        if self._closing or not data:
            return
        other.take(bytes(data))
        if other.unread_bytes > self._write_bytes_max and not self._writer_waits:
            self._writer_waits = True
            self._protocol.pause_writing()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        del low
        self._write_bytes_max = self._write_bytes_max if high is None else high

    def get_write_buffer_size(self) -> int:
        return self._other.unread_bytes

    def pause_reading(self) -> None:
        self._reads = False

    def resume_reading(self) -> None:
        self._reads = True
        self._turn_soon()

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        """Send nothing more; what was written still arrives."""
        if not self._closing:
            self._lose(None)
            self._other.end()

    def abort(self) -> None:
        """Cut the connection: what was written and not read is lost."""
        other = self._other
        if not self._closing:
            self._lose(None)
        if not other.is_closing():
            other.cut()

    # For the other end.

    @property
    def unread_bytes(self) -> int:
        """Bytes that have arrived, and not been read."""
        return self._unread_bytes

    def take(self, data: bytes) -> None:
        """Bytes of the other end."""
        if not self._closing:
            self._unread.append(data)
            self._unread_bytes += len(data)
            self._turn_soon()

    def end(self) -> None:
        """The other end sends nothing more."""
        self._ended = True
        self._turn_soon()

    def cut(self) -> None:
        """The other end cut the connection."""
        self._lose(ConnectionResetError(errno.ECONNRESET, "the other end cut the connection"))

    def written(self) -> None:
        """The other end has read."""
        if self._writer_waits and self._other.unread_bytes <= self._write_bytes_max // 4 and not self._closing:
            self._writer_waits = False
            self._protocol.resume_writing()

    def _turn_soon(self) -> None:
        if not (self._turn_due or self._closing):
            self._turn_due = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        self._turn_due = False
        if self._closing or not self._reads:
            return
        if self._unread:
            data = self._read()
            self._other.written()
            self._give(data)
        if self._unread:
            self._turn_soon()
        elif self._ended and not self.is_closing() and not self._protocol.eof_received():
            self.close()

    def _read(self) -> bytes:
        data = self._unread.popleft() if len(self._unread) == 1 else b"".join(self._unread)
        self._unread.clear()
        if len(data) > _READ_BYTES_MAX:
            self._unread.append(data[_READ_BYTES_MAX:])
            data = data[:_READ_BYTES_MAX]
        self._unread_bytes -= len(data)
        return data

    def _give(self, data: bytes) -> None:
        try:
            self._protocol.data_received(data)
        except BaseException:
            self.abort()
            raise

    def _lose(self, error: Exception | None) -> None:
        self._closing = True
        self._unread.clear()
        self._unread_bytes = 0
        self._loop.call_soon(self._protocol.connection_lost, error)
