"""The face as an ASGI application: subjects, versions, schemas by id, compatibility, configuration, mode.

It deletes nothing: that takes a plan, which names what would be lost (`danube-admin schemas delete`).
"""

import base64
import json
import logging
import re
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, unquote

from danube.model.calls.schemas import FindVersion, RegisterVersion, SetMode, VersionDescription
from danube.model.errors import DanubeError, NotFoundError
from danube.model.limits.registry import SCHEMA_HTTP_BODY_BYTES_MAX
from danube.model.schema import SchemaType
from danube.model.untrusted_json import decode_json
from danube.schema_http.registry import HttpRegistry
from danube.schema_http.requests import (
    TYPES,
    HttpError,
    error_of,
    invalid,
    read_mode,
    read_object,
    read_schema,
    show_version,
)

_log = logging.getLogger(__name__)

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

SUBJECT_MISSING, VERSION_MISSING, SCHEMA_MISSING, NO_OWN_MODE = 40401, 40402, 40403, 40408
MEDIA_TYPE = "application/vnd.schemaregistry.v1+json"
_MODE = {"mode": "READWRITE"}
_CREATED_BY = "schema-http"


@dataclass(frozen=True, slots=True)
class Asked:
    """One request."""

    registry: HttpRegistry
    parts: tuple[str, ...]
    """Of its path, those that vary."""
    query: Mapping[str, str]
    body: bytes

    def flag(self, name: str) -> bool:
        """A parameter that is a truth value."""
        return self.query.get(name, "").lower() == "true"


Answer = Callable[[Asked], Awaitable[object]]


class SchemaApp:
    """Answers HTTP requests from a registry."""

    def __init__(self, registry: HttpRegistry, prefix: str = "") -> None:
        self._registry = registry
        self._prefix = prefix

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """As ASGI says."""
        if scope["type"] != "http":
            return
        try:
            status, answer = 200, await self._answer(scope, receive)
        except HttpError as error:
            status, answer = error.status, {"error_code": error.code, "message": str(error)}
        except Exception:
            _log.exception("a request to the schema registry met a fault of its own")
            status, answer = 500, {"error_code": 50001, "message": "a fault of this server; its log has the details"}
        body = json.dumps(answer, ensure_ascii=False).encode()
        headers = [(b"content-type", MEDIA_TYPE.encode()), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def _answer(self, scope: Message, receive: Receive) -> object:
        raw = scope.get("raw_path") or scope["path"].encode()
        path = raw.decode("ascii", "replace").removeprefix(self._prefix).rstrip("/") or "/"
        is_known = False
        for pattern, methods in _ROUTES:
            match = pattern.fullmatch(path)
            if match is None:
                continue
            is_known = True
            found = methods.get(scope["method"])
            if found is not None:
                query = dict(parse_qsl(scope.get("query_string", b"").decode("ascii", "replace")))
                parts = tuple(unquote(part) for part in match.groups())
                return await _asked(found, Asked(self._registry, parts, query, await _body(receive)))
        if is_known:
            raise HttpError(405, 405, "this is not done here: deletions take a plan, see danube-admin schemas delete")
        raise HttpError(404, 404, "there is no such path: see /subjects, /schemas/ids, /config and /compatibility")


async def _asked(found: "tuple[Answer, int]", asked: Asked) -> object:
    answer, missing = found
    try:
        return await answer(asked)
    except DanubeError as error:
        raise error_of(error, missing) from error


async def _body(receive: Receive) -> bytes:
    body = bytearray()
    while True:
        message = await receive()
        body += message.get("body", b"")
        if len(body) > SCHEMA_HTTP_BODY_BYTES_MAX:
            raise HttpError(413, 413, f"a request holds at most {SCHEMA_HTTP_BODY_BYTES_MAX} bytes")
        if not message.get("more_body"):
            return bytes(body)


# Subjects and versions


async def _subjects(asked: Asked) -> object:
    prefix = asked.query.get("subjectPrefix", "")
    return [name for name in await asked.registry.subject_names() if name.startswith(prefix)]


async def _versions(asked: Asked) -> object:
    return list(await asked.registry.version_numbers(asked.parts[0]))


async def _version(asked: Asked) -> object:
    found = await _find(asked)
    return show_version(found, await _text(asked, found))


async def _version_text(asked: Asked) -> object:
    return _bare((await _find(asked)).definition.decode())


async def _register(asked: Asked) -> object:
    subject, given = asked.parts[0], read_schema(asked.body)
    made = await asked.registry.register_version(
        RegisterVersion(
            subject=subject,
            type=given.type,
            definition=given.definition,
            created_by=_CREATED_BY,
            references=given.references,
            as_confluent=True,
        )
    )
    found = await asked.registry.find_version(FindVersion(subject=subject, version=made.version))
    return show_version(found, given.given)


async def _look_up(asked: Asked) -> object:
    subject, given = asked.parts[0], read_schema(asked.body)
    try:
        await asked.registry.version_numbers(subject)
    except NotFoundError as error:
        raise HttpError(404, SUBJECT_MISSING, str(error)) from error
    checked = await asked.registry.check_version(given.compared_in(subject))
    if not checked.same_as:
        raise HttpError(404, SCHEMA_MISSING, f"{subject} has no version with this schema: register it")
    found = await asked.registry.find_version(FindVersion(subject=subject, version=checked.same_as))
    return show_version(found, given.given)


async def _find(asked: Asked) -> VersionDescription:
    subject, version = asked.parts[0], _number(asked.parts[1])
    await _require_subject(asked, subject)
    return await asked.registry.find_version(FindVersion(subject=subject, version=version))


async def _require_subject(asked: Asked, subject: str) -> None:
    try:
        await asked.registry.version_numbers(subject)
    except NotFoundError as error:
        raise HttpError(404, SUBJECT_MISSING, str(error)) from error


def _number(word: str) -> int:
    if word in {"latest", "-1"}:
        return 0
    if not word.isdecimal() or not 0 < int(word[:10]) < 2**31:
        raise HttpError(422, 42202, f"{word[:20]!r} is no version: use a number from 1, or latest")
    return int(word)


# Schemas by id


async def _types(_asked: Asked) -> object:
    return sorted(TYPES)


async def _by_id(asked: Asked) -> object:
    found = await _numbered(asked)
    return show_version(found, await _text(asked, found))


async def _text_by_id(asked: Asked) -> object:
    return _bare((await _numbered(asked)).definition.decode())


async def _versions_by_id(asked: Asked) -> object:
    found = await _numbered(asked)
    return [{"subject": found.subject, "version": found.version}]


async def _subjects_by_id(asked: Asked) -> object:
    return [(await _numbered(asked)).subject]


async def _numbered(asked: Asked) -> VersionDescription:
    word = asked.parts[0]
    if not word.isdecimal() or not 0 < int(word[:12]) < 2**31:
        raise HttpError(404, SCHEMA_MISSING, f"there is no schema {word[:20]!r}: ids are numbers from 1")
    return await asked.registry.find_version(FindVersion(number=int(word)))


async def _text(asked: Asked, version: VersionDescription) -> str:
    if asked.query.get("format") == "serialized" and version.type is SchemaType.PROTOBUF:
        return base64.b64encode(await asked.registry.compiled_file(version)).decode()
    return version.definition.decode()


def _bare(text: str) -> object:
    """A definition as the answer itself: JSON as it is, anything else as a text."""
    try:
        return decode_json(text)
    except ValueError:
        return text


# Compatibility, configuration, mode


async def _check(asked: Asked) -> object:
    subject, given = asked.parts[0], read_schema(asked.body)
    against = 0
    if len(asked.parts) > 1:
        against = (await _find(asked)).version
    checked = await asked.registry.check_version(given.compared_in(subject, against))
    answer: dict[str, object] = {"is_compatible": checked.is_compatible}
    if asked.flag("verbose"):
        answer["messages"] = [
            f"{{kind: {one.kind}, path: {one.path!r}, version: {one.version}}} {one.message}"
            + (f"; {one.suggestion}" if one.suggestion else "")
            for one in checked.differences
            if one.breaks
        ]
    return answer


async def _config(asked: Asked) -> object:
    subject = asked.parts[0] if asked.parts else ""
    answer = await asked.registry.schema_mode(SetMode(subject=subject, ask=True))
    if subject and not answer.is_own and not asked.flag("defaultToGlobal"):
        raise HttpError(404, NO_OWN_MODE, f"{subject} has no compatibility level of its own: see /config")
    return {"compatibilityLevel": answer.mode.value.upper()}


async def _set_config(asked: Asked) -> object:
    mode = read_mode(read_object(asked.body))
    await asked.registry.schema_mode(SetMode(subject=asked.parts[0] if asked.parts else "", mode=mode))
    return {"compatibility": mode.value.upper()}


async def _unset_config(asked: Asked) -> object:
    before = await asked.registry.schema_mode(SetMode(subject=asked.parts[0], ask=True))
    await asked.registry.schema_mode(SetMode(subject=asked.parts[0]))
    return {"compatibilityLevel": before.mode.value.upper()}


async def _mode(_asked: Asked) -> object:
    return _MODE


async def _set_mode(asked: Asked) -> object:
    if read_object(asked.body).get("mode") != _MODE["mode"]:
        raise invalid("the mode of this registry is READWRITE, and stays so")
    return _MODE


async def _root(_asked: Asked) -> object:
    return {}


_Methods = Mapping[str, tuple[Answer, int]]


def _route(pattern: str, **methods: tuple[Answer, int]) -> tuple[re.Pattern[str], _Methods]:
    return re.compile(pattern.replace("{}", "([^/]+)")), methods


_ROUTES = (
    _route("/", GET=(_root, 404)),
    _route("/subjects", GET=(_subjects, SUBJECT_MISSING)),
    _route("/subjects/{}", POST=(_look_up, SUBJECT_MISSING)),
    _route("/subjects/{}/versions", GET=(_versions, SUBJECT_MISSING), POST=(_register, SUBJECT_MISSING)),
    _route("/subjects/{}/versions/{}", GET=(_version, VERSION_MISSING)),
    _route("/subjects/{}/versions/{}/schema", GET=(_version_text, VERSION_MISSING)),
    _route("/schemas/types", GET=(_types, SCHEMA_MISSING)),
    _route("/schemas/ids/{}", GET=(_by_id, SCHEMA_MISSING)),
    _route("/schemas/ids/{}/schema", GET=(_text_by_id, SCHEMA_MISSING)),
    _route("/schemas/ids/{}/subjects", GET=(_subjects_by_id, SCHEMA_MISSING)),
    _route("/schemas/ids/{}/versions", GET=(_versions_by_id, SCHEMA_MISSING)),
    _route("/compatibility/subjects/{}/versions", POST=(_check, SUBJECT_MISSING)),
    _route("/compatibility/subjects/{}/versions/{}", POST=(_check, VERSION_MISSING)),
    _route("/config", GET=(_config, SUBJECT_MISSING), PUT=(_set_config, SUBJECT_MISSING)),
    _route(
        "/config/{}",
        GET=(_config, SUBJECT_MISSING),
        PUT=(_set_config, SUBJECT_MISSING),
        DELETE=(_unset_config, SUBJECT_MISSING),
    ),
    _route("/mode", GET=(_mode, SUBJECT_MISSING), PUT=(_set_mode, SUBJECT_MISSING)),
    _route("/mode/{}", GET=(_mode, SUBJECT_MISSING), PUT=(_set_mode, SUBJECT_MISSING)),
)
"""Paths, and for each method its answer and the number of an error that says NOT_FOUND."""
