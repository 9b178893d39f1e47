"""Paths as people write them: `~` is a home folder wherever no shell has expanded it, as in `--data-dir=~/data`."""

import os.path
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

from danube.model.errors import SettingsError

T = TypeVar("T")


def expanded(value: T) -> T:
    """A path with the home folder for its `~`; one of a user that there is not, and any other value, as it is.

    Also the callback of each flag that takes a path.
    """
    if not isinstance(value, Path):
        return value
    return type(value)(os.path.expanduser(value))  # noqa: PTH111 - Path.expanduser raises for an unknown user


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
