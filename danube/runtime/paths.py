"""Paths as people write them: `~` is a home folder wherever no shell has expanded it, as in `--data-dir=~/data`."""

import os.path
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from danube.model.errors import SettingsError

T = TypeVar("T")


def expanded(value: T) -> T:
    """A path with the home folder for its `~`; one of a user that there is not, and any other value, as it is."""
    if not isinstance(value, Path):
        return value
    return type(value)(os.path.expanduser(value))  # noqa: PTH111 - Path.expanduser raises for an unknown user


def named_path(text: str, setting: str) -> Path:
    """The path that a flag, a variable or a file has for a setting.

    Raises SettingsError for an empty one: as a path that is the working folder, which nobody has named.
    """
    if not text:
        raise SettingsError(f"{setting} is empty: give a path, or leave it out")
    return expanded(Path(text))


def _path_of_flag(_: object, flag: Any, text: str | None) -> Path | None:  # noqa: ANN401 - typer's parameter
    return None if text is None else named_path(str(text), flag.opts[0])


PATH_FLAG: dict[str, Any] = {"path_type": str, "callback": _path_of_flag}
"""For each flag and argument of typer's that takes a path."""


def user_folder(environ: Mapping[str, str], variable: str, below_home: str, *, instead: str = "") -> Path:
    """The folder that an XDG variable names, or else the usual one below the home folder.

    Raises SettingsError where there is no home folder; `instead` is what else helps then.
    """
    if named := environ.get(variable):
        return Path(named)
    try:
        home = environ.get("HOME") or Path.home()
    except RuntimeError:
        raise SettingsError(f"this user has no home folder: {instead}set HOME or {variable}") from None
    return Path(home) / below_home
