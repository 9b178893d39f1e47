"""The pages that are no operation's own: the overview, the list of all operations, the docs, and the way in and out.

The overview is the one place that knows operations by name.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from danube.admin.operations import BY_NAME, REGISTRY
from danube.admin.operations.analytics.lag import ANALYZE_CONSUMER_LAG, LagReport
from danube.admin.operations.analytics.recommendations import GET_RECOMMENDATIONS, Recommendations
from danube.admin.operations.cluster.brokers import LIST_BROKERS
from danube.admin.operations.cluster.health import HEALTH_CHECK
from danube.admin.operations.cluster.members import CLUSTER_STATUS
from danube.admin.operations.cluster.plans_and_audit import LIST_PLANS
from danube.admin.operations.fields import Result
from danube.admin.operations.operation import AnyOperation
from danube.admin.present import view_of
from danube.admin.web.assets import STATIC
from danube.admin.web.pages.catalog import api_method, api_path, page_url
from danube.admin.web.pages.forms import fields_of
from danube.admin.web.pages.rendering import Renderer
from danube.admin.web.pages.tables import Grid, grids_of
from danube.admin.web.protection.protection import admit, cookie_name
from danube.admin.web.protection.requests import person_of, read_form
from danube.admin.web.server import WebServer
from danube.admin.web.statuses import STATUSES, problem_of, status_of
from danube.admin.web.views.groups import BEHIND, behind_text
from danube.model.errors import DanubeError, NotFoundError
from danube.model.limits.faces import WEB_SESSION_TTL_S, WEB_TROUBLES_MAX
from danube.model.plans.plan import PlanStatus

HOME = "/"
RESERVED = frozenset({"api", "balance", "docs", "group", "healthz", "live", "login", "logout"}) | frozenset(
    {"messages", "operations", "readyz", "search", "static", "ui"}
)
"""First parts of paths that are no operation's."""
_WAITING = {"status": PlanStatus.WAITING.value}
_SECTIONS: tuple[tuple[AnyOperation, dict[str, str]], ...] = (
    (HEALTH_CHECK, {}),
    (CLUSTER_STATUS, {}),
    (LIST_BROKERS, {}),
    (LIST_PLANS, _WAITING),
    (ANALYZE_CONSUMER_LAG, {"source": "live", "limit": str(WEB_TROUBLES_MAX)}),
    (GET_RECOMMENDATIONS, {}),
)


@dataclass(frozen=True, slots=True)
class Section:
    """The answer of one operation on the overview."""

    result: Result | None
    grids: tuple[Grid, ...] = ()
    problem: str = ""


class Site:
    """The handlers of these pages."""

    def __init__(self, server: WebServer, renderer: Renderer) -> None:
        self._server = server
        self._renderer = renderer

    def routes(self) -> list[Route]:
        return [
            Route(HOME, self.overview, methods=["GET"]),
            Route("/operations", self.operations, methods=["GET"]),
            Route("/docs", self.docs, methods=["GET"]),
            Route("/login", self.login_form, methods=["GET"]),
            Route("/login", self.login, methods=["POST"]),
            Route("/logout", self.logout, methods=["POST"]),
            Route("/static/{name}", self.static, methods=["GET"]),
            Route("/healthz", self.healthz, methods=["GET"]),
            Route("/readyz", self.readyz, methods=["GET"]),
        ]

    async def overview(self, request: Request) -> Response:
        """The state of the cluster; an unreachable broker shows within WEB_PROBE_TIMEOUT_S."""
        problem = await self._server.problem()
        if problem is not None:
            return self._renderer.page(
                request, "overview.html", status_of(problem), problem=problem_of(problem), sections={}
            )
        found = await asyncio.gather(*(self._section(request, *section) for section in _SECTIONS))
        sections = {operation.name: section for (operation, _), section in zip(_SECTIONS, found, strict=True)}
        report = sections[ANALYZE_CONSUMER_LAG.name].result
        advice = sections[GET_RECOMMENDATIONS.name].result
        return self._renderer.page(
            request,
            "overview.html",
            problem=None,
            sections=sections,
            behind=behind_text(report) if isinstance(report, LagReport) else "",
            is_behind=isinstance(report, LagReport) and any(map(report.statuses.get, BEHIND)),
            next_urls=_next_urls(advice) if isinstance(advice, Recommendations) else {},
        )

    async def operations(self, request: Request) -> Response:
        return self._renderer.page(request, "operations.html")

    async def docs(self, request: Request) -> Response:
        statuses = sorted({(status, kind.code, (kind.__doc__ or "").strip()) for kind, status in STATUSES.items()})
        return self._renderer.page(
            request,
            "docs.html",
            registry=REGISTRY,
            fields_of=fields_of,
            api_path=api_path,
            api_method=api_method,
            statuses=statuses,
        )

    async def login_form(self, request: Request) -> Response:
        if person_of(request).is_logged_in or not self._server.exposure.has_login:
            return RedirectResponse(HOME, status_code=303)
        return self._renderer.page(request, "login.html", problem=None, wanted=local_path(request.query_params))

    async def login(self, request: Request) -> Response:
        """Take a token; the cookie that goes back is another secret."""
        fields = dict(await read_form(request))
        wanted = local_path(fields)
        try:
            found = await admit(self._server, request, fields.get("token", "").strip())
        except DanubeError as error:
            values = {"problem": problem_of(error), "wanted": wanted}
            return self._renderer.page(request, "login.html", status_of(error), **values)
        answer = RedirectResponse(wanted, status_code=303)
        answer.set_cookie(
            cookie_name(self._server),
            self._server.sessions.open(found.who, self._server.clock.monotonic_s(), found.token),
            max_age=round(WEB_SESSION_TTL_S),
            httponly=True,
            samesite="strict",
            secure=self._server.exposure.is_encrypted,
        )
        return answer

    async def logout(self, request: Request) -> Response:
        """Forget the login, here and in the browser."""
        await read_form(request)
        name = cookie_name(self._server)
        self._server.sessions.close(request.cookies.get(name, ""))
        answer = RedirectResponse("/login", status_code=303)
        answer.delete_cookie(name, httponly=True, samesite="strict", secure=self._server.exposure.is_encrypted)
        return answer

    async def static(self, request: Request) -> Response:
        file = STATIC.get(request.path_params["name"])
        if file is None:
            raise NotFoundError("there is no such page")
        headers = {"cache-control": "public, max-age=31536000, immutable"} if request.query_params else {}
        return Response(file.content, media_type=file.media_type, headers=headers)

    async def healthz(self, request: Request) -> Response:
        del request
        return JSONResponse({"status": "ok"})

    async def readyz(self, request: Request) -> Response:
        """200 when the broker answers, 503 when not."""
        del request
        problem = await self._server.problem()
        if problem is None:
            return JSONResponse({"status": "ok"})
        return JSONResponse({"status": "unavailable", "code": problem.code}, status_code=503)

    async def _section_of(self, request: Request, operation: AnyOperation, arguments: dict[str, str]) -> Result:
        """The first of them is recorded: who looks at the overview looks at the cluster."""
        if operation is HEALTH_CHECK:
            return await self._server.call(person_of(request), operation, arguments, gateway=self._server.shared)
        return await self._server.look(operation, arguments, self._server.shared)

    async def _section(self, request: Request, operation: AnyOperation, arguments: dict[str, str]) -> Section:
        try:
            result = await self._section_of(request, operation, arguments)
        except DanubeError as error:
            return Section(None, problem=str(error))
        return Section(result, grids_of(operation, arguments, result, view_of(operation, result)))


def _next_urls(advice: Recommendations) -> dict[int, str]:
    """The page of the next call of each recommendation, by its place."""
    return {
        at: page_url(BY_NAME[each.next_tool], each.next_arguments)
        for at, each in enumerate(advice.recommendations)
        if each.next_tool in BY_NAME
    }


def local_path(values: Mapping[str, str]) -> str:
    """The `next` of a query or a form, where it is a page of this server; else the overview."""
    wanted = values.get("next", HOME)
    is_local = wanted.startswith("/") and not wanted.startswith(("//", "/\\"))
    return wanted if is_local and wanted.isascii() and wanted.isprintable() else HOME
