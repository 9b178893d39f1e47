"""A connection of an HTTP port: a client that sends no whole request, or reads no answer, does not keep it."""

import asyncio
from typing import Any

import h11
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from danube.model.limits.faces import HTTP_CONNECTIONS_SPARE, HTTP_REQUEST_TIMEOUT_S


class HttpConnection(H11Protocol):
    """Ends by itself when a request is not whole, or an answer stands still, for `timeout_s`.

    uvicorn has a deadline only between two requests. A port has as many connections as requests and
    HTTP_CONNECTIONS_SPARE; one more ends the oldest that has no request under way, so a probe is always heard.
    """

    timeout_s = HTTP_REQUEST_TIMEOUT_S

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        """As uvicorn makes it, once for each connection."""
        super().__init__(config, server_state, app_state, _loop)
        self._connections_max = (config.limit_concurrency or 0) + HTTP_CONNECTIONS_SPARE
        self.limit_concurrency = None  # requests are counted by the port, which lets probes through
        self.connected_s = self.loop.time()
        self._reading: asyncio.TimerHandle | None = None
        self._writing: asyncio.TimerHandle | None = None

    @property
    def is_idle(self) -> bool:
        """No request is under way: none has come as a whole, or the last one is answered."""
        return self.conn.their_state not in {h11.DONE, h11.MUST_CLOSE} or self.cycle.response_complete

    @property
    def _is_request_due(self) -> bool:
        return self.conn.their_state in {h11.IDLE, h11.SEND_BODY}

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        """Make room, and wait for a request."""
        has_room = self._make_room()
        super().connection_made(transport)
        if has_room:
            self._expect_request()
        else:
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is waited for any more."""
        for timer in (self._reading, self._writing):
            _cancel(timer)
        super().connection_lost(exc)

    def handle_events(self) -> None:
        """What has been received is taken; data that trickle in gain no time."""
        super().handle_events()
        self._expect_request()

    def pause_writing(self) -> None:
        """The client reads too little."""
        super().pause_writing()
        self._writing = self._writing or self.loop.call_later(self.timeout_s, self.transport.abort)

    def resume_writing(self) -> None:
        """The client reads again."""
        _cancel(self._writing)
        self._writing = None
        super().resume_writing()

    def _expect_request(self) -> None:
        if not self._is_request_due:
            _cancel(self._reading)
            self._reading = None
        elif self._reading is None and not self.transport.is_closing():
            self._reading = self.loop.call_later(self.timeout_s, self.transport.abort)

    def _make_room(self) -> bool:
        if len(self.connections) < self._connections_max:
            return True
        idle = [each for each in self.connections if isinstance(each, HttpConnection) and each.is_idle]
        if idle:
            oldest = min(idle, key=lambda each: each.connected_s)
            self.connections.discard(oldest)
            oldest.transport.abort()
        return bool(idle)


def _cancel(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()
