"""A form for any operation, from its pydantic parameters: fields, defaults, and what was typed as arguments. No I/O."""

import json
import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Any, Literal, Union, get_args, get_origin

from annotated_types import MaxLen
from pydantic import BaseModel, SecretStr, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from danube.admin.operations.fields import Completes, PageParams, Params
from danube.admin.operations.operation import AnyOperation
from danube.model.errors import DanubeError
from danube.model.limits.faces import TUI_RESULT_ROWS
from danube.model.untrusted_json import decode_json

LONG_TEXT_CHARS = 4_000
"""A text that may be longer than this gets several lines."""


class Kind(StrEnum):
    """How a value is asked for."""

    TEXT = "text"
    SECRET = "secret"  # noqa: S105 - a kind of field
    LONG_TEXT = "long_text"
    SWITCH = "switch"
    CHOICE = "choice"
    ITEMS = "items"
    """Several values on one line, between commas; or a JSON array."""
    JSON = "json"


@dataclass(frozen=True, slots=True, kw_only=True)
class FormField:
    """One parameter, as a form asks for it."""

    name: str
    description: str
    kind: Kind
    is_required: bool
    default: Any = None
    """As a JSON value; None when it is left out."""
    choices: tuple[str, ...] = ()
    completes: str | None = None
    """Which names of the cluster it takes: see `Completes`."""


def fields_of(operation: AnyOperation) -> tuple[FormField, ...]:
    """The fields of an operation's form: what it needs first, in the order of their declaration."""
    fields = [_field(name, info) for name, info in operation.params.model_fields.items()]
    return tuple(sorted(fields, key=lambda field: not field.is_required))


def arguments_of(fields: Sequence[FormField], typed: Mapping[str, str | bool]) -> dict[str, Any]:
    """What was typed, as arguments. What is empty, or is the default, is left out, so that the operation decides."""
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
    """What was typed, judged: either the parameters, or what is wrong with which field; "" is the form as a whole."""

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


def _field(name: str, info: FieldInfo) -> FormField:
    plain = _plain(info.annotation)
    choices = ("true", "false") if plain is bool and info.default is None else _choices(plain)
    completes = next((mark.kind for mark in info.metadata if isinstance(mark, Completes)), None)
    return FormField(
        name=name,
        description=info.description or "",
        kind=_kind(plain, info, choices),
        is_required=info.is_required(),
        default=_default(info),
        choices=choices,
        completes=completes or _completes_inside(info.annotation),
    )


def _kind(plain: Any, info: FieldInfo, choices: tuple[str, ...]) -> Kind:  # noqa: ANN401 - any annotation
    if choices:
        return Kind.CHOICE
    if plain is bool:
        return Kind.SWITCH
    if plain is SecretStr:
        return Kind.SECRET
    if get_origin(plain) in {list, tuple, set, frozenset}:
        return Kind.ITEMS
    if get_origin(plain) is dict or plain in {dict, Any} or _is_model(plain):
        return Kind.JSON
    is_long = any(isinstance(mark, MaxLen) and mark.max_length > LONG_TEXT_CHARS for mark in info.metadata)
    return Kind.LONG_TEXT if is_long else Kind.TEXT


def _plain(annotation: Any) -> Any:  # noqa: ANN401 - any annotation
    """Without `| None` and without marks."""
    if get_origin(annotation) in {Union, types.UnionType}:
        rest = [each for each in get_args(annotation) if each is not type(None)]
        return _plain(rest[0]) if len(rest) == 1 else str
    if hasattr(annotation, "__metadata__"):
        return _plain(get_args(annotation)[0])
    return annotation


def _completes_inside(annotation: Any) -> str | None:  # noqa: ANN401 - any annotation
    """The mark of a type that stands inside `| None` or a list."""
    for mark in getattr(annotation, "__metadata__", ()):
        if isinstance(mark, Completes):
            return mark.kind
    found = (_completes_inside(each) for each in get_args(annotation))
    return next((kind for kind in found if kind), None)


def _choices(plain: Any) -> tuple[str, ...]:  # noqa: ANN401 - any annotation
    if isinstance(plain, type) and issubclass(plain, Enum):
        return tuple(str(each.value) for each in plain)
    return tuple(map(str, get_args(plain))) if get_origin(plain) is Literal else ()


def _default(info: FieldInfo) -> Any:  # noqa: ANN401 - any JSON value
    default = info.get_default(call_default_factory=True, validated_data={})
    if default is PydanticUndefined or default is None or isinstance(default, SecretStr):
        return None
    if isinstance(default, Enum):
        return default.value
    if isinstance(default, BaseModel):
        return default.model_dump(mode="json")
    return list(default) if isinstance(default, (tuple, set, frozenset)) else default


def _is_model(plain: Any) -> bool:  # noqa: ANN401 - any annotation
    return isinstance(plain, type) and issubclass(plain, BaseModel)


def _parsed(field: FormField, value: bool | str) -> Any:  # noqa: ANN401, FBT001 - any JSON value, of a switch or a text
    """As JSON where the field is made of it; what is no JSON goes on as text and is refused by the operation."""
    if isinstance(value, bool) or field.kind not in {Kind.ITEMS, Kind.JSON}:
        return value
    if field.kind is Kind.ITEMS and not value.lstrip().startswith("["):
        return [part.strip() for part in value.split(",") if part.strip()]
    try:
        return decode_json(value)
    except ValueError:
        return value
