"""Bodies of requests: read up to a bound, parsed, and checked to be from a form of ours."""

from typing import Any
from urllib.parse import parse_qsl

from starlette.requests import ClientDisconnect, Request

from danube.admin.web.pages.forms import Pairs, parse_json_object
from danube.admin.web.protection.sessions import same_secret
from danube.admin.web.server import Person
from danube.admin.web.statuses import NotJsonError, TooLargeError
from danube.model.errors import CancelledError, InvalidRequestError, NotPermittedError
from danube.model.limits.faces import WEB_BODY_BYTES_MAX

CSRF_FIELD = "_csrf"
_FIELDS_MAX = 1_000


def person_of(request: Request) -> Person:
    """The sender of a request."""
    person: Person = request.state.person
    return person


async def read_json(request: Request) -> dict[str, Any]:
    """The JSON object in the body; empty for no body. Raises InvalidRequestError, TooLargeError, NotJsonError."""
    body = await _read(request)
    if not body:
        return {}
    if _media_type(request) != "application/json":
        raise NotJsonError("send the parameters as a JSON object, with the header `Content-Type: application/json`")
    return parse_json_object(body)


async def read_form(request: Request) -> Pairs:
    """The fields of a form, those of ours with `_` first; checked to come from a page of this server.

    Raises InvalidRequestError, TooLargeError; NotPermittedError where the token of the form is missing or another's.
    """
    body = await _read(request)
    if _media_type(request) != "application/x-www-form-urlencoded":
        raise InvalidRequestError("this is no form of this server: send it from its page")
    try:
        pairs = parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=_FIELDS_MAX, errors="strict")
    except ValueError:
        raise InvalidRequestError("this is no form of this server: send it from its page") from None
    given = next((value for name, value in pairs if name == CSRF_FIELD), "")
    expected = person_of(request).csrf
    if not expected or not same_secret(given, expected):
        raise NotPermittedError("this form is too old, or from another page: go back, reload it, and send it again")
    return [(name, value) for name, value in pairs if name != CSRF_FIELD]


async def _read(request: Request) -> bytes:
    announced = request.headers.get("content-length", "0")
    if not announced.isdecimal() or int(announced) > WEB_BODY_BYTES_MAX:
        raise _too_large()
    body = bytearray()
    try:
        async for part in request.stream():
            body += part
            if len(body) > WEB_BODY_BYTES_MAX:
                raise _too_large()
    except ClientDisconnect:
        raise CancelledError("the caller went away") from None
    return bytes(body)


def _media_type(request: Request) -> str:
    return request.headers.get("content-type", "").split(";", 1)[0].strip().lower()


def _too_large() -> TooLargeError:
    return TooLargeError(f"a request holds at most {WEB_BODY_BYTES_MAX} bytes")
