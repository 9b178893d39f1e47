"""Consumer groups: all of them with those behind first, and the page of one with its lag and rates over time."""

from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from danube.admin.analytics.history import topic_history
from danube.admin.charts.series import Series
from danube.admin.operations.analytics.lag import ANALYZE_CONSUMER_LAG, LagGroupRow, LagReport
from danube.admin.web.pages.catalog import links_from
from danube.admin.web.pages.rendering import Renderer
from danube.admin.web.protection.requests import person_of
from danube.admin.web.server import WebServer
from danube.admin.web.statuses import problem_of, status_of
from danube.admin.web.views.look import Look
from danube.admin.web.views.topics import drawn
from danube.model.errors import DanubeError, InvalidRequestError, NotFoundError
from danube.model.topic import TopicName

PATH = "/group"
BEHIND = frozenset({"WARN", "STOP", "STALL", "REWIND"})


async def groups_page(look: Look) -> dict[str, Any]:
    """The values of the page of all groups, beside the answer of analyze_consumer_lag."""
    report = look.result
    if not isinstance(report, LagReport):
        raise TypeError(f"{ANALYZE_CONSUMER_LAG.name} answered {type(report).__name__}")
    largest = max((row.lag_messages for row in report.groups if row.lag_messages), default=0)
    return {
        "summary": behind_text(report),
        "is_behind": any(report.statuses.get(status) for status in BEHIND),
        "percents": [round(100 * (row.lag_messages or 0) / largest) if largest else 0 for row in report.groups],
    }


def behind_text(report: LagReport) -> str:
    """`4 of 6 groups are behind`."""
    behind, total = sum(report.statuses.get(status, 0) for status in BEHIND), sum(report.statuses.values())
    unknown = report.statuses.get("UNKNOWN", 0)
    if not total:
        return "There are no groups"
    if not behind and unknown:
        return (
            f"{unknown} of {total} groups {'is' if unknown == 1 else 'are'} not judged yet, none is known to be behind"
        )
    if not behind:
        return "No group is behind" if total > 1 else "The group is not behind"
    return f"{behind} of {total} groups {'is' if behind == 1 else 'are'} behind"


class GroupPage:
    """The handler of the page of one group."""

    def __init__(self, server: WebServer, renderer: Renderer) -> None:
        self._server = server
        self._renderer = renderer

    def routes(self) -> list[Route]:
        """The page."""
        return [Route(PATH, self.show, methods=["GET"])]

    async def show(self, request: Request) -> Response:
        """One subscription over all partitions of its topic."""
        topic, subscription = (request.query_params.get(name, "") for name in ("topic", "subscription"))
        known = {"topic": topic, "subscription": subscription}
        try:
            values = await self._values(request, known)
        except DanubeError as error:
            values = {"problem": problem_of(error), "row": None, "charts": [], "partitions": []}
            return self._renderer.page(
                request, "group.html", status_of(error), topic=topic, subscription=subscription, links=(), **values
            )
        links = links_from(known, "subscription")
        return self._renderer.page(
            request, "group.html", problem=None, topic=topic, subscription=subscription, links=links, **values
        )

    async def _values(self, request: Request, known: dict[str, str]) -> dict[str, Any]:
        if not all(known.values()):
            raise InvalidRequestError("a group is named by its topic and its subscription: open it from the list")
        if problem := await self._server.problem():
            raise problem
        arguments = {**known, "source": "live", "partitions": True}
        report = await self._server.call(person_of(request), ANALYZE_CONSUMER_LAG, arguments)
        if not isinstance(report, LagReport) or not report.groups:
            raise NotFoundError("there is no such group: the list of groups shows all")
        row = report.groups[0]
        return {
            "row": row,
            "partitions": report.partitions if row.partitions > 1 else [],
            "charts": await self._charts(row),
        }

    async def _charts(self, row: LagGroupRow) -> list[Any]:
        history = await topic_history(self._server.gateway, TopicName.parse(row.topic), self._server.clock.now_ms())
        group = history.groups.get(row.subscription) if history else None
        if history is None or group is None:
            return []
        many = (
            ("Lag", "messages", group.lag),
            ("Published", "messages/s", history.published),
            ("Delivered", "messages/s", group.consumed),
        )
        return drawn(
            [Series(title=title, unit=unit, points=points, span_s=history.span_s) for title, unit, points in many]
        )
