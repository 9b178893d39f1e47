"""Bodies and answers of the HTTP face: JSON as Confluent's clients write and read it."""

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from danube.model.calls.schemas import CheckVersion, VersionDescription
from danube.model.errors import (
    DanubeError,
    InvalidNameError,
    LimitReachedError,
    NotFoundError,
    NotPermittedError,
    PreconditionFailedError,
    SchemaIncompatibleError,
    SchemaInvalidError,
    UnavailableError,
)
from danube.model.limits.registry import SCHEMA_REFERENCES_MAX
from danube.model.schema import CompatibilityMode, SchemaImport, SchemaType
from danube.model.untrusted_json import decode_json
from danube.schema.protobuf.proto_text import proto_text

TYPES = {"AVRO": SchemaType.AVRO, "JSON": SchemaType.JSON_SCHEMA, "PROTOBUF": SchemaType.PROTOBUF}
_LATEST, _VERSION_MAX = -1, 2**31 - 1
_NAMES = {kind: name for name, kind in TYPES.items()}


class HttpError(Exception):
    """An answer that is an error, with the number that clients look at."""

    def __init__(self, status: int, code: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


def invalid(message: str) -> HttpError:
    """The error for a body or a parameter that cannot be."""
    return HttpError(422, 42201, message)


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenSchema:
    """A definition in the body of a request."""

    type: SchemaType
    definition: bytes
    given: str
    """As it came, to be echoed: clients remember the answer as the schema's text."""
    references: tuple[SchemaImport, ...]

    def compared_in(self, subject: str, against_version: int = 0) -> CheckVersion:
        """The question for its compatibility."""
        return CheckVersion(
            subject=subject,
            type=self.type,
            definition=self.definition,
            references=self.references,
            against_version=against_version,
            as_confluent=True,
        )


def read_object(body: bytes) -> Mapping[str, Any]:
    """The JSON object of a body. Raises HttpError."""
    try:
        parsed = decode_json(body)
    except ValueError:
        parsed = None
    if not isinstance(parsed, dict):
        raise invalid("the body is no JSON object: send one with the schema in it")
    return parsed


def read_schema(body: bytes) -> GivenSchema:
    """The definition of a body. Raises HttpError, SchemaInvalidError."""
    parsed = read_object(body)
    text, name = parsed.get("schema"), parsed.get("schemaType") or "AVRO"
    kind = TYPES.get(name) if isinstance(name, str) else None
    if not isinstance(text, str) or kind is None:
        raise invalid(f"the body needs `schema`, a text, and a `schemaType` of {', '.join(TYPES)}")
    definition = _text_of_descriptor(text) if kind is SchemaType.PROTOBUF else text
    references = _references(parsed.get("references"))
    return GivenSchema(type=kind, definition=definition.encode(), given=text, references=references)


def _text_of_descriptor(text: str) -> str:
    """The text of a Protobuf definition that may come as a descriptor in base64, as Confluent's clients send it."""
    try:
        serialized = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return text
    return proto_text(serialized)


def _references(given: object) -> tuple[SchemaImport, ...]:
    if given is None:
        return ()
    if not isinstance(given, list) or len(given) > SCHEMA_REFERENCES_MAX:
        raise invalid(f"`references` is a list of up to {SCHEMA_REFERENCES_MAX}")
    found = []
    for one in given:
        fields = one if isinstance(one, dict) else {}
        name, subject, version = fields.get("name"), fields.get("subject"), fields.get("version")
        if not isinstance(name, str) or not isinstance(subject, str) or not isinstance(version, int):
            raise invalid("a reference has a `name`, a `subject` and a `version`")
        if version < _LATEST or version == 0 or version > _VERSION_MAX:
            raise invalid(f"the version of a reference is a number from 1, or {_LATEST} for the latest")
        found.append(SchemaImport(name, subject, max(version, 0)))
    return tuple(found)


def read_mode(parsed: Mapping[str, Any]) -> CompatibilityMode:
    """The compatibility level of a body. Raises HttpError."""
    word = parsed.get("compatibility")
    try:
        return CompatibilityMode(word.lower() if isinstance(word, str) else None)
    except ValueError:
        known = ", ".join(mode.value.upper() for mode in CompatibilityMode)
        raise HttpError(422, 42203, f"`compatibility` is one of {known}") from None


def show_version(version: VersionDescription, text: str) -> dict[str, Any]:
    """A version as clients read it, with its definition in the form that was asked for."""
    shown: dict[str, Any] = {
        "subject": version.subject,
        "version": version.version,
        "id": version.number,
        "schema": text,
    }
    if version.type is not SchemaType.AVRO:
        shown["schemaType"] = _NAMES.get(version.type, version.type.value.upper())
    if version.references:
        shown["references"] = [
            {"name": one.name, "subject": one.subject, "version": one.version} for one in version.references
        ]
    return shown


_ERRORS: tuple[tuple[tuple[type[DanubeError], ...], int, int], ...] = (
    ((SchemaIncompatibleError,), 409, 409),
    ((SchemaInvalidError, InvalidNameError), 422, 42201),
    ((PreconditionFailedError,), 422, 42206),
    ((LimitReachedError,), 429, 42901),
    ((NotPermittedError,), 403, 40301),
    ((UnavailableError,), 503, 50003),
)
"""Errors of the registry, each with its status and the number that clients look at; the first that fits."""


def error_of(error: DanubeError, missing: int) -> HttpError:
    """The answer for an error of the registry; `missing` is the number of what was not found."""
    text = str(error)
    if isinstance(error, NotFoundError):
        return HttpError(404, missing, text)
    for kinds, status, code in _ERRORS:
        if isinstance(error, kinds):
            return HttpError(status, code, text)
    return HttpError(500, 50001, text if error.public else "the registry failed; the log has the details")
