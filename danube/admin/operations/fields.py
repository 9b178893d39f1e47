"""Parameters and results of operations: their types, marks on their fields, and each field as a face shows it."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum
from functools import cache
from types import UnionType
from typing import Annotated, Any, Literal, Self, TypeVar, Union, get_args, get_origin

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    SecretStr,
    StringConstraints,
    WithJsonSchema,
)
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from danube.model.errors import InvalidRequestError
from danube.model.limits.broker import LIST_ROWS_MAX
from danube.model.limits.faces import CURSOR_CHARS_MAX
from danube.model.text import json_number, seconds_of, size_bytes, span_ms, span_s
from danube.model.topic import TopicName, check_name_part


class Params(BaseModel):
    """Parameters of an operation. An argument that it does not know is refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class Result(BaseModel):
    """The answer of an operation."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    @classmethod
    def of(cls, *sources: object, **own: Any) -> Self:  # noqa: ANN401 - any field
        """The result whose fields are those of domain values, by their names; `own` are the others.

        The first source that has a field counts. A source of None is unknown, and so is every field that no other has.
        """
        found = {}
        for name in cls.model_fields.keys() - own.keys():
            known = next((each for each in sources if hasattr(each, name)), None)
            if known is not None or None in sources:
                found[name] = getattr(known, name, None)
        return cls.model_validate({**found, **own})

    def words(self) -> Mapping[str, str]:
        """Texts that people read in place of values of some fields, by the names of these."""
        return {}

    def remarks(self) -> tuple[str, ...]:
        """Sentences that a person should read with it, beside its fields."""
        return ()


@dataclass(frozen=True, slots=True)
class Volatile:
    """Marks a field that differs between two calls on the same cluster: a time, an id, a rate."""


@dataclass(frozen=True, slots=True)
class Wide:
    """Marks a field that a narrow table leaves out."""


@dataclass(frozen=True, slots=True)
class IfKnown:
    """Marks a field that a narrow view shows only where it has a value."""


@dataclass(frozen=True, slots=True)
class Detail:
    """Marks a sentence of a row that stands below the table instead of in it, and only where details are asked for."""


@dataclass(frozen=True, slots=True)
class ShownOnce:
    """Marks a secret: a page shows it once, and not again when it is read anew."""


@dataclass(frozen=True, slots=True)
class Completes:
    """Marks a parameter whose values a shell, a form or a host can complete: `topic`, `namespace`, `broker`,
    `node`, `subscription`, `plan` or `run`.
    """

    kind: str


@dataclass(frozen=True, slots=True)
class ToolName:
    """Marks the name of an operation: assistants see it as it is, others the words that the row has for it."""


@dataclass(frozen=True, slots=True)
class Opposite:
    """Marks a truth value whose no has a word of its own on the command line, instead of `no-` and its name."""

    word: str


def spelled(others: Mapping[str, str]) -> BeforeValidator:
    """Accepts a word in upper case too, and `others` for the words that they stand for."""
    return BeforeValidator(lambda word: others.get(word.lower(), word.lower()) if isinstance(word, str) else word)


@dataclass(frozen=True, slots=True)
class Measured:
    """Marks a number that people may type with its unit: faces ask for text."""

    word: str
    """In place of the value in a usage line."""


def _measured(read: Callable[[str], float]) -> BeforeValidator:
    def number(given: object) -> object:
        try:
            return read(given) if isinstance(given, str) else given
        except InvalidRequestError as error:
            raise ValueError(str(error)) from None

    return BeforeValidator(number)


VOLATILE = Volatile()
WIDE = Wide()
DETAIL = Detail()
TOOL_NAME = ToolName()
SHOWN_ONCE = ShownOnce()
IF_KNOWN = IfKnown()

Int64 = Annotated[
    int,
    PlainSerializer(json_number, when_used="json"),
    WithJsonSchema({"type": ["integer", "string"]}, mode="serialization"),
]
"""A number that a client chose, up to 64 bits: text in JSON where most readers of JSON would round it."""
Id64 = Annotated[int, PlainSerializer(str, when_used="json"), WithJsonSchema({"type": "string"}, mode="serialization")]
"""An id of 64 bits: always text in JSON, see `json_number`."""

_NUMBER_OR_TEXT = WithJsonSchema({"type": ["integer", "string"]}, mode="validation")
GivenId = Annotated[int, _NUMBER_OR_TEXT]
"""An `Id64` as a parameter: text as answers have it, or a number."""
SpanS = Annotated[int, _measured(span_s), _NUMBER_OR_TEXT, Measured("DURATION")]
"""Seconds, which may be typed as `90s`, `1h30m` or `7d`."""
ShortS = Annotated[float, _measured(seconds_of), _NUMBER_OR_TEXT, Measured("DURATION")]
"""Seconds and parts of one."""
SpanMs = Annotated[int, _measured(span_ms), _NUMBER_OR_TEXT, Measured("DURATION")]
"""Milliseconds, which may be typed with their unit, too."""
SizeB = Annotated[int, _measured(size_bytes), _NUMBER_OR_TEXT, Measured("SIZE")]
"""Bytes, which may be typed as `512KiB` or `10GiB`."""

Millis = Annotated[int, Field(description="Milliseconds since the epoch."), VOLATILE]


def _topic_text(text: str) -> str:
    return str(TopicName.parse(text if text.startswith("/") else f"/{text}"))


def _namespace_text(text: str) -> str:
    return check_name_part("namespace", text.removeprefix("/"))


TopicText = Annotated[
    str, StringConstraints(min_length=1, max_length=600), AfterValidator(_topic_text), Completes("topic")
]
"""`/namespace/topic`; `namespace/topic` is taken for it. Anything else raises InvalidNameError."""
NamespaceText = Annotated[
    str, StringConstraints(min_length=1, max_length=300), AfterValidator(_namespace_text), Completes("namespace")
]
"""A namespace; one slash before it is taken away, as the original's administrators write it."""
BrokerText = Annotated[str, StringConstraints(min_length=1, max_length=300), Completes("broker")]
"""A broker by its name, `host:port`, or by its id: operations are called with the id."""
SubscriptionText = Annotated[str, StringConstraints(min_length=1, max_length=300), Completes("subscription")]


class PageParams(Params):
    """Parameters of a listing."""

    limit: int | None = Field(default=None, ge=1, le=LIST_ROWS_MAX, description="Maximum rows (default: all).")
    cursor: str | None = Field(
        default=None,
        max_length=CURSOR_CHARS_MAX,
        description="`next_cursor` of the page before; the first page without it.",
    )


class PageResult(Result):
    """A page of rows."""

    total: int = Field(default=0, description="Rows there are, on whatever page.")
    next_cursor: str | None = Field(default=None, description="Ask for the next page with it; null on the last one.")


NotAnswered = Annotated[
    list[str],
    IF_KNOWN,
    Field(description="Brokers that did not answer, with the reason: what they know is missing."),
]
"""Of a result about the cluster."""


Number = TypeVar("Number", int, float)


def sum_known(values: Iterable[Number | None]) -> Number | None:
    """The sum of what is known; None where nothing is."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def marks(model: type[BaseModel], mark: type[Any]) -> frozenset[str]:
    """The names of a model's fields that carry a mark of this type."""
    return frozenset(
        name for name, info in model.model_fields.items() if any(isinstance(each, mark) for each in info.metadata)
    )


def row_type(model: type[BaseModel], name: str) -> type[BaseModel] | None:
    """The row type of a field `list[Row]`: an empty table has columns too."""
    arguments = getattr(model.model_fields[name].annotation, "__args__", ()) if name in model.model_fields else ()
    found = arguments[0] if arguments else None
    return found if isinstance(found, type) and issubclass(found, BaseModel) else None


class FieldKind(StrEnum):
    """The way that a form asks for a parameter."""

    TEXT = "text"
    LONG_TEXT = "long_text"
    """May be longer than LONG_TEXT_CHARS, and gets several lines."""
    SECRET = "secret"  # noqa: S105 - a kind of field, not a secret
    NUMBER = "number"
    CHOICE = "choice"
    SWITCH = "switch"
    """False unless it is ticked."""
    LIST = "list"
    JSON = "json"


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldSpec:
    """One parameter of an operation, as every face shows and reads it."""

    name: str
    description: str
    kind: FieldKind
    type: type
    """Of one value: bool, int, float or str; dict for what is typed as JSON."""
    is_required: bool
    default: Any = None
    """As a JSON value; None when it is left out."""
    choices: tuple[str, ...] = ()
    minimum: float | None = None
    maximum: float | None = None
    has_own_bounds: bool = False
    """They are of the field itself; those of its type are wide, and help texts leave them out."""
    chars_max: int | None = None
    measured: str = ""
    """Of a number that may be typed with its unit: the word for its value in a usage line."""
    completes: str | None = None
    """The kind of name in the cluster that its values are, see `Completes`."""
    opposite: str
    """The word that says no on the command line, where the name says yes."""

    @property
    def option(self) -> str:
        """The parameter on the command line."""
        return f"--{self.name.replace('_', '-')}"

    @property
    def is_paging(self) -> bool:
        """True if every listing has it."""
        return self.name in PageParams.model_fields


LONG_TEXT_CHARS = 4_000


def field_specs(params: type[Params]) -> tuple[FieldSpec, ...]:
    """The parameters of an operation, in the order of their declaration."""
    return _specs(params)


@cache  # bounded by the operations there are; a web page asks for them once for each row
def _specs(params: type[Params]) -> tuple[FieldSpec, ...]:
    return tuple(_spec(name, info) for name, info in params.model_fields.items())


def _spec(name: str, info: FieldInfo) -> FieldSpec:
    annotation, marks = _unwrapped(info.annotation)
    marks += tuple(info.metadata)
    is_list = get_origin(annotation) in {list, tuple, set, frozenset}
    of_list: tuple[Any, ...] = ()
    if is_list:
        annotation, of_list = _unwrapped(get_args(annotation)[0])
    choices, kind, value_type = _kind(annotation)
    default = _default(info)
    measured = next((each.word for each in marks if isinstance(each, Measured)), "")
    if measured:
        kind, value_type = FieldKind.TEXT, str
    if kind is FieldKind.SWITCH and default is not False:
        kind, choices = FieldKind.CHOICE, ("true", "false")
    chars_max = min(_each(marks, "max_length"), default=None) if value_type is str and not is_list else None
    if kind is FieldKind.TEXT and chars_max is not None and chars_max > LONG_TEXT_CHARS:
        kind = FieldKind.LONG_TEXT
    marks += of_list
    return FieldSpec(
        name=name,
        description=info.description or "",
        kind=FieldKind.LIST if is_list else kind,
        type=value_type,
        is_required=info.is_required(),
        default=default,
        choices=choices,
        minimum=None if measured else max((*_each(marks, "ge"), *_each(marks, "gt")), default=None),
        maximum=None if measured else min((*_each(marks, "le"), *_each(marks, "lt")), default=None),
        has_own_bounds=any(hasattr(each, bound) for each in info.metadata for bound in ("ge", "gt", "le", "lt")),
        chars_max=chars_max,
        measured=measured,
        completes=next((each.kind for each in marks if isinstance(each, Completes)), None),
        opposite=next((each.word for each in marks if isinstance(each, Opposite)), f"no-{name.replace('_', '-')}"),
    )


def _kind(annotation: Any) -> tuple[tuple[str, ...], FieldKind, type]:  # noqa: ANN401 - types are values here
    """Choices, kind and type of one value."""
    if get_origin(annotation) is Literal:
        return tuple(map(str, get_args(annotation))), FieldKind.CHOICE, str
    if not isinstance(annotation, type):
        return (), FieldKind.JSON, dict
    if issubclass(annotation, Enum):
        return tuple(str(each.value) for each in annotation), FieldKind.CHOICE, str
    if issubclass(annotation, SecretStr):
        return (), FieldKind.SECRET, str
    for of, kind in _KINDS.items():
        if issubclass(annotation, of):
            return (), kind, of
    return (), FieldKind.JSON, dict


_KINDS = {bool: FieldKind.SWITCH, int: FieldKind.NUMBER, float: FieldKind.NUMBER, str: FieldKind.TEXT}


def _unwrapped(annotation: Any) -> tuple[Any, tuple[Any, ...]]:  # noqa: ANN401 - as above
    """The type within `Annotated` and `| None`, and the marks on it."""
    marks: tuple[Any, ...] = ()
    while True:
        if get_origin(annotation) is Annotated:
            annotation, *found = get_args(annotation)
            marks += tuple(found)
            continue
        rest = [each for each in get_args(annotation) if each is not type(None)]
        if get_origin(annotation) not in {Union, UnionType} or len(rest) != 1:
            return annotation, marks
        annotation = rest[0]


def _each(marks: tuple[Any, ...], bound: str) -> list[Any]:
    """The values of a bound; `Field(ge=1)` within `Annotated` is not taken apart yet."""
    flat = (one for each in marks for one in (each.metadata if isinstance(each, FieldInfo) else (each,)))
    return [found for each in flat if (found := getattr(each, bound, None)) is not None]


def _default(info: FieldInfo) -> Any:  # noqa: ANN401 - any JSON value
    default = info.get_default(call_default_factory=True, validated_data={})
    match default:
        case Enum():
            return default.value
        case BaseModel():
            return default.model_dump(mode="json")
        case tuple() | set() | frozenset():
            return list(default)
        case SecretStr():
            return None
    return None if default is PydanticUndefined else default
