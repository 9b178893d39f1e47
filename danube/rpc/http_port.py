"""A listening HTTP port: what Danube's small servers have in common, whoever answers there."""

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from typing import Any, Literal

import uvicorn

from danube.model.errors import SettingsError
from danube.rpc.address import join_address
from danube.rpc.http_connection import HttpConnection

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]
"""An ASGI application: https://asgi.readthedocs.io/en/latest/specs/main.html."""


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
    ) -> None:
        """Of requests there are `requests_max` at once; beyond it the answer is 503, but for the paths `probes`.

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
