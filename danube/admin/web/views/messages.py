"""Browser of a topic's stored messages, a page at a time. Every look is in the audit log."""

from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from danube.admin.operations.topics.positions import PEEK_MESSAGES, Peeked
from danube.admin.web.pages.rendering import Renderer
from danube.admin.web.protection.requests import person_of
from danube.admin.web.server import WebServer
from danube.admin.web.statuses import problem_of, status_of
from danube.model.errors import DanubeError
from danube.model.limits.broker import PEEK_PAYLOAD_BYTES_MAX
from danube.model.limits.faces import WEB_MESSAGES_PAGE
from danube.model.topic import TopicName

PATH = "/messages"


class MessagesPage:
    """The handler of the page."""

    def __init__(self, server: WebServer, renderer: Renderer) -> None:
        self._server = server
        self._renderer = renderer

    def routes(self) -> list[Route]:
        """The page."""
        return [Route(PATH, self.show, methods=["GET"])]

    async def show(self, request: Request) -> Response:
        """Messages from `start` on: an offset, a time, `earliest`, or the newest without it."""
        topic, start = (request.query_params.get(name, "").strip() for name in ("topic", "start"))
        partitions: list[str] = []
        if not topic:
            nothing: dict[str, Any] = {"problem": None, "page": None, "partitions": partitions}
            return self._renderer.page(request, "messages.html", topic=topic, start=start, **nothing)
        try:
            if problem := await self._server.problem():
                raise problem
            partitions = await self._partitions(TopicName.parse(topic))
            asked = partitions[0] if partitions and topic not in partitions else topic
            page = await self._page(request, asked, start)
        except DanubeError as error:
            values = {"problem": problem_of(error), "page": None, "partitions": partitions}
            return self._renderer.page(request, "messages.html", status_of(error), topic=topic, start=start, **values)
        first = page.messages[0].offset if page.messages else page.end_offset
        return self._renderer.page(
            request,
            "messages.html",
            problem=None,
            topic=asked,
            start=start,
            page=page,
            partitions=partitions,
            before=max(first - WEB_MESSAGES_PAGE, page.start_offset) if first > page.start_offset else None,
        )

    async def _page(self, request: Request, topic: str, start: str) -> Peeked:
        """The page that was asked for; without a start the last one."""
        if not start:
            ends = await self._peek(request, topic, start="earliest", count=1, payload_bytes=0)
            start = str(max(ends.end_offset - WEB_MESSAGES_PAGE, ends.start_offset))
        return await self._peek(
            request, topic, start=start, count=WEB_MESSAGES_PAGE, payload_bytes=PEEK_PAYLOAD_BYTES_MAX
        )

    async def _peek(self, request: Request, topic: str, **arguments: Any) -> Peeked:  # noqa: ANN401 - any JSON
        found = await self._server.call(person_of(request), PEEK_MESSAGES, {"topic": topic, **arguments})
        if not isinstance(found, Peeked):
            raise TypeError(f"{PEEK_MESSAGES.name} answered {type(found).__name__}")
        return found

    async def _partitions(self, topic: TopicName) -> list[str]:
        """The partitions of the topic, or of the one that it is a partition of; none of a plain one."""
        infos = await self._server.gateway.topics(topic.namespace)
        base = next((info.base for info in infos if info.topic == topic), None) or topic
        found = sorted((info.topic for info in infos if info.base == base), key=lambda name: name.partition_index or 0)
        return [str(name) for name in found]
