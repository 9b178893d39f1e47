"""Options and endings that the commands beside the broker itself have in common."""

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from danube.broker.config.settings import BrokerSettings
from danube.model.exit_codes import ExitCode
from danube.runtime.console import ended
from danube.runtime.paths import expanded
from danube.runtime.settings import Loaded

PROGRAM = "danube-broker"


class OutputFormat(StrEnum):
    """Format of what these commands print."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


DataDir = Annotated[
    Path | None,
    typer.Option("--data-dir", callback=expanded, help="The broker's data folder.  [as the broker's settings say]"),
]
Output = Annotated[OutputFormat, typer.Option("-o", "--output", help="How to answer.")]


def loaded_of(context: typer.Context) -> Loaded[BrokerSettings]:
    """The broker's settings, as `danube-broker` has read them before the command's name."""
    loaded: Loaded[BrokerSettings] = context.obj
    return loaded


def folder_of(context: typer.Context, data_dir: Path | None) -> Path:
    """The data folder that a command is about."""
    return data_dir if data_dir is not None else loaded_of(context).settings.data_dir


def end(work: Callable[[], ExitCode]) -> None:
    """Do a command's work, and leave with its exit code."""
    raise typer.Exit(ended(work, PROGRAM))
