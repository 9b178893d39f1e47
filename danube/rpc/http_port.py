"""A listening HTTP port for ASGI applications, with bounds on connections, requests and their duration."""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from typing import Any, Literal

import h11
import uvicorn
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from danube.model.errors import SettingsError
from danube.model.limits.faces import HTTP_CONNECTIONS_SPARE, HTTP_REQUEST_TIMEOUT_S
from danube.rpc.address import join_address
from danube.rpc.http2.tls import common_name

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
CERTIFICATE_NAME = "certificate_name"
"""Key of a request's `state`: the common name of the client certificate that TLS has verified; None without one."""
App = Callable[[Message, Receive, Send], Awaitable[None]]
"""An ASGI application: https://asgi.readthedocs.io/en/latest/specs/main.html."""


class HttpConnection(H11Protocol):
    """One connection. It ends when a request is not whole, or an answer stands still, for `timeout_s`.

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
        tls = transport.get_extra_info("ssl_object")
        if tls is not None:
            self.app_state = {**self.app_state, CERTIFICATE_NAME: common_name(tls.getpeercert())}
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
        """Process what was received; data that trickle in do not extend the timeout."""
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


class HttpPort(uvicorn.Server):
    """Carries requests to an application: `serve(sockets=[listener])`, until `stop`."""

    def __init__(
        self,
        app: App,
        *,
        lifespan: Literal["off", "on"] = "off",
        requests_max: int,
        drain_s: float,
        probes: frozenset[str] = frozenset(),
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """At most `requests_max` requests run at once; beyond it the answer is 503, but for the paths `probes`.

        Those under way at the end have `drain_s`, in whole seconds. With the lifespan on, the application is told of
        the start and the end.
        """
        config = uvicorn.Config(
            self._answer,
            interface="asgi3",
            http=HttpConnection,
            ws="none",
            loop="none",
            lifespan=lifespan,
            log_config=None,
            log_level="warning",
            access_log=False,
            proxy_headers=False,
            server_header=False,
            limit_concurrency=requests_max,
            timeout_graceful_shutdown=round(drain_s),
        )
        if tls is not None:
            config.load()
            config.ssl = tls  # uvicorn itself takes files alone, and reads them once
        super().__init__(config)
        self._app, self._requests_max, self._probes = app, requests_max, probes
        self._drain_s = drain_s

    async def stop(self, serving: "asyncio.Task[None]") -> None:
        """Take no more requests, and wait for those under way and for the end of `serving`, which is `serve`.

        It takes no longer than twice `drain_s`; whoever owns the task ends what is left. Idempotent.
        """
        self.should_exit = True
        await asyncio.wait([serving], timeout=2 * self._drain_s)
        self.force_exit = True

    async def _answer(self, scope: Message, receive: Receive, send: Send) -> None:
        is_full = scope["type"] == "http" and len(self.server_state.tasks) > self._requests_max
        if is_full and scope["path"] not in self._probes:
            await send({"type": "http.response.start", "status": 503, "headers": [(b"connection", b"close")]})
            await send({"type": "http.response.body", "body": b"too many requests at one time: try again"})
        else:
            await self._app(scope, receive, send)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are for whoever runs the process, not for a port of it."""
        yield


def listen(host: str, port: int, instead: str) -> socket.socket:
    """A socket that listens. Raises SettingsError, which ends with what to do `instead`."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family)
    except OSError as error:
        raise SettingsError(f"cannot listen on {join_address(host, port)}: {error.strerror}; {instead}") from None
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # asyncio does not for a socket it is given
    return listener
