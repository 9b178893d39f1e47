"""Search over everything that has a name: topics, groups, brokers, namespaces, plans, and what can be done."""

from collections.abc import Sequence
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from danube.admin.completion import names_of
from danube.admin.operations import REGISTRY
from danube.admin.operations.analytics.lag import ANALYZE_CONSUMER_LAG, LagReport
from danube.admin.web.pages.catalog import main_link, page_path
from danube.admin.web.pages.rendering import Renderer
from danube.admin.web.server import WebServer
from danube.admin.web.statuses import problem_of, status_of
from danube.admin.web.views.groups import PATH as GROUP_PATH
from danube.model.errors import DanubeError
from danube.model.limits.faces import LAG_GROUPS_MAX, WEB_SEARCH_ROWS_MAX

PATH = "/search"
_KINDS = (("topic", "Topics"), ("namespace", "Namespaces"), ("broker", "Brokers"), ("plan", "Plans"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Names of one kind that fit."""

    title: str
    rows: tuple[tuple[str, str, dict[str, str]], ...]
    """Text, page, and the query of that page."""
    total: int


class SearchPage:
    """The handler of the page."""

    def __init__(self, server: WebServer, renderer: Renderer) -> None:
        self._server = server
        self._renderer = renderer

    def routes(self) -> list[Route]:
        """The page."""
        return [Route(PATH, self.show, methods=["GET"])]

    async def show(self, request: Request) -> Response:
        """Everything whose name has all the words."""
        asked = request.query_params.get("q", "").strip()[:200]
        words = asked.lower().split()
        problem, status, found = None, 200, [_operations(words)] if words else []
        try:
            if words:
                found = [*await self._named(words), *found]
        except DanubeError as error:
            problem, status = problem_of(error), status_of(error)
        found = [each for each in found if each.rows]
        return self._renderer.page(request, "search.html", status, asked=asked, found=found, problem=problem)

    async def _named(self, words: Sequence[str]) -> list[Found]:
        if problem := await self._server.problem():
            raise problem
        found = []
        for kind, title in _KINDS:
            names = await names_of(self._server.gateway, kind, with_bases=True)
            fitting = [name for name in names if _fits(name, words)]
            rows: list[tuple[str, str, dict[str, str]]] = [
                (name, link.url, {}) for name in fitting if (link := main_link({kind: name}, kind))
            ]
            found.append(_cut(title, rows))
        found.insert(1, await self._groups(words))
        return found

    async def _groups(self, words: Sequence[str]) -> Found:
        try:
            report = await self._server.look(ANALYZE_CONSUMER_LAG, {"source": "live", "limit": LAG_GROUPS_MAX})
        except DanubeError:  # of the original's brokers: it tells no lag
            return _cut("Groups", [])
        groups = report.groups if isinstance(report, LagReport) else []
        return _cut(
            "Groups",
            [
                (
                    f"{row.subscription} of {row.topic}",
                    GROUP_PATH,
                    {"topic": row.topic, "subscription": row.subscription},
                )
                for row in groups
                if _fits(row.subscription, words)
            ],
        )


def _operations(words: Sequence[str]) -> Found:
    fitting = [one for one in REGISTRY if _fits(f"{one.command} {one.name} {one.summary}", words)]
    return _cut("What can be done", [(f"{one.command}: {one.summary}", page_path(one), {}) for one in fitting])


def _cut(title: str, rows: Sequence[tuple[str, str, dict[str, str]]]) -> Found:
    return Found(title=title, rows=tuple(rows[:WEB_SEARCH_ROWS_MAX]), total=len(rows))


def _fits(text: str, words: Sequence[str]) -> bool:
    return all(word in text.lower() for word in words)
