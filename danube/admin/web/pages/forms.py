"""Fields of forms, and arguments from forms and query strings. Pure."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from danube.admin.operations.fields import FieldKind, FieldSpec, PageParams, Params, field_specs
from danube.admin.operations.operation import AnyOperation
from danube.model.errors import InvalidRequestError
from danube.model.limits.faces import WEB_ROWS_DEFAULT, WEB_ROWS_MAX
from danube.model.untrusted_json import decode_json

Pairs = Sequence[tuple[str, str]]
"""Names and values in their order, as a query string or a form has them; a name may come twice."""


_LIMIT: dict[str, Any] = {
    "minimum": 1,
    "maximum": WEB_ROWS_MAX,
    "default": WEB_ROWS_DEFAULT,
    "description": "Maximum rows.",
}


def fields_of(operation: AnyOperation) -> tuple[FieldSpec, ...]:
    """The parameters of an operation: those that are required first, those of paging last."""
    specs = field_specs(operation.params)
    if issubclass(operation.params, PageParams):
        specs = tuple(replace(each, **_LIMIT) if each.name == "limit" else each for each in specs)
    return tuple(sorted(specs, key=lambda field: (not field.is_required, field.is_paging)))


def params_schema(params: type[Params], ref_template: str = "#/$defs/{model}") -> dict[str, Any]:
    """The JSON schema of an operation's parameters, with the bounds that this face adds."""
    schema = params.model_json_schema(ref_template=ref_template)
    if issubclass(params, PageParams):
        schema["properties"]["limit"] = {"type": "integer", **_LIMIT, "title": "Limit"}
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
        elif field.kind is FieldKind.LIST:
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
    return {name: field_text(value) for name, value in arguments.items() if value is not None}


def parse_json_object(text: str | bytes) -> dict[str, Any]:
    """A JSON object. Raises InvalidRequestError."""
    try:
        value = decode_json(text)
    except ValueError:
        raise InvalidRequestError("the body is not JSON: send an object with the parameters") from None
    if not isinstance(value, dict):
        raise InvalidRequestError("the body is JSON and no object: send one with the parameters")
    return value


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


def field_text(value: object) -> str:
    """A value as a form shows it."""
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
