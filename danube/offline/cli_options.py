"""Options and endings that the commands beside the broker itself have in common."""

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from danube.broker.config.metadata_store import MetaStoreType
from danube.broker.config.settings import BrokerSettings
from danube.model.exit_codes import ExitCode
from danube.runtime.console import ended
from danube.runtime.paths import PATH_FLAG
from danube.runtime.settings import Loaded

if TYPE_CHECKING:
    from danube.offline.metadata.sources import Wanted

PROGRAM = "danube-broker"


class OutputFormat(StrEnum):
    """Format of what these commands print."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


DataDir = Annotated[
    Path | None,
    typer.Option("--data-dir", **PATH_FLAG, help="The broker's data folder.  [as the broker's settings say]"),
]
Output = Annotated[OutputFormat, typer.Option("-o", "--output", help="How to answer.")]


def end(work: Callable[[], ExitCode]) -> None:
    """Do a command's work, and leave with its exit code."""
    raise typer.Exit(ended(work, PROGRAM))


def wanted_of(context: typer.Context, data_dir: Path | None, store: str | None = None) -> "Wanted":
    """The data folder and the metadata that a command is about, by its options and the broker's settings."""
    from danube.offline.metadata.sources import wanted  # noqa: PLC0415 - `--help` needs none of it

    loaded: Loaded[BrokerSettings] = context.obj  # as `danube-broker` has read them before the command's name
    folder = data_dir if data_dir is not None else loaded.settings.data_dir
    return wanted(loaded, folder, MetaStoreType(store) if store is not None else None)
