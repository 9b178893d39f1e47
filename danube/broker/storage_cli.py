"""`danube-broker storage`: what is in the data folder of a broker that does not run, whether it is sound; repair."""

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from danube.broker.settings import BrokerSettings
from danube.model.exit_codes import ExitCode
from danube.runtime.console import ended
from danube.runtime.settings import Loaded

_PROGRAM = "danube-broker"

_EPILOG = """Examples:

  danube-broker storage inspect --data-dir /var/lib/danube

  danube-broker storage inspect --data-dir /var/lib/danube --topic /default/orders

  danube-broker storage verify --data-dir /var/lib/danube

  danube-broker storage repair --data-dir /var/lib/danube   (only says what it would do)

  danube-broker storage repair --data-dir /var/lib/danube --accept-loss

Exit codes: 0 done or sound, 2 wrong usage, 3 a repair that needs --accept-loss, 4 no such topic or file, 7 data folder
cannot be used or a broker has it, 8 stored data is damaged.
"""

app = typer.Typer(
    help="Look into, verify and repair the data folder of a broker that does not run.",
    epilog=_EPILOG,
    no_args_is_help=True,
    rich_markup_mode=None,
)


class OutputFormat(StrEnum):
    """How these commands answer."""

    TABLE = "table"
    JSON = "json"


_DataDir = Annotated[
    Path | None, typer.Option("--data-dir", help="The broker's data folder.  [as the broker's settings say]")
]
_Output = Annotated[OutputFormat, typer.Option("-o", "--output", help="How to answer.")]
_Topic = Annotated[str | None, typer.Option("--topic", help="Only this topic, with its segments.")]
_File = Annotated[str | None, typer.Option("--file", help="What is in this one file: its rounds or blocks.")]
_Accept = Annotated[bool, typer.Option("--accept-loss", help="Do it. What is damaged is set aside, not deleted.")]


@app.command("inspect")
def inspect(
    context: typer.Context,
    data_dir: _DataDir = None,
    topic: _Topic = None,
    file: _File = None,
    output: _Output = OutputFormat.TABLE,
) -> None:
    """Show what is in a data folder: journal files, topics, subscriptions, leftovers. Changes nothing."""
    from danube.broker import storage_commands  # noqa: PLC0415 - `--help` needs none of it

    folder = _folder(context, data_dir)
    _end(lambda: storage_commands.inspect(folder, topic=topic, file=file, as_json=output is OutputFormat.JSON))


@app.command("verify")
def verify(context: typer.Context, data_dir: _DataDir = None, output: _Output = OutputFormat.TABLE) -> None:
    """Read every byte of a data folder and tell each fault, with file, byte, topic and offsets. Changes nothing."""
    from danube.broker import storage_commands  # noqa: PLC0415 - as above

    folder = _folder(context, data_dir)
    _end(lambda: storage_commands.verify_folder(folder, as_json=output is OutputFormat.JSON))


@app.command("repair")
def repair(
    context: typer.Context,
    data_dir: _DataDir = None,
    accept_loss: _Accept = False,  # noqa: FBT002 - a flag of a command
    output: _Output = OutputFormat.TABLE,
) -> None:
    """Say what a repair would lose and keep; with --accept-loss, do it.

    All that is sound stays where it is, at its own offset. Lost messages are replaced by empty ones that say so.
    What is taken out goes into a folder lost-<time> in the data folder, with a report.
    """
    from danube.broker import storage_commands  # noqa: PLC0415 - as above

    folder = _folder(context, data_dir)
    _end(lambda: storage_commands.repair(folder, accept_loss=accept_loss, as_json=output is OutputFormat.JSON))


def _folder(context: typer.Context, data_dir: Path | None) -> Path:
    loaded: Loaded[BrokerSettings] = context.obj
    return data_dir if data_dir is not None else loaded.settings.data_dir


def _end(work: Callable[[], ExitCode]) -> None:
    raise typer.Exit(ended(work, _PROGRAM))
