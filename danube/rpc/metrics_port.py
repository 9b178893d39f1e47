"""The metrics port: `/metrics` for Prometheus, `/health` and what is below it for probes."""

import json
import ssl
from collections.abc import Awaitable, Callable, Mapping

from danube.model.limits.faces import METRICS_DRAIN_S, METRICS_REQUESTS_MAX
from danube.rpc.address import join_address, split_address
from danube.rpc.http_port import App, HttpPort, Message, Receive, Send, listen
from danube.runtime.tasks import TaskScope

Check = Callable[[], str | None]
"""The problem that a probe asks for, or None."""


class MetricsPort:
    """The listening metrics port."""

    def __init__(
        self,
        checks: Mapping[str, Check],
        tasks: TaskScope,
        *,
        tls: ssl.SSLContext | None = None,
        facts: Callable[[], Mapping[str, object]] = dict,
        instead: str,
    ) -> None:
        """`checks` are the probes by their path; `facts` are told beside each answer.

        `instead` is what to do where it cannot listen.
        """
        self._checks = checks
        self._metrics: App | None = None
        self._tls = tls
        self._facts = facts
        self._instead = instead
        self._tasks = tasks
        self._stop: Callable[[], Awaitable[None]] | None = None
        self.address = ""

    def show(self, metrics: App | None) -> None:
        """Answer `/metrics` by this application; None: there are none yet, or none any more."""
        self._metrics = metrics

    async def start(self, address: str) -> None:
        """Listen on `host:port`. Raises SettingsError when it cannot."""
        listener = listen(*split_address(address), self._instead)
        self.address = join_address(*listener.getsockname()[:2])
        port = HttpPort(
            self._answer,
            requests_max=METRICS_REQUESTS_MAX,
            drain_s=METRICS_DRAIN_S,
            probes=frozenset(self._checks),
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
        path = scope["path"]
        if path in self._checks:
            problem = self._checks[path]()
            await _send_json(send, 200 if problem is None else 503, {"status": problem or "ok", **self._facts()})
        elif path != "/metrics":
            there = ", ".join(["/metrics", *self._checks])
            await _send_json(send, 404, {"error": f"there are {there}"})
        elif self._metrics is None:
            await _send_json(send, 503, {"error": "it starts or stops, and has no metrics"})
        else:
            await self._metrics(scope, receive, send)


async def _send_json(send: Send, status: int, body: dict[str, object]) -> None:
    headers = [(b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": json.dumps(body).encode()})
