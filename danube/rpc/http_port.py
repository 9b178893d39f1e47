"""A listening HTTP port: what Danube's small servers have in common, whoever answers there."""

import contextlib
import socket
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from typing import Any, Literal

import uvicorn

from danube.model.errors import SettingsError
from danube.rpc.address import join_address

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]
"""An ASGI application: https://asgi.readthedocs.io/en/latest/specs/main.html."""


class HttpPort(uvicorn.Server):
    """Carries requests to an application: `serve(sockets=[listener])`, until `should_exit`."""

    def __init__(
        self,
        app: App,
        *,
        lifespan: Literal["off", "on"] = "off",
        requests_max: int | None = None,
        drain_s: float | None = None,
    ) -> None:
        """Of requests there are `requests_max` at once; those under way at the end have `drain_s`, in whole seconds.

        None is no bound. With the lifespan on, the application is told of the start and the end.
        """
        config = uvicorn.Config(
            app,
            interface="asgi3",
            http="h11",
            ws="none",
            loop="none",
            lifespan=lifespan,
            log_config=None,
            log_level="warning",
            access_log=False,
            proxy_headers=False,
            server_header=False,
            limit_concurrency=requests_max,
            timeout_graceful_shutdown=None if drain_s is None else round(drain_s),
        )
        super().__init__(config)

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
