"""Parameters of an operation as arguments and options of a command, and what was typed back as parameters."""

import re
import types
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from inspect import Parameter
from typing import Annotated, Any, Union, get_args, get_origin

import typer
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from danube.admin.execution import parse_arguments
from danube.admin.operations.fields import Completes, Opposite, PageParams, Params
from danube.admin.operations.operation import AnyOperation
from danube.model.errors import InvalidRequestError
from danube.model.untrusted_json import decode_json

Complete = Callable[[str], Callable[..., list[str]]]
"""Makes the completion of a kind of name."""

NAMESPACE = "namespace"
_METAVAR_CHARS_MAX = 60
"""Words of a longer choice are left to completion, and to the error that lists them."""
_SHORT = {"subscription": "-s"}
"""As in the original."""


@dataclass(frozen=True, slots=True)
class Field:
    """One parameter, as far as a command line cares."""

    name: str
    info: FieldInfo
    kind: type
    """Of one value: bool, int, float, str, an enum, or dict for anything else, which is typed as JSON."""
    is_list: bool
    metadata: tuple[Any, ...]

    @property
    def word(self) -> str:
        """As an option."""
        return f"--{self.name.replace('_', '-')}"

    @property
    def completes(self) -> str | None:
        """The kind of name that completes it."""
        return next((each.kind for each in self.metadata if isinstance(each, Completes)), None)

    @property
    def opposite(self) -> str:
        """The option, without its dashes, that says no where this one says yes."""
        return next((each.word for each in self.metadata if isinstance(each, Opposite)), f"no-{self.word[2:]}")

    @property
    def choices(self) -> list[str]:
        """The values of an enum; none for anything else."""
        return [str(each.value) for each in self.kind] if issubclass(self.kind, StrEnum) else []

    def bound(self, *names: str) -> float | None:
        """A bound of a number, by the names that pydantic has for it."""
        return next((getattr(each, name) for each in self.metadata for name in names if hasattr(each, name)), None)


def fields_of(operation: AnyOperation) -> dict[str, Field]:
    """Every parameter in its order, those of every listing last."""
    ordered = sorted(operation.params.model_fields.items(), key=lambda item: item[0] in PageParams.model_fields)
    return {name: _field(name, info) for name, info in ordered}


def takes_namespace(operation: AnyOperation) -> bool:
    """Whether `--namespace` may stand beside the bare name of a topic."""
    fields = fields_of(operation)
    return NAMESPACE not in fields and any(field.completes == "topic" for field in fields.values())


def parameters_of(operation: AnyOperation, complete: Complete) -> list[Parameter]:
    """The parameters of a function that Typer makes a command of; arguments first, in their order."""
    fields = fields_of(operation)
    arguments = [_argument(fields[name], complete) for name in operation.positional]
    options = [_option(field, complete) for name, field in fields.items() if name not in operation.positional]
    if takes_namespace(operation):
        options.append(_namespace(complete))
    return arguments + options


def parsed(operation: AnyOperation, typed: dict[str, Any]) -> Params:
    """What was typed as parameters. Raises InvalidRequestError, which names what is wrong as it is typed."""
    try:
        return parse_arguments(operation, _arguments(operation, typed))
    except InvalidRequestError as error:
        raise InvalidRequestError(_as_typed(operation, str(error))) from None


def _arguments(operation: AnyOperation, typed: dict[str, Any]) -> dict[str, Any]:
    """By the names of the parameters; what was not given is left out, for the model has the default."""
    found = {}
    for name, field in fields_of(operation).items():
        value = typed.get(name)
        if value is None or (field.is_list and not value):
            continue
        found[name] = _from_json(field, value) if field.kind is dict else value
        if field.completes == "topic" and isinstance(value, str):
            found[name] = _whole_name(value, typed.get(NAMESPACE) if takes_namespace(operation) else None)
    return found


def _as_typed(operation: AnyOperation, text: str) -> str:
    text = text.removeprefix(f"{operation.name}: ")
    for name, field in fields_of(operation).items():
        word = name.upper() if name in operation.positional else field.word
        text = re.sub(rf"(^|; ){name}(\.\d+)?: (Value error, )?", rf"\g<1>{word}: ", text)
    return text.removeprefix("Value error, ")


def _whole_name(name: str, namespace: str | None) -> str:
    if "/" in name:
        return name
    if namespace is None:
        raise InvalidRequestError(f"{name} lacks its namespace: write /default/{name}, or add --namespace default")
    return f"/{namespace.removeprefix('/')}/{name}"


def _field(name: str, info: FieldInfo) -> Field:
    kind, metadata = _unwrapped(info.annotation)
    metadata += tuple(info.metadata)
    is_list = get_origin(kind) in {list, tuple, set, frozenset}
    if is_list:
        kind, inner = _unwrapped(get_args(kind)[0])
        metadata += inner
    known = isinstance(kind, type) and issubclass(kind, bool | int | float | str)
    if isinstance(kind, type) and kind.__name__ == "SecretStr":
        known, kind = True, str
    return Field(name, info, kind if known else dict, is_list and known, metadata)


def _unwrapped(annotation: Any) -> tuple[Any, tuple[Any, ...]]:  # noqa: ANN401 - types are values here
    """The type within `Annotated` and `| None`, and what was annotated."""
    metadata: tuple[Any, ...] = ()
    while True:
        if get_origin(annotation) is Annotated:
            annotation, *found = get_args(annotation)
            metadata += tuple(found)
            continue
        if get_origin(annotation) in {Union, types.UnionType}:
            rest = [each for each in get_args(annotation) if each is not type(None)]
            if len(rest) == 1:
                annotation = rest[0]
                continue
        return annotation, metadata


def _argument(field: Field, complete: Complete) -> Parameter:
    info = typer.Argument(
        help=field.info.description,
        metavar=field.name.upper(),
        show_default=False,
        autocompletion=_completion(field, complete),
    )
    is_required = field.info.is_required()
    annotation = list[_typed(field)] if field.is_list else _typed(field)  # type: ignore[misc]
    return _parameter(field.name, annotation, info, is_required=is_required)


def _option(field: Field, complete: Complete) -> Parameter:
    short = [_SHORT[field.name]] if field.name in _SHORT else []
    word = f"{field.word}/--{field.opposite}" if field.kind is bool and _default(field) is not False else field.word
    info = typer.Option(
        *short,
        word,
        help=_help(field),
        metavar=_metavar(field),
        show_default=False,
        min=field.bound("ge", "gt"),
        max=field.bound("le", "lt"),
        autocompletion=_completion(field, complete),
    )
    annotation = list[_typed(field)] if field.is_list else _typed(field)  # type: ignore[misc]
    return _parameter(field.name, annotation, info, is_required=field.info.is_required())


def _namespace(complete: Complete) -> Parameter:
    info = typer.Option(
        f"--{NAMESPACE}",
        help="The namespace of a topic that is given by its bare name.",
        metavar=NAMESPACE.upper(),
        autocompletion=complete(NAMESPACE),
    )
    return _parameter(NAMESPACE, str, info, is_required=False)


def _parameter(name: str, annotation: Any, info: Any, *, is_required: bool) -> Parameter:  # noqa: ANN401 - as above
    """Not given is None: the model has the default."""
    whole = annotation if is_required else annotation | None
    default = Parameter.empty if is_required else None
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[whole, info])


def _typed(field: Field) -> Any:  # noqa: ANN401 - as above
    """What Typer reads a value as; words of an enum are left to the model, which knows the original's too."""
    return field.kind if field.kind in {bool, int, float} else str


def _metavar(field: Field) -> str | None:
    if field.choices:
        words = "|".join(field.choices)
        return words if len(words) <= _METAVAR_CHARS_MAX else "NAME"
    if field.kind is bool:
        return None
    if field.kind is dict:
        return "JSON"
    return {int: "N", float: "NUMBER"}.get(field.kind, field.name.rpartition("_")[2].upper())


def _default(field: Field) -> object:
    default = field.info.get_default(call_default_factory=True) if not field.info.is_required() else None
    return None if default is PydanticUndefined else default


def _help(field: Field) -> str:
    """The description, and the default where it tells something."""
    default = _default(field)
    if default is None or default is False or default in ([], (), {}, ""):
        return field.info.description or ""
    text = default.value if isinstance(default, StrEnum) else "yes" if default is True else default
    return f"{field.info.description} Default: {text}."


def _completion(field: Field, complete: Complete) -> Callable[..., list[str]] | None:
    if field.choices:
        choices = field.choices
        return lambda: choices
    return complete(field.completes) if field.completes else None


def _from_json(field: Field, text: str) -> Any:  # noqa: ANN401 - whatever the parameter takes
    try:
        return decode_json(text)
    except ValueError as error:
        raise InvalidRequestError(f"{field.word} is no JSON: {error}") from None
