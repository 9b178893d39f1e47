"""A form for any operation, from its pydantic parameters: fields, defaults, and what was typed as arguments. No I/O."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError

from danube.admin.operations.fields import FieldKind, FieldSpec, PageParams, Params, field_specs
from danube.admin.operations.operation import AnyOperation
from danube.model.errors import DanubeError
from danube.model.limits.faces import TUI_RESULT_ROWS
from danube.model.untrusted_json import decode_json


def fields_of(operation: AnyOperation) -> tuple[FieldSpec, ...]:
    """The fields of an operation's form: what it needs first, in the order of their declaration."""
    return tuple(sorted(field_specs(operation.params), key=lambda field: not field.is_required))


def arguments_of(fields: Sequence[FieldSpec], typed: Mapping[str, str | bool]) -> dict[str, Any]:
    """The typed values as arguments. An empty one, or the default, is left out, so that the operation decides."""
    arguments = {}
    for field in fields:
        value = typed.get(field.name, "")
        if value == "" or (isinstance(value, bool) and value == bool(field.default)):
            continue
        arguments[field.name] = _parsed(field, value)
    return arguments


def text_of(value: Any) -> str:  # noqa: ANN401 - any JSON value
    """A JSON value as somebody would type it."""
    if value is None:
        return ""
    if isinstance(value, list) and all(isinstance(each, str) and "," not in each for each in value):
        return ", ".join(value)
    return value if isinstance(value, str) else json.dumps(value)


def bounded_page(operation: AnyOperation, params: Params) -> Params:
    """The parameters with the bound of this face, where a listing was given none."""
    if operation.listing is not None and isinstance(params, PageParams) and params.limit is None:
        return params.model_copy(update={"limit": TUI_RESULT_ROWS})
    return params


@dataclass(frozen=True, slots=True)
class Judged:
    """The judgement of typed values: the parameters, or what is wrong with which field; "" is the form as a whole."""

    params: Params | None
    problems: Mapping[str, str]


def judge(operation: AnyOperation, arguments: Mapping[str, Any]) -> Judged:
    """Validate as the operation itself does."""
    try:
        return Judged(operation.params.model_validate(dict(arguments)), {})
    except ValidationError as error:
        return Judged(None, _problems(error, operation.params))
    except DanubeError as error:
        return Judged(None, {_culprit(operation.params, arguments): str(error)})


def _problems(error: ValidationError, model: type[BaseModel]) -> dict[str, str]:
    found: dict[str, list[str]] = {}
    for each in error.errors(include_url=False, include_input=False):
        first = str(each["loc"][0]) if each["loc"] else ""
        name = first if first in model.model_fields else ""
        text = "This is needed." if each["type"] == "missing" else each["msg"].removeprefix("Value error, ")
        found.setdefault(name, []).append(text)
    return {name: "; ".join(texts) for name, texts in found.items()}


def _culprit(model: type[Params], arguments: Mapping[str, Any]) -> str:
    """The argument that makes the model raise an error of ours, which does not say where."""
    for name, value in arguments.items():
        try:
            model.model_validate({name: value})
        except ValidationError:
            continue
        except DanubeError:
            return name
    return ""


def _parsed(field: FieldSpec, value: bool | str) -> Any:  # noqa: ANN401, FBT001 - any JSON value, of a switch or a text
    """As JSON where the field is made of it; what is no JSON goes on as text and is refused by the operation."""
    if isinstance(value, bool) or field.kind not in {FieldKind.LIST, FieldKind.JSON}:
        return value
    if field.kind is FieldKind.LIST and not value.lstrip().startswith("["):
        return [part.strip() for part in value.split(",") if part.strip()]
    try:
        return decode_json(value)
    except ValueError:
        return value
