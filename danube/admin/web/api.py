"""The HTTP API: a route for each operation, with its parameters, its result, and errors as `{error, code, next?}`."""

from collections.abc import Awaitable, Callable, Sequence

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from danube.admin.operations import REGISTRY
from danube.admin.operations.operation import AnyOperation
from danube.admin.web.pages.catalog import api_method, api_path, page_path
from danube.admin.web.pages.forms import arguments_of
from danube.admin.web.protection.requests import person_of, read_json
from danube.admin.web.server import WebServer
from danube.model.errors import InvalidRequestError, NotPermittedError

PLAN_ID = "plan_id"
"""Beside the parameters of an operation that acts by a plan: apply this one."""


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
