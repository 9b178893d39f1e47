"""Danube in Python. Public names are resolved on first use: importing `danube` starts and loads nothing.

The names are those of the published `danube-client` 0.5.0, so an application moves over by changing what it installs,
the exceptions of ours, and `sql`, which queries topics and needs the extra `query`.
"""

import importlib
import os
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from danube.client import *  # those of `__all__`
    from danube.query.asking import sql as sql

    __version__: str

__all__ = [
    "AlreadyExistsError",
    "BrokerUnreachableError",
    "CompatibilityMode",
    "Consumer",
    "ConsumerBuilder",
    "ConsumerOptions",
    "ConsumerReplacedError",
    "DanubeClient",
    "DanubeClientBuilder",
    "DanubeError",
    "DeadlineExceededError",
    "DispatchStrategy",
    "DispatchStrategyMismatchError",
    "InternalError",
    "InvalidNameError",
    "InvalidRequestError",
    "LimitReachedError",
    "LookupError",
    "MessageTooLargeError",
    "NotFoundError",
    "NotPermittedError",
    "OffsetTrimmedError",
    "PayloadInvalidError",
    "PreconditionFailedError",
    "Producer",
    "ProducerBuilder",
    "ProducerFencedError",
    "ProducerOptions",
    "SchemaIncompatibleError",
    "SchemaInfo",
    "SchemaInvalidError",
    "SchemaRefusedError",
    "SchemaRegistryClient",
    "SchemaType",
    "SequenceError",
    "SettingsError",
    "SubType",
    "SubscriptionBusyError",
    "TopicDeletedError",
    "TopicHeldError",
    "TopicNotFoundError",
    "UnauthenticatedError",
    "UnavailableError",
    "UnrecoverableError",
    "UnsupportedError",
]


if not TYPE_CHECKING:  # type checkers see the names above, and a misspelt one is an error to them

    def __getattr__(name: str) -> object:
        if name not in {*__all__, "__version__", "sql"}:
            raise AttributeError(f"module 'danube' has no attribute {name!r}")
        value: object
        home = "danube.query.asking" if name == "sql" else "danube.client"
        value = _version() if name == "__version__" else getattr(importlib.import_module(home), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "__version__", "sql"})


def _version() -> str:
    import importlib.metadata  # noqa: PLC0415 - reads e-mail headers, and most programs never ask

    try:
        return importlib.metadata.version("danube-messaging")
    except importlib.metadata.PackageNotFoundError:  # a bare tree on the path
        return "0+unknown"


def _warn_of_the_published_client() -> None:
    """Two distributions that both own the folder `danube` overwrite each other's files."""
    if any(True for entry in sys.path for _ in Path(entry).glob("danube_client-*.dist-info")):
        warnings.warn(
            "danube-client is installed beside danube-messaging and both are the package `danube`: "
            "uninstall both, then install danube-messaging alone.",
            RuntimeWarning,
            stacklevel=3,
        )


def _leave_forks_alone() -> None:
    """Have gRPC, which asks when it is imported, do nothing around a fork where nobody has asked for it.

    What it does there starts threads in the child: with calls under way about one child in six crashed before it became
    the program it was forked for (grpcio 1.85; Spark's JVM is forked).
    """
    os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")


_warn_of_the_published_client()
_leave_forks_alone()
