"""One frozen pydantic model per process from defaults, a file, `DANUBE_*` variables and flags, the later winning.

Knows where each value came from. An unknown key is an error that names the nearest known one. A field that is a model
itself is a group: its settings are `group.name` here, nested in the file, and `DANUBE_GROUP_NAME` in the environment.
"""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar, get_args, get_origin

import yaml
from pydantic import BaseModel, SecretStr, ValidationError
from pydantic.fields import FieldInfo

from danube.model.errors import SettingsError
from danube.runtime.paths import named_path

S = TypeVar("S", bound=BaseModel)

ENVIRONMENT_PREFIX = "DANUBE_"
_NEAR = 0.85  # a variable this like a known one is a slip of the pen; others belong to other commands


@dataclass(frozen=True, slots=True)
class Loaded(Generic[S]):
    """Settings, and for each field what set it: "default", a file's path, a variable's name or a flag."""

    settings: S
    origins: Mapping[str, str]
    warnings: tuple[str, ...] = ()
    """Sentences on settings that were asked for and are left out."""


def fields_of(model: type[BaseModel], prefix: str = "") -> dict[str, FieldInfo]:
    """Every setting of a model by its key, those of groups among them."""
    found: dict[str, FieldInfo] = {}
    for name, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            found |= fields_of(field.annotation, f"{prefix}{name}.")
        else:
            found[prefix + name] = field
    return found


def values_of(settings: BaseModel) -> dict[str, Any]:
    """Every setting's value by its key, as JSON has it; secrets are stars."""
    return leaves(settings.model_dump(mode="json"), [key for key in fields_of(type(settings)) if "." in key])


def leaves(content: Mapping[str, Any], grouped: Sequence[str]) -> dict[str, Any]:
    """Nested keys as `group.name`, of the groups that these keys are of."""
    groups = {key.partition(".")[0] for key in grouped}
    found: dict[str, Any] = {}
    for key, value in content.items():
        if key in groups and isinstance(value, Mapping):
            found |= {f"{key}.{name}": each for name, each in value.items()}
        else:
            found[key] = value
    return found


def load_settings(
    model: type[S], *, file: Mapping[str, Any], file_name: str, environment: Mapping[str, str], flags: Mapping[str, Any]
) -> Loaded[S]:
    """Merge the sources and check the result.

    Args:
        model: the settings; its field names are the keys of the file, and with the prefix those of the environment.
        file: the file's keys and values, empty without a file.
        file_name: how to name that file in messages.
        environment: the process's variables.
        flags: what the command line set; a None value counts as not set.

    Raises:
        SettingsError: an unknown key, or a value that the model refuses.
    """
    fields = fields_of(model)
    known = sorted(fields)
    values: dict[str, Any] = {}
    origins = dict.fromkeys(known, "default")
    for key, value in leaves(file, known).items():
        if key not in known:
            raise SettingsError(f"{file_name}: there is no setting {key!r}{_nearest(key, known)}")
        values[key], origins[key] = value, file_name
    for variable, key in _variables(environment, known).items():
        text = environment[variable]
        values[key], origins[key] = _from_text(text, fields[key].annotation), variable
    for key, value in flags.items():
        if value is not None:
            values[key], origins[key] = value, f"--{key.replace('_', '-').replace('.', '-')}"
    paths = {key: value for key, value in values.items() if Path in _types_of(fields[key].annotation)}
    for key, value in paths.items():
        if isinstance(value, str):
            values[key] = named_path(value, f"{key} ({origins[key]})")
    try:
        return Loaded(model.model_validate(_nested(values)), origins)
    except ValidationError as error:
        raise SettingsError(_explain(error, origins, fields)) from None


def read_settings_file(path: Path) -> dict[str, Any]:
    """The keys and values of a YAML file. Raises SettingsError when it cannot be read or is no mapping."""
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"cannot read the settings file {path}: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} is not valid YAML: {error}") from None
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise SettingsError(f"{path} must hold settings as `key: value` lines")
    return {str(key): value for key, value in content.items()}


def variable_of(key: str) -> str:
    """The environment's name of a setting."""
    return ENVIRONMENT_PREFIX + key.upper().replace(".", "_")


def _nested(values: Mapping[str, Any]) -> dict[str, Any]:
    nested: dict[str, Any] = {}
    for key, value in values.items():
        group, separator, name = key.partition(".")
        if separator:
            nested.setdefault(group, {})[name] = value
        else:
            nested[key] = value
    return nested


def _variables(environment: Mapping[str, str], known: list[str]) -> dict[str, str]:
    names = {variable_of(key): key for key in known}
    for variable in environment:
        if not variable.startswith(ENVIRONMENT_PREFIX) or variable in names:
            continue
        near = difflib.get_close_matches(variable, names, n=1, cutoff=_NEAR)
        if near:
            raise SettingsError(f"there is no setting for the variable {variable}: did you mean {near[0]}?")
    return {variable: key for variable, key in names.items() if variable in environment}


def _from_text(text: str, annotation: Any) -> Any:  # noqa: ANN401 - a setting can be of any type
    """A variable's text as the model can take it: only lists need help, written with commas."""
    return tuple(filter(None, text.split(","))) if get_origin(annotation) is tuple else text


def _nearest(key: str, known: list[str]) -> str:
    near = difflib.get_close_matches(key, known, n=1, cutoff=0.4)
    return f": did you mean {near[0]!r}?" if near else f"; known are {', '.join(known)}"


def _explain(error: ValidationError, origins: Mapping[str, str], fields: Mapping[str, FieldInfo]) -> str:
    first = error.errors(include_url=False)[0]
    parts = [str(part) for part in first["loc"]]
    key = ".".join(parts) or "settings"
    reason = first["msg"].removeprefix("Value error, ")
    named = next((name for name in (".".join(parts[:2]), *parts[:1]) if name in fields), None)
    if named is None:  # what is wrong is how several settings go together
        return reason
    given = "***" if SecretStr in _types_of(fields[named].annotation) else repr(first["input"])
    return f"{key} ({origins[named]}) is {given}: {reason}"


def _types_of(annotation: Any) -> tuple[Any, ...]:  # noqa: ANN401 - an annotation can be anything
    return get_args(annotation) or (annotation,)
