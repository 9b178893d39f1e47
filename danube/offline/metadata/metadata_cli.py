"""`danube-broker metadata`: backups of the metadata, of any store, and what is in it."""

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from danube.model.exit_codes import ExitCode
from danube.offline.cli_options import DataDir, Output, OutputFormat, end, wanted_of
from danube.runtime.paths import PATH_FLAG

_EPILOG = """Examples:

  danube-broker metadata inspect --data-dir danube-data

  danube-broker metadata inspect --data-dir danube-data --prefix /topics

  danube-broker metadata backup danube.dnbb --data-dir danube-data

  danube-broker metadata restore danube.dnbb --data-dir another-folder

  danube-broker --meta-store-type etcd metadata backup danube.dnbb

  danube-broker metadata adopt --data-dir danube-data

  danube-broker metadata restore danube.dnbb --data-dir danube-data --force

The last one is the way back for a raft cluster whose majority is lost for good, too: see docs/metadata-tools.md.

Which store is meant: as for the broker, by its settings before the word `metadata`; else what is in the data folder.

Exit codes: 0 done or sound, 1 the service cannot be used, 2 wrong usage, 3 needs --yes or --accept-loss, 4 no such key
or file, 6 refused: not empty or not fitting, 7 data folder cannot be used or a broker has it, 8 stored data is damaged.
"""

app = typer.Typer(
    help="Back up, restore and look into the metadata: which topics there are, and whose.",
    epilog=_EPILOG,
    no_args_is_help=True,
    rich_markup_mode=None,
)


class StoreKind(StrEnum):
    """Kinds of stores that keep metadata."""

    RAFT = "raft"
    ETCD = "etcd"
    ZOOKEEPER = "zookeeper"


_Store = Annotated[
    StoreKind | None, typer.Option("--store", help="Which metadata is meant.  [as set, or as found in the data folder]")
]
_Overwrite = Annotated[bool, typer.Option("--overwrite", help="Take the place of a file that is there.")]
_Force = Annotated[bool, typer.Option("--force", help="Set aside what is there, and put the backup in its place.")]
_Yes = Annotated[bool, typer.Option("--yes", help="Do not ask before that.")]
_Accept = Annotated[bool, typer.Option("--accept-loss", help="Have the broker start without what is shown.")]


@app.command("backup")
def backup(  # noqa: PLR0917 - one parameter for each flag
    context: typer.Context,
    file: Annotated[Path, typer.Argument(**PATH_FLAG, help="The backup to write.")],
    data_dir: DataDir = None,
    store: _Store = None,
    overwrite: _Overwrite = False,  # noqa: FBT002 - a flag of a command
    output: Output = OutputFormat.TABLE,
) -> None:
    """Write all metadata to a file.

    From etcd and ZooKeeper while brokers run; from a data folder while its broker does not. Messages are not in it:
    they are in the data folders.
    """
    from danube.offline.metadata import commands  # noqa: PLC0415 - `--help` needs none of it

    wanted = wanted_of(context, data_dir, store)
    _end(lambda: commands.backup(wanted, file, overwrite=overwrite, output=output))


@app.command("restore")
def restore(  # noqa: PLR0917 - one parameter for each flag
    context: typer.Context,
    file: Annotated[Path, typer.Argument(**PATH_FLAG, help="The backup to restore.")],
    data_dir: DataDir = None,
    store: _Store = None,
    force: _Force = False,  # noqa: FBT002 - as above
    yes: _Yes = False,  # noqa: FBT002 - as above
    output: Output = OutputFormat.TABLE,
) -> None:
    """Put a backup into an empty store of any kind.

    Into a data folder while its broker does not run; raft begins a new group of this one broker, which others join.
    Into etcd or ZooKeeper while no broker uses the root. What only running brokers had (leases) is left out.
    """
    from danube.offline.metadata import commands  # noqa: PLC0415 - as above

    wanted = wanted_of(context, data_dir, store)
    _end(lambda: commands.restore(wanted, file, force=force, yes=yes, output=output))


@app.command("inspect")
def inspect(  # noqa: PLR0917 - one parameter for each flag
    context: typer.Context,
    data_dir: DataDir = None,
    store: _Store = None,
    file: Annotated[Path | None, typer.Option("--file", **PATH_FLAG, help="Look into this backup.")] = None,
    prefix: Annotated[str | None, typer.Option("--prefix", help="Show the keys below this one.")] = None,
    key: Annotated[str | None, typer.Option("--key", help="Show this key alone, in full.")] = None,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Show what is in the metadata.

    Revision, keys, leases and members; of a Raft folder its files, and why a broker would not start on it. Of etcd and
    ZooKeeper while brokers run, of a data folder while its broker does not.
    """
    from danube.offline.metadata import commands  # noqa: PLC0415 - as above

    wanted = wanted_of(context, data_dir, store)
    _end(lambda: commands.inspect(wanted, file=file, prefix=prefix, key=key, output=output))


@app.command("adopt")
def adopt(
    context: typer.Context,
    data_dir: DataDir = None,
    store: _Store = None,
    accept_loss: _Accept = False,  # noqa: FBT002 - as above
    output: Output = OutputFormat.TABLE,
) -> None:
    """Show what an older backup costs a data folder; accept it.

    A broker whose metadata was restored from a backup that does not know all topics in its folder does not start. This
    shows them, while the broker does not run; with --accept-loss it starts without them. A later backup is better.
    """
    from danube.offline.metadata import commands  # noqa: PLC0415 - as above

    wanted = wanted_of(context, data_dir, store)
    _end(lambda: commands.adopt(wanted, accept_loss=accept_loss, output=output))


def _end(work: Callable[[], ExitCode]) -> None:
    from danube.offline.metadata.commands import refusing  # noqa: PLC0415 - as above

    end(lambda: refusing(work))
