"""Parameters of an operation as arguments and options of a command, and what was typed back as parameters."""

import re
from collections.abc import Callable
from inspect import Parameter
from pathlib import Path
from typing import Annotated, Any

import typer

from danube.admin.execution import parse_arguments
from danube.admin.operations.fields import FieldKind, FieldSpec, Params, field_specs
from danube.admin.operations.operation import AnyOperation
from danube.model.errors import InvalidRequestError
from danube.model.untrusted_json import decode_json
from danube.runtime.paths import expanded

Complete = Callable[[str], Callable[..., list[str]]]
"""Makes the completion of a kind of name."""

NAMESPACE = "namespace"
_METAVAR_CHARS_MAX = 60
"""Words of a longer choice are left to completion, and to the error that lists them."""
DEFINITION, FILE = "definition", "file"
_SHORT = {"subscription": "-s"}
"""As in the original."""
_ORIGINAL = {DEFINITION: "--schema", "schema_subject": "--subject", "validation_policy": "--policy"}
"""The original's words for an option, where they are others: both are taken."""


def fields_of(operation: AnyOperation) -> dict[str, FieldSpec]:
    """Every parameter in its order, those of every listing last."""
    return {spec.name: spec for spec in sorted(field_specs(operation.params), key=lambda spec: spec.is_paging)}


def takes_namespace(operation: AnyOperation) -> bool:
    """True if `--namespace` may stand beside the bare name of a topic."""
    fields = fields_of(operation)
    return NAMESPACE not in fields and any(field.completes == "topic" for field in fields.values())


def parameters_of(operation: AnyOperation, complete: Complete) -> list[Parameter]:
    """The parameters of a function that Typer makes a command of; arguments first, in their order."""
    fields = fields_of(operation)
    arguments = [_argument(fields[name], complete) for name in operation.positional]
    options = [_option(field, complete) for name, field in fields.items() if name not in operation.positional]
    if DEFINITION in fields:
        file = typer.Option(help="A file with the definition, in place of its text.", metavar="PATH")
        options.append(_parameter(FILE, str, file, is_required=False))
    if takes_namespace(operation):
        options.append(_namespace(complete))
    return arguments + options


def parsed(operation: AnyOperation, typed: dict[str, Any]) -> Params:
    """The typed words as parameters. Raises InvalidRequestError, which names what is wrong as it is typed."""
    try:
        return parse_arguments(operation, _arguments(operation, typed))
    except InvalidRequestError as error:
        raise InvalidRequestError(_as_typed(operation, str(error))) from None


def _arguments(operation: AnyOperation, typed: dict[str, Any]) -> dict[str, Any]:
    """By the names of the parameters; what was not given is left out, for the model has the default."""
    found = {}
    for name, field in fields_of(operation).items():
        value = typed.get(name) if name != DEFINITION else _definition(typed)
        if value is None or (field.kind is FieldKind.LIST and not value):
            continue
        found[name] = _from_json(field, value) if field.type is dict else value
        if field.kind is FieldKind.LONG_TEXT and isinstance(value, str) and value.startswith("@"):
            found[name] = _content(field, value[1:])
        if field.completes == "topic" and isinstance(value, str):
            found[name] = _whole_name(value, typed.get(NAMESPACE) if takes_namespace(operation) else None)
    return found


def _definition(typed: dict[str, Any]) -> str | None:
    text, file = typed.get(DEFINITION), typed.get(FILE)
    if text is not None and file is not None:
        raise InvalidRequestError(f"a definition is given once: leave out --{DEFINITION} or --{FILE}")
    return text if file is None else f"@{file}"


def _as_typed(operation: AnyOperation, text: str) -> str:
    text = text.removeprefix(f"{operation.name}: ")
    for name, field in fields_of(operation).items():
        word = name.upper() if name in operation.positional else field.option
        text = re.sub(rf"(^|; ){name}(\.\d+)?: (Value error, )?", rf"\g<1>{word}: ", text)
    return text.removeprefix("Value error, ")


def _whole_name(name: str, namespace: str | None) -> str:
    if "/" in name:
        return name
    if namespace is None:
        raise InvalidRequestError(f"{name} lacks its namespace: write /default/{name}, or add --namespace default")
    return f"/{namespace.removeprefix('/')}/{name}"


def _argument(field: FieldSpec, complete: Complete) -> Parameter:
    info = typer.Argument(
        help=field.description,
        metavar=field.name.upper(),
        show_default=False,
        autocompletion=_completion(field, complete),
    )
    return _parameter(field.name, _annotation(field), info, is_required=field.is_required)


def _option(field: FieldSpec, complete: Complete) -> Parameter:
    short = [_SHORT[field.name]] if field.name in _SHORT else []
    word = (
        f"{field.option}/--{field.opposite}"
        if field.type is bool and field.kind is not FieldKind.SWITCH
        else field.option
    )
    original = [_ORIGINAL[field.name]] if field.name in _ORIGINAL else []
    info = typer.Option(
        *short,
        word,
        *original,
        help=_help(field),
        metavar=_metavar(field),
        show_default=False,
        min=field.minimum if field.has_own_bounds else None,
        max=field.maximum if field.has_own_bounds else None,
        autocompletion=_completion(field, complete),
    )
    return _parameter(field.name, _annotation(field), info, is_required=field.is_required and field.name != DEFINITION)


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


def _annotation(field: FieldSpec) -> Any:  # noqa: ANN401 - as above
    """The type that Typer reads; words of an enum are left to the model, which knows the original's too."""
    one = field.type if field.type in {bool, int, float} else str
    return list[one] if field.kind is FieldKind.LIST and field.type is not dict else one  # type: ignore[valid-type]


def _metavar(field: FieldSpec) -> str | None:
    if field.type is bool:
        return None
    if field.measured:
        return field.measured
    if field.choices:
        words = "|".join(field.choices)
        return words if len(words) <= _METAVAR_CHARS_MAX else "NAME"
    return {int: "N", float: "NUMBER", dict: "JSON"}.get(field.type, field.name.rpartition("_")[2].upper())


def _help(field: FieldSpec) -> str:
    """The description, and the default where it tells something."""
    if (not field.default and field.default != 0) or field.default is False:
        return field.description
    text = "yes" if field.default is True else field.default
    return f"{field.description} Default: {text}."


def _completion(field: FieldSpec, complete: Complete) -> Callable[..., list[str]] | None:
    if field.choices and field.type is not bool:
        return lambda: list(field.choices)
    return complete(field.completes) if field.completes else None


def _content(field: FieldSpec, path: str) -> str:
    try:
        return expanded(Path(path)).read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no UTF-8"
        raise InvalidRequestError(f"{field.option}: {path} cannot be read ({reason}): check the path") from None


def _from_json(field: FieldSpec, text: str) -> Any:  # noqa: ANN401 - whatever the parameter takes
    try:
        return decode_json(text)
    except ValueError as error:
        raise InvalidRequestError(f"{field.option} is no JSON: {error}") from None
