"""A TCP proxy that cuts: for tests of what a client does when its connection breaks at any byte.

It stands between clients and a broker that advertises the proxy's address (`--advertised-addr`). A cut breaks one
connection, both ways and without a clean end, when so many bytes have passed through it.
"""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from types import TracebackType
from typing import Self, cast

from danube.model.errors import UnavailableError
from danube.model.limits.broker import CONNECT_TIMEOUT_S
from danube.rpc.address import join_address, split_address
from danube.runtime.tasks import TaskScope

_BUFFER_BYTES_MAX = 256 * 1024
"""Of one direction of one connection, beside what the kernel holds; then the sender is not read any more."""


class Direction(Enum):
    """Direction whose bytes are counted."""

    TO_BROKER = "to broker"
    TO_CLIENT = "to client"


@dataclass(frozen=True, slots=True)
class Cut:
    """When a connection breaks."""

    after_bytes: int
    """So many still arrive; counted from the moment at which this cut's turn comes."""
    direction: Direction = Direction.TO_BROKER


class CuttingProxy:
    """Forwards to one address, and cuts. An async context manager."""

    def __init__(self) -> None:
        self.target = ""
        """`host:port`; set it before anybody connects. The broker there may need this proxy's address to start."""
        self.cuts_made = 0
        self._address: str | None = None
        self._server: asyncio.Server | None = None
        self._cuts: list[Cut] = []
        self._none_left = asyncio.Event()
        self._none_left.set()
        self._links: set[_Link] = set()
        self._scope = TaskScope("cutting proxy")

    @property
    def address(self) -> str:
        """Its listen address, `host:port`. Raises UnavailableError when it does not listen."""
        if self._address is None:
            raise UnavailableError("the proxy does not listen: use it within `async with`")
        return self._address

    @property
    def cuts_left(self) -> int:
        """Cuts whose turn has not ended."""
        return len(self._cuts)

    async def __aenter__(self) -> Self:
        self._server = await asyncio.get_running_loop().create_server(lambda: _ClientEnd(self), "127.0.0.1", 0)
        self._address = join_address(*self._server.sockets[0].getsockname()[:2])
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._server is not None:
            self._server.close()
        self.cut_now()
        await self._scope.close()

    def cut(self, cuts: Iterable[Cut]) -> None:
        """Make these cuts, one after the other, whichever connection meets them; then forward only."""
        self._cuts = list(cuts)[::-1]
        self._none_left.clear()
        self._turn_ended()

    async def wait_for_cuts(self) -> None:
        """Return when all that was to be cut is cut."""
        await self._none_left.wait()

    def cut_now(self) -> None:
        """Break every connection that is open."""
        for link in tuple(self._links):
            link.abort()

    def opened(self, link: "_Link") -> None:
        """A client has connected."""
        self._links.add(link)
        self._scope.spawn(self._join(link), "connect")

    def closed(self, link: "_Link") -> None:
        """A connection is over."""
        self._links.discard(link)

    def passing(self, link: "_Link", direction: Direction, data: bytes) -> tuple[bytes, bool]:
        """The part of `data` that still arrives, and True if the connection breaks then."""
        before = link.passed[direction]
        link.passed[direction] = before + len(data)
        cut = self._cuts[-1] if self._cuts else None
        if cut is None or cut.direction is not direction or link.passed[direction] <= cut.after_bytes:
            return data, False
        self._cuts.pop()
        self.cuts_made += 1
        self._turn_ended()
        return data[: cut.after_bytes - before], True

    def to_broker(self, link: "_Link", data: bytes) -> None:
        """Pass on what a client said."""
        arrives, breaks = self.passing(link, Direction.TO_BROKER, data)
        if link.broker is not None:
            link.broker.write(arrives)
        if breaks:
            link.abort()

    def _turn_ended(self) -> None:
        for link in self._links:
            link.passed = dict.fromkeys(Direction, 0)
        if not self._cuts:
            self._none_left.set()

    async def _join(self, link: "_Link") -> None:
        try:
            host, port = split_address(self.target)
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                await asyncio.get_running_loop().create_connection(lambda: _BrokerEnd(self, link), host, port)
        except (OSError, TimeoutError):
            link.abort()


@dataclass(eq=False, slots=True)
class _Link:
    """Two connections that are one."""

    client: asyncio.Transport
    broker: asyncio.Transport | None = None
    passed: dict[Direction, int] = field(default_factory=lambda: dict.fromkeys(Direction, 0))
    """Bytes, since the cut whose turn it is."""
    early: bytearray = field(default_factory=bytearray)
    """Bytes from the client before the broker was reached."""

    def abort(self) -> None:
        self.client.abort()
        if self.broker is not None:
            self.broker.abort()


class _ClientEnd(asyncio.Protocol):
    """The connection that a client made. It is not read before the other one is there."""

    _link: _Link

    def __init__(self, proxy: CuttingProxy) -> None:
        self._proxy = proxy

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        client = cast("asyncio.Transport", transport)
        client.pause_reading()
        client.set_write_buffer_limits(_BUFFER_BYTES_MAX)
        self._link = _Link(client)
        self._proxy.opened(self._link)

    def data_received(self, data: bytes) -> None:
        if self._link.broker is None:
            # older Pythons read once although they were told not to from the beginning; told again, they stop
            self._link.early += data
            self._link.client.resume_reading()
            self._link.client.pause_reading()
        else:
            self._proxy.to_broker(self._link, data)

    def pause_writing(self) -> None:
        if self._link.broker is not None:
            self._link.broker.pause_reading()

    def resume_writing(self) -> None:
        if self._link.broker is not None:
            self._link.broker.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - however it ended
        self._link.abort()
        self._proxy.closed(self._link)


class _BrokerEnd(asyncio.Protocol):
    """The connection that the proxy made for it."""

    def __init__(self, proxy: CuttingProxy, link: _Link) -> None:
        self._proxy = proxy
        self._link = link

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        broker = self._link.broker = cast("asyncio.Transport", transport)
        broker.set_write_buffer_limits(_BUFFER_BYTES_MAX)
        if self._link.client.is_closing():
            broker.abort()
            return
        self._link.client.resume_reading()
        if self._link.early:
            self._proxy.to_broker(self._link, bytes(self._link.early))
            self._link.early.clear()

    def data_received(self, data: bytes) -> None:
        arrives, breaks = self._proxy.passing(self._link, Direction.TO_CLIENT, data)
        self._link.client.write(arrives)
        if breaks:
            self._link.abort()

    def pause_writing(self) -> None:
        self._link.client.pause_reading()

    def resume_writing(self) -> None:
        self._link.client.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - however it ended
        self._link.abort()
