"""The metrics port: `/metrics` for Prometheus, `/health` for process supervisors."""

import json
import ssl
from collections.abc import Awaitable, Callable, Mapping

from prometheus_client import CollectorRegistry, make_asgi_app

from danube.model.limits.faces import METRICS_DRAIN_S, METRICS_REQUESTS_MAX
from danube.rpc.address import join_address, split_address
from danube.rpc.http_port import App, HttpPort, Message, Receive, Send, listen
from danube.runtime.tasks import TaskScope

Health = Callable[[], str | None]
"""What is wrong with the process, or None."""


class MetricsPort:
    """The listening metrics port."""

    def __init__(
        self,
        registry: CollectorRegistry,
        health: Health,
        tasks: TaskScope,
        *,
        metrics: App | None = None,
        tls: ssl.SSLContext | None = None,
        facts: Callable[[], Mapping[str, object]] = dict,
        instead: str,
    ) -> None:
        """`metrics` answers in place of the whole registry; `facts` are told beside the health.

        `instead` is what to do where it cannot listen.
        """
        self._metrics: App = metrics or make_asgi_app(registry)
        self._tls = tls
        self._facts = facts
        self._instead = instead
        self._health = health
        self._tasks = tasks
        self._stop: Callable[[], Awaitable[None]] | None = None
        self.address = ""

    async def start(self, address: str) -> None:
        """Listen on `host:port`. Raises SettingsError when it cannot."""
        listener = listen(*split_address(address), self._instead)
        self.address = join_address(*listener.getsockname()[:2])
        port = HttpPort(
            self._answer,
            requests_max=METRICS_REQUESTS_MAX,
            drain_s=METRICS_DRAIN_S,
            probes=frozenset({"/health"}),
            tls=self._tls,
        )
        serving = self._tasks.spawn(port.serve(sockets=[listener]), "metrics port")
        self._stop = lambda: port.stop(serving)

    async def stop(self) -> None:
        """Take no more requests; those under way have METRICS_DRAIN_S. The owner's task scope ends what is left."""
        if self._stop is not None:
            await self._stop()

    async def _answer(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        if scope["path"] == "/metrics":
            await self._metrics(scope, receive, send)
        elif scope["path"] == "/health":
            problem = self._health()
            await _send_json(send, 200 if problem is None else 503, {"status": problem or "ok", **self._facts()})
        else:
            await _send_json(send, 404, {"error": "there are /metrics and /health"})


async def _send_json(send: Send, status: int, body: dict[str, object]) -> None:
    headers = [(b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": json.dumps(body).encode()})
