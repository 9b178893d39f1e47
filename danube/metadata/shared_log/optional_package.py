"""Clients of services are installed on request: what is not there is asked for by its name."""

import importlib
from typing import Any

from danube.model.errors import SettingsError


def import_extra(module: str, extra: str) -> Any:  # noqa: ANN401 - a module without types
    """The module. Raises SettingsError that names the extra when it is not installed."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise SettingsError(
            f"metadata in {extra} needs a package that is not installed: pip install 'danube-messaging[{extra}]'"
        ) from error
