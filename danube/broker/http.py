"""The metrics port: `/metrics` for Prometheus, `/health` for whoever restarts brokers."""

import contextlib
import json
import logging
import socket
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from typing import Any

import uvicorn
from prometheus_client import CollectorRegistry, make_asgi_app

from danube.model.errors import SettingsError
from danube.rpc.address import join_address, split_address
from danube.runtime.tasks import TaskScope

_log = logging.getLogger(__name__)

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Health = Callable[[], str | None]
"""What is wrong with the broker, or None."""


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are the broker's, not this port's."""
        yield


class HttpServer:
    """The listening metrics port."""

    def __init__(self, registry: CollectorRegistry, health: Health, tasks: TaskScope) -> None:
        self._metrics = make_asgi_app(registry)
        self._health = health
        self._tasks = tasks
        self._server: _Server | None = None
        self.address = ""

    async def start(self, address: str) -> None:
        """Listen on `host:port`. Raises SettingsError when it cannot."""
        listener = _listen(address)
        self.address = join_address(*listener.getsockname()[:2])
        config = uvicorn.Config(
            self._answer,
            interface="asgi3",
            lifespan="off",
            log_config=None,
            log_level="warning",
            access_log=False,
            loop="none",
            ws="none",
            proxy_headers=False,
        )
        self._server = _Server(config)
        self._tasks.spawn(self._server.serve(sockets=[listener]), "metrics port")

    def stop(self) -> None:
        """Take no more requests; the owner's task scope awaits the end."""
        if self._server is not None:
            self._server.should_exit = True

    async def _answer(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        if scope["path"] == "/metrics":
            await self._metrics(scope, receive, send)
        elif scope["path"] == "/health":
            problem = self._health()
            await _send_json(send, 200 if problem is None else 503, {"status": problem or "ok"})
        else:
            await _send_json(send, 404, {"error": "there are /metrics and /health"})


def _listen(address: str) -> socket.socket:
    host, port = split_address(address)
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        raise SettingsError(
            f"cannot listen on {address} for metrics: {error.strerror}; choose another with --prom-exporter"
        ) from None


async def _send_json(send: Send, status: int, body: dict[str, str]) -> None:
    headers = [(b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": json.dumps(body).encode()})
