"""A listening server of the engine."""

from collections.abc import Callable
from contextlib import suppress

from danube.model.limits import http2 as limits
from danube.rpc.http2.server.connection import ServerConnection
from danube.rpc.http2.server.end import ServerSide
from danube.rpc.http2.sockets import Listening, Network
from danube.runtime.clock import TimerHandle, within


class Http2Server:
    """Accepts connections, looks at each now and then, and stops them with grace."""

    def __init__(self, side: ServerSide) -> None:
        self._side = side
        self._listening: Listening | None = None
        self._timer: TimerHandle | None = None

    @property
    def address(self) -> str:
        """`host:port` as bound; empty before `listen`."""
        return "" if self._listening is None else self._listening.address

    async def listen(self, address: str, network: Network) -> None:
        """Accept connections from now on."""
        self._listening = await network.listen(address, lambda: ServerConnection(self._side))
        self._tick_later()

    async def stop(self, grace_s: float) -> None:
        side = self._side
        side.stopping = True
        if self._timer is not None:
            self._timer.cancel()
        if self._listening is not None:
            self._listening.close()
        for connection in tuple(side.connections):
            connection.go_away()
        if grace_s > 0:
            await self._wait(grace_s, lambda: side.active == 0)
        for connection in tuple(side.connections):
            if connection.is_idle:
                connection.close()
            else:
                connection.cancel_all()
        await self._wait(limits.HTTP2_CLOSE_S, lambda: not side.connections)
        for connection in tuple(side.connections):
            connection.cancel_all()
        await self._wait(limits.HTTP2_CLOSE_S, lambda: not side.connections)

    async def _wait(self, seconds: float, reached: Callable[[], bool]) -> None:
        with suppress(TimeoutError):
            async with within(self._side.clock, seconds):
                while not reached():
                    await self._side.changed.wait()

    def _tick_later(self) -> None:
        clock = self._side.clock
        self._timer = clock.call_at(clock.monotonic_s() + limits.HTTP2_TICK_S, self._tick)

    def _tick(self) -> None:
        now_s = self._side.clock.monotonic_s()
        for connection in tuple(self._side.connections):
            connection.tick(now_s)
        self._tick_later()
