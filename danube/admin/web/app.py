"""The whole of the server as one ASGI application: protection around pages, API, and the original's routes.

The API has a route for each operation, with its parameters, its result, and errors as `{error, code, next?}`.
"""

import json
from collections.abc import Awaitable, Callable, Sequence
from functools import cache

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.types import ASGIApp

from danube.admin.operations import REGISTRY
from danube.admin.operations.operation import AnyOperation
from danube.admin.web.openapi import openapi
from danube.admin.web.original import OriginalRoutes
from danube.admin.web.pages.balance_page import BalancePage
from danube.admin.web.pages.catalog import api_method, api_path, page_path
from danube.admin.web.pages.forms import arguments_of
from danube.admin.web.pages.operation_page import operation_routes
from danube.admin.web.pages.pages import RESERVED, Site
from danube.admin.web.pages.rendering import Renderer
from danube.admin.web.pages.schema_pages import SchemaPages
from danube.admin.web.protection.protection import Protection
from danube.admin.web.protection.requests import person_of, read_json
from danube.admin.web.schema_face import PREFIX as SCHEMA_FACE
from danube.admin.web.schema_face import SchemaFace
from danube.admin.web.server import WebServer
from danube.admin.web.statuses import MethodError, ServerFaultError
from danube.admin.web.views.groups import GroupPage
from danube.admin.web.views.live import LivePages
from danube.admin.web.views.messages import MessagesPage
from danube.admin.web.views.reports import ReportDocument
from danube.admin.web.views.search import SearchPage
from danube.model.errors import DanubeError, InvalidRequestError, NotFoundError, NotPermittedError

PLAN_ID = "plan_id"
"""Beside the parameters of an operation that acts by a plan: apply this one."""


def build_app(server: WebServer) -> ASGIApp:
    """The application. Nothing in it opens or closes the gateway: whoever made it does."""
    _check_words()
    renderer = Renderer(server)
    live = LivePages(server.clock)
    routes: Sequence[BaseRoute] = [
        Mount(SCHEMA_FACE, SchemaFace(server)),
        *Site(server, renderer).routes(),
        *BalancePage(server, renderer).routes(),
        *SchemaPages(server, renderer).routes(),
        *GroupPage(server, renderer).routes(),
        *MessagesPage(server, renderer).routes(),
        *ReportDocument(server, renderer).routes(),
        *SearchPage(server, renderer).routes(),
        *live.routes(),
        Route("/openapi.json", _describe, methods=["GET"]),
        *api_routes(server),
        *OriginalRoutes(server).routes(),
        *operation_routes(server, renderer),
    ]
    app = Starlette(routes=routes)
    app.router.redirect_slashes = False

    async def refused(request: Request, error: Exception) -> Response:
        return renderer.problem(request, _named(error))

    for kind in (DanubeError, HTTPException, Exception):
        app.add_exception_handler(kind, refused)
    live.app = Protection(app, server, renderer)
    return live.app


def api_routes(server: WebServer, registry: Sequence[AnyOperation] = REGISTRY) -> list[Route]:
    """GET for what reads, POST for the rest."""
    return [
        Route(api_path(operation), _endpoint(server, operation), methods=[api_method(operation)])
        for operation in registry
    ]


def _endpoint(server: WebServer, operation: AnyOperation) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        if operation.needs_person:
            raise NotPermittedError(
                f"{operation.name} is a person's consent, and programs do not give it: log in and do it on the page"
                f" {page_path(operation)}"
            )
        if api_method(operation) == "GET":
            arguments, plan_id = arguments_of(operation, request.query_params.multi_items()), None
        else:
            arguments = await read_json(request)
            plan_id = arguments.pop(PLAN_ID, None) if operation.is_planned else None
        if plan_id is not None and not isinstance(plan_id, str):
            raise InvalidRequestError(f"{operation.name}: {PLAN_ID}: it is a text")
        result = await server.call(person_of(request), operation, arguments, plan_id)
        return Response(result.model_dump_json(), media_type="application/json")

    return answer


async def _describe(request: Request) -> Response:
    del request
    return Response(_description(), media_type="application/json")


@cache  # made when somebody asks for the first time, and the same from then on
def _description() -> bytes:
    return json.dumps(openapi()).encode()


def _named(error: Exception) -> DanubeError:
    match error:
        case DanubeError():
            return error
        case HTTPException(status_code=404):
            return NotFoundError("there is no such page: /operations lists what there is")
        case HTTPException(status_code=405):
            return MethodError("this path takes another method: /docs tells which")
        case HTTPException():
            return InvalidRequestError("the request cannot be understood")
        case _:
            return ServerFaultError("a fault of this server; its log has the details")


def _check_words() -> None:
    taken = [operation.name for operation in REGISTRY if operation.words[0] in RESERVED]
    if taken:
        raise TypeError(f"the web server has other pages where {', '.join(taken)} would be")
