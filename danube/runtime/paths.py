"""Paths as people write them: `~` is a home folder wherever no shell has expanded it, as in `--data-dir=~/data`."""

import os.path
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")


def expanded(value: T) -> T:
    """A path with the home folder for its `~`; one of a user that there is not, and any other value, as it is.

    Also the callback of each flag that takes a path.
    """
    if not isinstance(value, Path):
        return value
    return type(value)(os.path.expanduser(value))  # noqa: PTH111 - Path.expanduser raises for an unknown user
