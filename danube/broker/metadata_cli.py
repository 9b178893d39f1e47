"""`danube-broker metadata`: all that the cluster agreed on, as one file; taken out, looked into, put in."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from danube.broker.settings import BrokerSettings
from danube.broker.storage_cli import OutputFormat
from danube.model.exit_codes import ExitCode
from danube.runtime.console import ended
from danube.runtime.settings import Loaded

_PROGRAM = "danube-broker"

_EPILOG = """Examples:

  danube-broker --data-dir /var/lib/danube metadata backup metadata.backup

  danube-broker metadata inspect metadata.backup

  danube-broker --meta-store-type etcd metadata backup metadata.backup   (while brokers run)

  danube-broker --data-dir /var/lib/danube --meta-store-type raft metadata restore metadata.backup   (a cluster of one)

The store is the one of the broker's settings, which stand before the word `metadata`. Where it is in the data folder
(sqlite, raft), the broker must not run; the other brokers of a Raft cluster may, and are asked. Messages are not in a
backup, only where they are.

Exit codes: 0 done, 2 wrong usage, 3 the store is not empty and --force is missing, 4 no such file, 6 refused, 7 data
folder cannot be used or a broker has it, 8 the backup is damaged.
"""

app = typer.Typer(
    help="Back up, look into and restore what brokers agreed on: namespaces, topics, subscriptions, owners.",
    epilog=_EPILOG,
    no_args_is_help=True,
    rich_markup_mode=None,
)

_File = Annotated[Path, typer.Argument(metavar="FILE", help="The backup.", show_default=False)]
_DataDir = Annotated[
    Path | None, typer.Option("--data-dir", help="The broker's data folder.  [as the broker's settings say]")
]
_Output = Annotated[OutputFormat, typer.Option("-o", "--output", help="How to answer.")]
_Force = Annotated[bool, typer.Option("--force", help="Also into a store that is not empty: what is in it goes.")]


@app.command("backup")
def backup(
    context: typer.Context, file: _File, data_dir: _DataDir = None, output: _Output = OutputFormat.TABLE
) -> None:
    """Write all metadata to a file; one of that name is replaced once the new one is whole."""
    from danube.broker import metadata_commands  # noqa: PLC0415 - `--help` needs none of it

    settings, folder = _settings(context, data_dir)
    _end(lambda: metadata_commands.backup(settings, folder, file, as_json=output is OutputFormat.JSON))


@app.command("restore")
def restore(
    context: typer.Context,
    file: _File,
    data_dir: _DataDir = None,
    force: _Force = False,  # noqa: FBT002 - a flag of a command
    output: _Output = OutputFormat.TABLE,
) -> None:
    """Put a backup into an empty store of any kind; no broker may use it meanwhile.

    The backup of a standalone broker becomes the metadata of a cluster in which that broker serves its topics: restore
    it into the cluster's store, then start the broker on its data folder with the cluster's settings.
    """
    from danube.broker import metadata_commands  # noqa: PLC0415 - as above

    settings, folder = _settings(context, data_dir)
    as_json = output is OutputFormat.JSON
    _end(lambda: metadata_commands.restore(settings, folder, file, force=force, as_json=as_json))


@app.command("inspect")
def inspect(
    context: typer.Context,
    file: Annotated[Path | None, typer.Argument(metavar="[FILE]", help="The backup.  [the store itself]")] = None,
    data_dir: _DataDir = None,
    output: _Output = OutputFormat.TABLE,
) -> None:
    """Show how much of what is in a backup, or in the store. Changes nothing."""
    from danube.broker import metadata_commands  # noqa: PLC0415 - as above

    settings, folder = _settings(context, data_dir)
    _end(lambda: metadata_commands.inspect(settings, folder, file, as_json=output is OutputFormat.JSON))


def _settings(context: typer.Context, data_dir: Path | None) -> tuple[BrokerSettings, Path]:
    loaded: Loaded[BrokerSettings] = context.obj
    return loaded.settings, data_dir if data_dir is not None else loaded.settings.data_dir


def _end(work: Callable[[], ExitCode]) -> None:
    raise typer.Exit(ended(work, _PROGRAM))
