"""JSON Schema definitions: read, bounded, checked, with all references resolved."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from danube.model.errors import PayloadInvalidError, SchemaInvalidError
from danube.model.limits.schema import (
    SCHEMA_BYTES_MAX,
    SCHEMA_DEPTH_MAX,
    SCHEMA_PATTERN_BYTES_MAX,
    SCHEMA_PATTERN_STEPS_MAX,
)
from danube.model.schema import SchemaType
from danube.model.untrusted_json import UntrustedJsonError, decode_json
from danube.schema.extra import library
from danube.schema.json_schema.cost import ApplicationCost, CheckCost
from danube.schema.json_schema.keywords import (
    DIALECT_7,
    DIALECT_2019,
    DIALECT_2020,
    DIALECTS,
    Schema,
    below,
    definitions,
    in_place,
)
from danube.schema.json_schema.references import BASE, References
from danube.schema.parsed import ParsedSchema, shown

_CLASSES: Final = {
    DIALECT_7: "Draft7Validator",
    DIALECT_2019: "Draft201909Validator",
    DIALECT_2020: "Draft202012Validator",
}


@dataclass(frozen=True, slots=True, eq=False)
class JsonDocument:
    """One definition with what it refers to."""

    root: Schema
    dialect: str
    references: References
    payload_depth_max: int
    cost: CheckCost
    validator: Any
    """Compiled by jsonschema-rs."""


class JsonValidator:
    """Validator of one definition."""

    def __init__(self, document: JsonDocument) -> None:
        self._document = document
        self.steps = document.cost.steps

    def __reduce__(self) -> tuple[Any, ...]:
        """For another process, which compiles anew."""
        of = self._document
        return _compiled, (of.root, of.dialect, dict(of.references.used), of.payload_depth_max, of.cost)

    def check(self, payload: bytes, *, with_reason: bool = True) -> None:
        """As the protocol."""
        if with_reason:
            self.decode(payload)
        elif not self._document.validator.is_valid(self._read(payload)):
            raise PayloadInvalidError("")

    def decode(self, payload: bytes) -> Any:  # noqa: ANN401 - a JSON value
        """As the protocol."""
        value = self._read(payload)
        try:
            self._document.validator.validate(value)  # up to the first fault; iter_errors would collect all of them
        except library("jsonschema_rs", "JSON Schema").ValidationError as fault:
            place = "".join(f"/{part}" for part in fault.instance_path)
            raise PayloadInvalidError(shown(fault.message), place or "/") from None
        return value

    def _read(self, payload: bytes) -> Any:  # noqa: ANN401 - a JSON value
        try:
            return decode_json(payload, depth_max=self._document.payload_depth_max)
        except UntrustedJsonError as error:
            raise PayloadInvalidError(f"it is no JSON that can be read: {error}") from None


def _compiled(root: Schema, dialect: str, used: dict[str, Schema], depth_max: int, cost: CheckCost) -> JsonValidator:
    compiled = compile_schema(root, dialect, used)
    return JsonValidator(JsonDocument(root, dialect, References(root, dialect, used), depth_max, cost, compiled))


def parse_json_schema(text: str, given: Mapping[str, str], default: str) -> ParsedSchema:
    """Read a definition, of the dialect `default` unless it names another. Raises SchemaInvalidError."""
    root = _read(text, "#")
    dialect = _dialect(root, default)
    others = {name: _read(other, f"reference {name}") for name, other in given.items()}
    references = References(root, dialect, others)
    for schema in (root, *references.used.values()):
        _check_parts(schema, "#")
    cost = ApplicationCost(references, dialect)
    depth_max = cost.payload_depth_max(root)
    validator = compile_schema(root, dialect, references.used)
    check_cost = cost.check_cost(root, depth_max)
    _check_defaults(root, dialect)
    canonical = _canonical(root)
    digest = hashlib.sha256(canonical)
    for address, schema in sorted(references.used.items()):
        digest.update(b"\0" + address.encode() + b"\0" + _canonical(schema))
    document = JsonDocument(root, dialect, references, depth_max, check_cost, validator)
    return ParsedSchema(SchemaType.JSON_SCHEMA, text, canonical, f"sha256:{digest.hexdigest()}", _names(root), document)


def compile_schema(root: Schema, dialect: str, used: Mapping[str, Schema]) -> Any:  # noqa: ANN401 - of an untyped library
    """Validator of jsonschema-rs: no network, bounded regular expressions. Raises SchemaInvalidError."""
    rust = library("jsonschema_rs", "JSON Schema")
    options = rust.FancyRegexOptions(
        backtrack_limit=SCHEMA_PATTERN_STEPS_MAX,
        size_limit=SCHEMA_PATTERN_BYTES_MAX,
        dfa_size_limit=SCHEMA_PATTERN_BYTES_MAX,
    )
    registry = rust.Registry([*used.items()]) if used else None
    try:
        return getattr(rust, _CLASSES[dialect])(
            root, validate_formats=False, registry=registry, pattern_options=options, offline=True, base_uri=BASE
        )
    except rust.ValidationError as error:
        place = "/".join(("#", *map(str, error.instance_path)))
        raise SchemaInvalidError(f"{shown(error.message)}: correct it as draft {dialect} says", place) from None
    except (rust.ReferencingError, ValueError) as error:
        raise SchemaInvalidError(f"{shown(str(error))}: correct it as draft {dialect} says", "#") from None


def _read(text: str, place: str) -> Schema:
    if len(text.encode()) > SCHEMA_BYTES_MAX:
        raise SchemaInvalidError(f"it is longer than {SCHEMA_BYTES_MAX} bytes: split it", place)
    try:
        root = decode_json(text, depth_max=SCHEMA_DEPTH_MAX)
    except UntrustedJsonError as error:
        raise SchemaInvalidError(f"it is no JSON that can be read: {error}", place) from None
    if not isinstance(root, bool | dict):
        raise SchemaInvalidError("a JSON Schema is an object, true or false", place)
    return root


def _dialect(root: Schema, default: str) -> str:
    named = root.get("$schema") if isinstance(root, dict) else None
    if named is None:
        return default
    if not isinstance(named, str) or named.removesuffix("#") not in DIALECTS:
        raise SchemaInvalidError(f"{shown(named)} is none of the drafts 7, 2019-09 and 2020-12: use one", "#/$schema")
    return DIALECTS[named.removesuffix("#")]


def _check_parts(root: Schema, place: str) -> None:
    """Refuse in each part what the meta-schema lets pass and no document could meet."""
    todo = [(root, place)]
    while todo:
        schema, place = todo.pop()
        if not isinstance(schema, dict):
            continue
        if schema.get("enum") == []:
            raise SchemaInvalidError("an enum without values accepts nothing: name its values", f"{place}/enum")
        for parts in (in_place, below, definitions):
            todo.extend((each, f"{place}/{at}") for at, each in parts(schema))


def _check_defaults(root: Schema, dialect: str) -> None:
    """Refuse defaults of properties that their own schemas refuse; those with references are left alone."""
    todo: list[tuple[Schema, str]] = [(root, "#")]
    while todo:
        schema, place = todo.pop()
        for parts in (in_place, below, definitions):
            todo.extend((each, f"{place}/{at}") for at, each in parts(schema))
        if not isinstance(schema, dict) or "default" not in schema or "$ref" in json.dumps(schema):
            continue
        if not compile_schema(schema, dialect, {}).is_valid(schema["default"]):
            raise SchemaInvalidError(
                f"the default {shown(json.dumps(schema['default']))} does not follow its own schema: correct it",
                f"{place}/default",
            )


def _canonical(schema: Schema) -> bytes:
    return json.dumps(schema, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def _names(root: Schema) -> tuple[str, ...]:
    found = [root.get("title"), root.get("$id")] if isinstance(root, dict) else []
    return tuple(name for name in found if isinstance(name, str))
