"""Report of an analytics run: a document of its own, with its own style, that the page shows in a frame."""

from typing import Any
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from danube.admin.operations.analytics.report import REPORT_ANALYTICS, ReportAnswer
from danube.admin.web.pages.rendering import Renderer
from danube.admin.web.protection.requests import person_of
from danube.admin.web.server import WebServer
from danube.admin.web.views.look import Look
from danube.model.errors import DanubeError

PATH = "/analytics/report.html"
_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; style-src 'unsafe-inline'; sandbox; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'self'"
    ),
    "x-frame-options": "SAMEORIGIN",
}
"""It may have its style, and run nothing, whatever names of topics say."""


async def report_page(look: Look) -> dict[str, Any]:
    """Address of the answer's document; empty where no run has finished."""
    found = look.result
    if not isinstance(found, ReportAnswer) or found.run_id is None:
        return {"document_url": ""}
    return {"document_url": f"{PATH}?{urlencode({'job': found.job, 'run_id': found.run_id})}"}


class ReportDocument:
    """The handler of the document."""

    def __init__(self, server: WebServer, renderer: Renderer) -> None:
        self._server = server
        self._renderer = renderer

    def routes(self) -> list[Route]:
        """The document."""
        return [Route(PATH, self.show, methods=["GET"])]

    async def show(self, request: Request) -> Response:
        """The report as HTML; with `download` as a file."""
        query = request.query_params
        arguments = {name: query[name] for name in ("job", "run_id") if name in query}
        try:
            found = await self._server.call(person_of(request), REPORT_ANALYTICS, {**arguments, "form": "html"})
        except DanubeError as error:
            return self._renderer.problem(request, error)
        assert isinstance(found, ReportAnswer)  # noqa: S101 - the result of this operation
        name = f'attachment; filename="danube-{found.job}-report.html"'
        more = {"content-disposition": name} if "download" in query else {}
        return HTMLResponse(found.document or found.next_step, headers={**_HEADERS, **more})
