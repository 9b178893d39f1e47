"""What an operation asks for, as fields of a form, and what a form or a query string answers, as arguments. Pure."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Any, get_args

from danube.admin.operations.fields import Completes, PageParams, Params
from danube.admin.operations.operation import AnyOperation
from danube.admin.present import label
from danube.model.errors import InvalidRequestError
from danube.model.limits.faces import WEB_ROWS_DEFAULT, WEB_ROWS_MAX
from danube.model.untrusted_json import decode_json

Pairs = Sequence[tuple[str, str]]
"""Names and values in their order, as a query string or a form has them; a name may come twice."""


class FieldKind(StrEnum):
    """How a field is asked for."""

    TEXT = "text"
    SECRET = "secret"  # noqa: S105 - a kind of field, not a secret
    NUMBER = "number"
    CHOICE = "choice"
    SWITCH = "switch"
    """False unless it is ticked."""
    LINES = "lines"
    """A list, a value on each line."""
    JSON = "json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One parameter of an operation."""

    name: str
    label: str
    kind: FieldKind
    help: str
    is_required: bool
    default: str = ""
    """Shown, not sent, where nothing is given."""
    options: tuple[str, ...] = ()
    minimum: float | None = None
    maximum: float | None = None
    chars_max: int | None = None
    completes: str | None = None
    """What its values name: `topic`, `namespace`, ..."""


def fields_of(operation: AnyOperation) -> tuple[Field, ...]:
    """The parameters of an operation: those that are required first, those of paging last."""
    params: type[Params] = operation.params
    return _fields(params)


@cache  # bounded by the operations there are; a page asks for them once for each row
def _fields(params: type[Params]) -> tuple[Field, ...]:
    schema = params_schema(params)
    required = set(schema.get("required", ()))
    fields = [
        _field(params, name, each, schema.get("$defs", {}), is_required=name in required)
        for name, each in schema.get("properties", {}).items()
    ]
    return tuple(sorted(fields, key=lambda field: (not field.is_required, field.name in PageParams.model_fields)))


def params_schema(params: type[Params], ref_template: str = "#/$defs/{model}") -> dict[str, Any]:
    """The JSON schema of an operation's parameters, with the bounds that this face adds."""
    schema = params.model_json_schema(ref_template=ref_template)
    if issubclass(params, PageParams):
        schema["properties"]["limit"] = {
            "type": "integer",
            "minimum": 1,
            "maximum": WEB_ROWS_MAX,
            "default": WEB_ROWS_DEFAULT,
            "title": "Limit",
            "description": "The most rows to answer.",
        }
    return schema


def arguments_of(operation: AnyOperation, pairs: Pairs) -> dict[str, Any]:
    """The arguments that a query string or a form gives. An optional field that is left empty is not given.

    Raises InvalidRequestError for a name that comes twice and takes one value, and for what is not JSON.
    """
    fields = {field.name: field for field in fields_of(operation)}
    arguments: dict[str, Any] = {}
    for name, values in _grouped(pairs).items():
        field = fields.get(name)
        if field is None:
            arguments[name] = values[-1]  # the model refuses it, by name
        elif field.kind is FieldKind.LINES:
            arguments[name] = [line.strip() for value in values for line in value.splitlines() if line.strip()]
        elif len(values) > 1:
            raise InvalidRequestError(f"{operation.name}: {name} is given {len(values)} times: give it once")
        elif values[0] or field.is_required:
            arguments[name] = _json(name, values[0]) if field.kind is FieldKind.JSON else values[0]
    return arguments


def with_page_bound(operation: AnyOperation, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments with this face's bound on rows. Raises InvalidRequestError for more than WEB_ROWS_MAX."""
    if not issubclass(operation.params, PageParams):
        return dict(arguments)
    limit = arguments.get("limit")
    if limit is None:
        return {**arguments, "limit": WEB_ROWS_DEFAULT}
    if str(limit).isdecimal() and int(str(limit)) > WEB_ROWS_MAX:
        raise InvalidRequestError(
            f"{operation.name}: limit: at most {WEB_ROWS_MAX} rows a page over HTTP; go on with the cursor"
        )
    return dict(arguments)


def field_texts(arguments: Mapping[str, Any]) -> dict[str, str]:
    """Arguments as a form shows them."""
    return {name: _text(value) for name, value in arguments.items() if value is not None}


def parse_json_object(text: str | bytes) -> dict[str, Any]:
    """A JSON object. Raises InvalidRequestError."""
    try:
        value = decode_json(text)
    except ValueError:
        raise InvalidRequestError("the body is not JSON: send an object with the parameters") from None
    if not isinstance(value, dict):
        raise InvalidRequestError("the body is JSON and no object: send one with the parameters")
    return value


def _field(
    params: type[Params], name: str, schema: Mapping[str, Any], defs: Mapping[str, Any], *, is_required: bool
) -> Field:
    one = _resolved(schema, defs)
    return Field(
        name=name,
        label=label(name),
        kind=_kind(one, schema),
        help=schema.get("description") or one.get("description", ""),
        is_required=is_required,
        default=_text(schema.get("default")),
        options=_options(one),
        minimum=one.get("minimum"),
        maximum=one.get("maximum"),
        chars_max=one.get("maxLength"),
        completes=_completes(params, name),
    )


def _resolved(schema: Mapping[str, Any], defs: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a value must be when it is given: without null, and without a reference."""
    for each in schema.get("anyOf", ()):
        if each.get("type") != "null":
            return _resolved(each, defs)
    if "$ref" in schema:
        found: Mapping[str, Any] = defs[schema["$ref"].rsplit("/", 1)[-1]]
        return found
    return schema


def _kind(schema: Mapping[str, Any], outer: Mapping[str, Any]) -> FieldKind:
    if "enum" in schema:
        return FieldKind.CHOICE
    match schema.get("type"):
        case "boolean":
            return FieldKind.SWITCH if outer.get("default") is False else FieldKind.CHOICE
        case "integer" | "number":
            return FieldKind.NUMBER
        case "array":
            return FieldKind.LINES
        case "string":
            is_secret = schema.get("format") == "password" or bool(schema.get("writeOnly"))
            return FieldKind.SECRET if is_secret else FieldKind.TEXT
        case _:
            return FieldKind.JSON


def _options(schema: Mapping[str, Any]) -> tuple[str, ...]:
    if schema.get("type") == "boolean":
        return ("true", "false")
    return tuple(str(each) for each in schema.get("enum", ()))


def _completes(params: type[Params], name: str) -> str | None:
    info = params.model_fields[name]
    optional = (mark for part in get_args(info.annotation) for mark in getattr(part, "__metadata__", ()))
    return next((mark.kind for mark in (*info.metadata, *optional) if isinstance(mark, Completes)), None)


def _grouped(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {}
    for name, value in pairs:
        groups.setdefault(name, []).append(value)
    return groups


def _json(name: str, text: str) -> Any:  # noqa: ANN401 - whatever the person wrote
    try:
        return decode_json(text)
    except ValueError:
        raise InvalidRequestError(f"{name}: this is not JSON") from None


def _text(value: object) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case str():
            return value
        case list() if all(isinstance(each, str) for each in value):
            return "\n".join(value)
        case _:
            return json.dumps(value)
