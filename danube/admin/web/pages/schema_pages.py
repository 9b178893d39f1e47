"""Pages of the schema registry: the subjects, and one subject with its versions and the change between two of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from danube.admin.operations.fields import Result
from danube.admin.operations.operation import AnyOperation
from danube.admin.operations.schemas.changes import EXPLAIN, Explanation
from danube.admin.operations.schemas.fields import pretty, verdict
from danube.admin.operations.schemas.subjects import (
    GET_SCHEMA,
    LIST_SUBJECTS,
    LIST_VERSIONS,
    SchemaDetail,
    SubjectList,
    VersionList,
)
from danube.admin.web.pages.catalog import links_from
from danube.admin.web.pages.rendering import Renderer
from danube.admin.web.protection.requests import person_of
from danube.admin.web.server import WebServer
from danube.admin.web.statuses import problem_of, status_of
from danube.model.errors import DanubeError, InvalidRequestError
from danube.model.limits.faces import WEB_ROWS_MAX

SUBJECTS_PATH = "/schemas"
SUBJECT_PATH = "/schemas/subject"
_TONES = {"+": "added", "-": "removed", "@": "place"}
R = TypeVar("R", bound=Result)


@dataclass(frozen=True, slots=True)
class DiffLine:
    """One line of two definitions."""

    text: str
    tone: str
    """`added`, `removed`, `place`, or nothing for what both have."""


class SchemaPages:
    """The handlers of these pages."""

    def __init__(self, server: WebServer, renderer: Renderer) -> None:
        self._server = server
        self._renderer = renderer

    def routes(self) -> list[Route]:
        return [
            Route(SUBJECTS_PATH, self.subjects, methods=["GET"]),
            Route(SUBJECT_PATH, self.subject, methods=["GET"]),
        ]

    async def subjects(self, request: Request) -> Response:
        """The subjects, each with a link to its versions."""
        cursor = request.query_params.get("cursor")
        try:
            found = await self._ask(request, LIST_SUBJECTS, SubjectList, {"cursor": cursor} if cursor else {})
        except DanubeError as error:
            return self._problem(request, "schemas.html", error)
        return self._renderer.page(
            request, "schemas.html", problem=None, found=found, url=subject_url, next_url=_next_url(found)
        )

    async def subject(self, request: Request) -> Response:
        """The versions of a subject, and what changed between the two that are chosen; else between the newest."""
        try:
            shown = await self._subject(request)
        except DanubeError as error:
            return self._problem(request, "subject.html", error, subject=request.query_params.get("subject", ""))
        return self._renderer.page(request, "subject.html", problem=None, url=subject_url, verdict=verdict, **shown)

    async def _subject(self, request: Request) -> dict[str, Any]:
        subject = request.query_params.get("subject", "")
        if not subject:
            raise InvalidRequestError(f"no subject is named: choose one at {SUBJECTS_PATH}")
        versions = await self._ask(request, LIST_VERSIONS, VersionList, {"subject": subject, "limit": WEB_ROWS_MAX})
        numbers = [row.version for row in versions.versions]
        version = _number(request, "version", numbers) or numbers[-1]
        earlier = [number for number in numbers if number < version]
        against = _number(request, "against", numbers) or (earlier[-1] if earlier else None)
        named = {"subject": subject, "version": version}
        detail = await self._ask(request, GET_SCHEMA, SchemaDetail, named)
        change = None
        if against is not None and against != version:
            change = await self._ask(request, EXPLAIN, Explanation, {**named, "against": against})
        return {
            "subject": subject,
            "versions": versions.versions[::-1],
            "numbers": numbers[::-1],
            "version": version,
            "against": against,
            "detail": detail,
            "definition": pretty(detail.definition),
            "change": change,
            "diff": diff_lines(change) if change else (),
            "links": links_from({"subject": subject}, "subject"),
        }

    async def _ask(self, request: Request, operation: AnyOperation, kind: type[R], arguments: Mapping[str, Any]) -> R:
        answer = await self._server.call(person_of(request), operation, arguments)
        if not isinstance(answer, kind):
            raise TypeError(f"{operation.name} answered {type(answer).__name__}")
        return answer

    def _problem(self, request: Request, name: str, error: DanubeError, **values: str) -> Response:
        return self._renderer.page(request, name, status_of(error), problem=problem_of(error), **values)


def subject_url(subject: str, **versions: int) -> str:
    """The page of a subject; of two of its versions where they are given."""
    return f"{SUBJECT_PATH}?{urlencode({'subject': subject, **versions})}"


def diff_lines(change: Explanation) -> Sequence[DiffLine]:
    """The lines of both definitions, without the names of the sides."""
    return tuple(DiffLine(text, _TONES.get(text[:1], "")) for text in change.diff[2:])


def _next_url(found: SubjectList) -> str:
    return f"{SUBJECTS_PATH}?{urlencode({'cursor': found.next_cursor})}" if found.next_cursor else ""


def _number(request: Request, name: str, known: Sequence[int]) -> int | None:
    """A version that the address names. Raises InvalidRequestError for one that is not there."""
    text = request.query_params.get(name, "")
    if not text:
        return None
    if not text.isascii() or not text.isdigit() or len(text) > 10 or int(text) not in known:
        raise InvalidRequestError(f"{name}: there is no version {text[:20]!r}: the versions are on this page")
    return int(text)
