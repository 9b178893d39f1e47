"""Libraries of the extra `schema`, loaded at their first use: a broker without them serves the simple formats."""

import importlib
from types import ModuleType
from typing import Any

from danube.model.errors import MissingLibraryError
from danube.model.text import install_text


def library(name: str, purpose: str) -> Any:  # noqa: ANN401 - a module that may be absent
    """Module `name`. Raises MissingLibraryError that says how to install it."""
    try:
        module: ModuleType = importlib.import_module(name)
    except ImportError as error:
        raise MissingLibraryError(
            f"{purpose} needs the library {name}: install it with {install_text('schema')}, then "
            "start this program again"
        ) from error
    return module
