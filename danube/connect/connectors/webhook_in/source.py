"""The webhook source: each POST to a route becomes a record, and is answered with 202 after the receipt."""

import asyncio
import json
import logging
import math
import os
import time
from dataclasses import dataclass, field

from danube.connect.batch import Out
from danube.connect.connectors.webhook_in.limits import KnownIds, Limiter, wait_s
from danube.connect.connectors.webhook_in.proof import Headers, Proof, proof_of
from danube.connect.connectors.webhook_in.settings import WebhookRoute, WebhookSettings
from danube.connect.sdk import Context, Emit, PushedSource, source
from danube.model.errors import DanubeError, InvalidRequestError, LimitReachedError, NotPermittedError
from danube.model.limits.faces import WEBHOOK_DRAIN_S, WEBHOOK_HEADER_CHARS_MAX, WEBHOOK_REQUESTS_MAX
from danube.rpc.address import join_address
from danube.rpc.http_port import HttpPort, Message, Receive, Send, listen
from danube.runtime.blocking import run_apart
from danube.runtime.tasks import resolve

_log = logging.getLogger(__name__)
_ID_HEADERS = ("webhook-id", "x-github-delivery", "idempotency-key")
ID_ATTRIBUTE = "x-webhook-id"
PATH_ATTRIBUTE = "x-webhook-path"


class _RefusedRequestError(Exception):
    """A request that is answered with an error."""

    def __init__(self, status: int, reason: str, retry_after_s: float = 0.0) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason
        self.retry_after_s = retry_after_s


@dataclass(slots=True)
class _Path:
    """One route at work."""

    route: WebhookRoute
    proof: Proof
    limiters: list[Limiter]
    known: KnownIds = field(default_factory=KnownIds)
    under_way: dict[str, "asyncio.Future[None]"] = field(default_factory=dict)
    """By id, for requests that come again meanwhile."""


@source(settings=WebhookSettings)
class WebhookSource(PushedSource):
    """An HTTP server."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._settings: WebhookSettings = context.settings
        self._paths: dict[str, _Path] = {}
        self._emit: Emit | None = None
        self._port: HttpPort | None = None
        self._serving: asyncio.Task[None] | None = None
        self.address = ""
        """`host:port`, once it serves."""

    async def run(self, emit: Emit) -> None:
        server, now_s = self._settings.server, time.monotonic()
        of_all = [Limiter(self._settings.rate_limit, now_s)] if self._settings.rate_limit is not None else []
        proofs = await run_apart("webhook secrets", self._proofs)
        for route, proof in zip(self._settings.routes, proofs, strict=True):
            own = [Limiter(route.rate_limit, now_s)] if route.rate_limit is not None else []
            self._paths[route.source] = _Path(route, proof, of_all + own)
        self._emit = emit
        listener = listen(server.host, server.port, "choose another port in [server]")
        self.address = join_address(*listener.getsockname()[:2])
        self._port = HttpPort(
            self._answer,
            requests_max=WEBHOOK_REQUESTS_MAX,
            drain_s=WEBHOOK_DRAIN_S,
            probes=frozenset({"/health"}),
        )
        _log.info("%s: webhooks on %s", self.context.connector, self.address)
        self._serving = asyncio.current_task()
        try:
            await self._port.serve(sockets=[listener])
        finally:
            if self._port.started and not self._port.should_exit:  # cancelled: a port that was stopped is shut down
                self._port.force_exit = True
                await self._port.shutdown(sockets=[listener])
            listener.close()

    async def drain(self) -> None:
        if self._port is not None and self._serving is not None:
            await self._port.stop(self._serving)

    async def check(self) -> str:
        await run_apart("webhook secrets", self._proofs)
        server = self._settings.server
        listen(server.host, server.port, "choose another port in [server]").close()
        return f"{join_address(server.host, server.port)} is free, and every secret is there"

    def _proofs(self) -> list[Proof]:
        """The proof of each route. Raises SettingsError."""
        return [proof_of(route.auth or self._settings.auth, os.environ) for route in self._settings.routes]

    async def _answer(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        if scope["path"] == "/health":
            await _respond(send, 200, {"status": "ok"})
            return
        try:
            async with asyncio.timeout(self._settings.server.timeout_seconds):
                identity = await self._accept(scope, receive)
        except _RefusedRequestError as refused:
            await _respond(send, refused.status, {"error": refused.reason}, refused.retry_after_s)
        except TimeoutError:
            await _respond(send, 503, {"error": "the request took too long: send it again"}, 1.0)
        else:
            await _respond(send, 202, {"status": "stored", **({"id": identity} if identity else {})})

    async def _accept(self, scope: Message, receive: Receive) -> str:
        """Judge a request and store its record; answers its id. Raises _RefusedRequestError."""
        path = self._paths.get(scope["path"])
        if path is None:
            raise _RefusedRequestError(404, "no route has this path")
        if scope["method"] != "POST":
            raise _RefusedRequestError(405, "send a POST")
        address = scope["client"][0] if scope.get("client") else ""
        if delay_s := wait_s(path.limiters, address, time.monotonic()):
            raise _RefusedRequestError(429, "too many requests: send it again later", delay_s)
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        body = await self._body(headers, receive)
        if (problem := path.proof(headers, body, time.time())) is not None:
            raise _RefusedRequestError(401, problem)
        identity = _identity(path.route, headers)
        record = Out(body, key=_key(path.route, headers), attributes=_attributes(path.route, headers, identity))
        if identity:
            await self._store_once(path, identity, record)
        else:
            await self._store(path, record)
        return identity

    async def _body(self, headers: Headers, receive: Receive) -> bytes:
        size_max = self._settings.server.max_body_size
        length = headers.get("content-length", "0")
        if length.isdigit() and int(length) > size_max:
            raise _RefusedRequestError(413, f"the body has more than {size_max:,} bytes")
        parts, size = [], 0
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise _RefusedRequestError(400, "the connection was closed in the middle of the body")
            part: bytes = message.get("body", b"")
            parts.append(part)
            size += len(part)
            if size > size_max:
                raise _RefusedRequestError(413, f"the body has more than {size_max:,} bytes")
            if not message.get("more_body", False):
                return b"".join(parts)

    async def _store_once(self, path: _Path, identity: str, record: Out[bytes]) -> None:
        """Store the record of an id that is new; one that comes again meanwhile waits for the same receipt."""
        while (other := path.under_way.get(identity)) is not None:
            await asyncio.wait([other])
        if identity in path.known:
            return
        mine = path.under_way[identity] = asyncio.get_running_loop().create_future()
        try:
            await self._store(path, record)
            path.known.add(identity)
        finally:
            del path.under_way[identity]
            resolve(mine, None)

    async def _store(self, path: _Path, record: Out[bytes]) -> None:
        if self._emit is None:
            raise _RefusedRequestError(503, "not ready yet", 1.0)
        try:
            await self._emit(path.route.to, [record])
        except (InvalidRequestError, NotPermittedError) as error:
            raise _RefusedRequestError(422, str(error)) from None
        except LimitReachedError as error:
            raise _RefusedRequestError(429, str(error), 1.0) from None
        except DanubeError:
            _log.exception("%s: a request of %s is not stored", self.context.connector, path.route.source)
            raise _RefusedRequestError(503, "the cluster cannot store it now: send it again", 1.0) from None


def _identity(route: WebhookRoute, headers: Headers) -> str:
    """The sender's id of a request; empty without one."""
    names = (route.idempotency_header.lower(),) if route.idempotency_header else _ID_HEADERS
    return next((headers[name][:WEBHOOK_HEADER_CHARS_MAX] for name in names if headers.get(name)), "")


def _key(route: WebhookRoute, headers: Headers) -> str | None:
    key = headers.get(route.key_header.lower(), "") if route.key_header else ""
    return key[:WEBHOOK_HEADER_CHARS_MAX] or None


def _attributes(route: WebhookRoute, headers: Headers, identity: str) -> dict[str, str]:
    found = {PATH_ATTRIBUTE: route.source, "content-type": headers.get("content-type", "")[:WEBHOOK_HEADER_CHARS_MAX]}
    return {name: value for name, value in {**found, ID_ATTRIBUTE: identity}.items() if value}


async def _respond(send: Send, status: int, body: dict[str, str], retry_after_s: float = 0.0) -> None:
    headers = [(b"content-type", b"application/json")]
    if retry_after_s:
        headers.append((b"retry-after", str(math.ceil(retry_after_s)).encode()))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": json.dumps(body).encode()})
