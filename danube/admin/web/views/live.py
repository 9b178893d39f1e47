"""Pages that refresh themselves: a stream of server-sent events with what stands between the marks of a page.

Each look is a request of the page by the same person through all checks, so a login that ends ends its streams too.
Looks leave no records in the audit log: opening the page left one.
"""

import asyncio
import json
from collections.abc import AsyncIterator, MutableMapping
from hashlib import sha256
from typing import Any
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp

from danube.admin.web.protection.protection import REFRESH
from danube.model.errors import InvalidRequestError
from danube.model.limits.faces import WEB_LIVE_BYTES_MAX, WEB_LIVE_EVERY_S, WEB_LIVE_S_MAX, WEB_LIVE_STREAMS_MAX
from danube.runtime.clock import Clock, sleep_for

PATH = "/live"
BEGIN, END = b"<!--live-->", b"<!--/live-->"
_KEPT = ("type", "asgi", "http_version", "scheme", "server", "client", "headers")


class LivePages:
    """The handler of such streams; `app` is the whole application, set once it is built."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._streams = 0
        self.app: ASGIApp | None = None

    def routes(self) -> list[Route]:
        """The stream of a page."""
        return [Route(PATH, self.stream, methods=["GET"])]

    async def stream(self, request: Request) -> Response:
        """Events of one page; 204 tells the browser not to come again while there are too many."""
        page = request.query_params.get("page", "")
        if not page.startswith("/") or page.startswith(("//", "/\\", PATH)) or not page.isascii():
            raise InvalidRequestError("a page that refreshes itself is named by its path on this server")
        if self._streams >= WEB_LIVE_STREAMS_MAX:
            return Response(status_code=204)
        return StreamingResponse(self._counted(request, page), media_type="text/event-stream")

    async def events(self, scope: MutableMapping[str, Any], page: str) -> AsyncIterator[bytes]:
        """The page now and whenever it has changed; a comment while it has not. Ends when it cannot be read."""
        ending_s = self._clock.monotonic_s() + WEB_LIVE_S_MAX
        shown = b""
        while self._clock.monotonic_s() < ending_s:
            part = await self._part(scope, page)
            if part is None:
                yield b"event: gone\ndata: {}\n\n"
                return
            digest = sha256(part).digest()
            yield b": the same\n\n" if digest == shown else b"data: " + json.dumps(part.decode()).encode() + b"\n\n"
            shown = digest
            await sleep_for(self._clock, WEB_LIVE_EVERY_S)

    async def _counted(self, request: Request, page: str) -> AsyncIterator[bytes]:
        self._streams += 1
        try:
            async for event in self.events(request.scope, page):
                yield event
        finally:
            self._streams -= 1

    async def _part(self, scope: MutableMapping[str, Any], page: str) -> bytes | None:
        """The part of the page between its marks; None where it has none, or may not be read."""
        parts = urlsplit(page)
        asked = {name: scope[name] for name in _KEPT if name in scope}
        asked |= {"method": "GET", "path": parts.path, "raw_path": parts.path.encode(), "root_path": "", REFRESH: True}
        asked["query_string"] = parts.query.encode()
        answer = _Answer()
        if self.app is None:
            raise RuntimeError("the application is not built yet")
        await self.app(asked, _nothing_more, answer.take)
        begin, end = answer.body.find(BEGIN), answer.body.find(END)
        if answer.status != 200 or begin < 0 or end < begin or len(answer.body) > WEB_LIVE_BYTES_MAX:
            return None
        return bytes(answer.body[begin + len(BEGIN) : end])


class _Answer:
    """A response, kept."""

    def __init__(self) -> None:
        self.status = 0
        self.body = bytearray()

    async def take(self, message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        elif message["type"] == "http.response.body" and len(self.body) <= WEB_LIVE_BYTES_MAX:
            self.body += message.get("body", b"")


async def _nothing_more() -> MutableMapping[str, Any]:
    """The body of a request that has none."""
    await asyncio.sleep(0)
    return {"type": "http.request", "body": b"", "more_body": False}
