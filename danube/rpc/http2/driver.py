"""A connection on asyncio, either end: reads and writes bytes, and keeps the peer alive or gives it up."""

import asyncio
import socket
from collections.abc import Callable, Mapping
from typing import Any, cast

from danube.model.limits import broker as broker_limits
from danube.model.limits import http2 as limits
from danube.rpc.http2.protocol.connection import Connection
from danube.rpc.http2.protocol.events import ConnectionFailed
from danube.runtime.clock import Clock

_PING = b"danube\0\0"


class ConnectionDriver(asyncio.Protocol):
    """Drives one connection. What is sent during one turn of the event loop leaves in one write.

    Every event has its method in `_reactions`; while one runs, nothing is written.
    """

    def __init__(self, connection: Connection[Any], clock: Clock) -> None:
        self.connection = connection
        self.clock = clock
        self.writes_paused = False
        """True while the system takes no more bytes."""
        self.lost = False
        """True once nothing can be sent or received."""
        self.heard_s = self.made_s = clock.monotonic_s()
        """Time of the last bytes from the peer."""
        self._transport: asyncio.Transport | None = None
        self._reactions: Mapping[type, Callable[[Any], None]] = {}
        self._pinged_s: float | None = None
        self._reacts = False
        self._flush_due = False
        self._unwritten_bytes = 0

    # asyncio.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(limits.HTTP2_WRITE_BUFFER_BYTES)
        sock = transport.get_extra_info("socket")
        if sock is not None and sock.family in {socket.AF_INET, socket.AF_INET6}:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self.connection.has_preface:  # a server waits for its client's: it may be one of HTTP/1.1
            self.write_now()

    def data_received(self, data: bytes) -> None:
        self.heard_s = self.clock.monotonic_s()
        self._reacts = True
        try:
            for event in self.connection.receive(data, self.heard_s):
                self._reactions[type(event)](event)
        finally:
            self._reacts = False
        self.flush()

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self.writes_paused = True

    def resume_writing(self) -> None:
        self.writes_paused = False

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True
        self._transport = None
        self.on_lost("the connection was closed" if exc is None else str(exc) or type(exc).__name__)

    # Writing.

    def flush_soon(self) -> None:
        """Write, at the end of this turn or in the next one, what there is then."""
        if not (self._reacts or self._flush_due or self.lost):
            self._flush_due = True
            asyncio.get_running_loop().call_soon(self._flush_later)

    def flush(self) -> None:
        """Have streams send what they may, and write it."""
        if not self.lost:
            self.pump()
            self.write_now()

    def write_now(self) -> None:
        """Write what was sent so far."""
        self._unwritten_bytes = 0
        output = self.connection.take_output()
        if output and self._transport is not None:
            self._transport.write(output)

    def count_unwritten(self, size: int) -> None:
        """So many bytes of a stream were sent; many of them are written at once, so that `writes_paused` is true."""
        self._unwritten_bytes += size
        if self._unwritten_bytes >= limits.HTTP2_WRITE_BUFFER_BYTES:
            self.write_now()

    def close(self) -> None:
        """Write the rest, and close."""
        self.write_now()
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close at once."""
        if self._transport is not None:
            self._transport.abort()

    # For the ends.

    def pump(self) -> None:
        """Have streams send what they may."""

    def on_lost(self, reason: str) -> None:
        """Nothing more can be sent or received."""

    def on_failed(self, event: ConnectionFailed) -> None:
        """The peer broke the rules: the last output says so."""
        del event
        self.close()

    # Keepalive.

    def tick(self, now_s: float) -> None:
        """Look at the peer: it is pinged after a silence, and given up after another one."""
        if not self.connection.has_preface and now_s - self.made_s >= limits.HTTP2_PREFACE_TIMEOUT_S:
            self.abort()
        elif self._pinged_s is not None and self.heard_s < self._pinged_s:
            if now_s - self._pinged_s >= broker_limits.RPC_KEEPALIVE_TIMEOUT_S:
                self.abort()
        elif now_s - self.heard_s >= broker_limits.RPC_KEEPALIVE_S and self.connection.has_preface:
            self._pinged_s = now_s
            self.connection.ping(_PING)
            self.write_now()
        else:
            self._pinged_s = None

    @property
    def peer_address(self) -> tuple[str, int] | None:
        """Host and port of the peer."""
        found = None if self._transport is None else self._transport.get_extra_info("peername")
        return (str(found[0]), int(found[1])) if isinstance(found, tuple) and len(found) >= 2 else None

    @property
    def transport(self) -> asyncio.Transport | None:
        """Transport under this connection; None once it is lost."""
        return self._transport

    def _flush_later(self) -> None:
        self._flush_due = False
        self.flush()
