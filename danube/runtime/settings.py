"""One frozen pydantic model per process from defaults, a file, `DANUBE_*` variables and flags, the later winning.

Knows where each value came from. An unknown key is an error that names the nearest known one.
"""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar, get_origin

import yaml
from pydantic import BaseModel, ValidationError

from danube.model.errors import SettingsError

S = TypeVar("S", bound=BaseModel)

ENVIRONMENT_PREFIX = "DANUBE_"
_NEAR = 0.85  # a variable this like a known one is a slip of the pen; others belong to other commands


@dataclass(frozen=True, slots=True)
class Loaded(Generic[S]):
    """Settings, and for each field what set it: "default", a file's path, a variable's name or a flag."""

    settings: S
    origins: Mapping[str, str]


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
    known = sorted(model.model_fields)
    values: dict[str, Any] = {}
    origins = dict.fromkeys(known, "default")
    for key, value in file.items():
        if key not in known:
            raise SettingsError(f"{file_name}: there is no setting {key!r}{_nearest(key, known)}")
        values[key], origins[key] = value, file_name
    for variable, key in _variables(environment, known).items():
        text = environment[variable]
        values[key], origins[key] = _from_text(text, model.model_fields[key].annotation), variable
    for key, value in flags.items():
        if value is not None:
            values[key], origins[key] = value, f"--{key.replace('_', '-')}"
    try:
        return Loaded(model.model_validate(values), origins)
    except ValidationError as error:
        raise SettingsError(_explain(error, origins)) from None


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


def _variables(environment: Mapping[str, str], known: list[str]) -> dict[str, str]:
    names = {ENVIRONMENT_PREFIX + key.upper(): key for key in known}
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


def _explain(error: ValidationError, origins: Mapping[str, str]) -> str:
    first = error.errors(include_url=False)[0]
    key = ".".join(str(part) for part in first["loc"]) or "settings"
    reason = first["msg"].removeprefix("Value error, ")
    origin = origins.get(key.partition(".")[0], "default")
    return f"{key} ({origin}) is {first['input']!r}: {reason}"
