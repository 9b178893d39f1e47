"""`danube-broker storage`: what is in the data folder of a broker that does not run, whether it is sound; repair."""

from enum import StrEnum
from typing import Annotated

import typer

from danube.broker.config.settings import BrokerSettings
from danube.offline.cli_options import DataDir, Output, OutputFormat, end, wanted_of
from danube.runtime.settings import Loaded

_EPILOG = """Examples:

  danube-broker storage inspect --data-dir /var/lib/danube

  danube-broker storage inspect --data-dir /var/lib/danube --topic /default/orders

  danube-broker storage verify --data-dir /var/lib/danube

  danube-broker --config-file broker.yml storage verify   (of a cluster: the metadata is read where the broker has it)

  danube-broker storage repair --data-dir /var/lib/danube   (only says what it would do)

  danube-broker storage repair --data-dir /var/lib/danube --accept-loss

  danube-broker --config-file broker.yml storage rebuild --from s3://my-bucket/danube

Exit codes: 0 done or sound, 2 wrong usage, or a repair that needs metadata kept elsewhere, 3 a repair that needs
--accept-loss, 4 no such topic or file, 5 topics have no names, 6 a rebuild into a store that is not empty, 7 data
folder or bucket cannot be used or a broker has it, 8 stored data is damaged.
"""

_INSPECT = """Examples:

  danube-broker storage inspect --data-dir /var/lib/danube

  danube-broker storage inspect --data-dir /var/lib/danube --topic /default/orders

  danube-broker storage inspect --data-dir /var/lib/danube --file 0000000004.journal -o json

Exit codes: 0 shown, damaged or not, 2 wrong usage, 4 no such topic or file, 5 topics have no names, 7 data folder
cannot be used or a broker has it.
"""

_VERIFY = """Examples:

  danube-broker storage verify --data-dir /var/lib/danube

  danube-broker --config-file broker.yml storage verify   (of a cluster: the metadata is read where the broker has it)

  danube-broker --config-file broker.yml storage verify --tier object   (the bucket; brokers may run)

Exit codes: 0 sound, 2 wrong usage, 7 data folder cannot be used or a broker has it, 8 stored data is damaged.
"""

_REPAIR = """Examples:

  danube-broker storage repair --data-dir /var/lib/danube   (only says what it would do)

  danube-broker storage repair --data-dir /var/lib/danube --accept-loss

Exit codes: 0 done, or nothing to repair, 2 wrong usage, or metadata kept elsewhere is needed, 3 not done: it needs
--accept-loss, 7 data folder cannot be used or a broker has it, 8 damage that cannot be repaired.
"""

_REBUILD = """Examples:

  danube-broker --config-file broker.yml storage rebuild --from s3://my-bucket/danube

  danube-broker --config-file broker.yml storage rebuild --from s3://my-bucket/danube --data-dir another-folder

Exit codes: 0 done, 2 wrong usage or settings, 5 the bucket or the metadata's service does not answer, 6 the store is
not empty, 7 data folder or bucket cannot be used or a broker has it, 8 something in the bucket is damaged.
"""

app = typer.Typer(
    help="Look into, verify and repair the data folder of a broker that does not run.",
    epilog=_EPILOG,
    no_args_is_help=True,
    rich_markup_mode=None,
)


_Topic = Annotated[str | None, typer.Option("--topic", help="Only this topic, with its segments.")]
_File = Annotated[str | None, typer.Option("--file", help="What is in this one file, by its name: rounds, blocks.")]


class Tier(StrEnum):
    """Place that is read."""

    DISK = "disk"
    OBJECT = "object"


_Tier = Annotated[Tier, typer.Option("--tier", help="disk, or object: the bucket of the settings.")]
_Accept = Annotated[bool, typer.Option("--accept-loss", help="Do it. What is damaged is set aside, not deleted.")]


@app.command("inspect", epilog=_INSPECT)
def inspect(
    context: typer.Context,
    data_dir: DataDir = None,
    topic: _Topic = None,
    file: _File = None,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Show what is in a data folder: journal files, topics, subscriptions, leftovers. Changes nothing."""
    from danube.offline.storage import commands  # noqa: PLC0415 - `--help` needs none of it

    wanted = wanted_of(context, data_dir)
    end(lambda: commands.inspect(wanted, topic=topic, file=file, output=output))


@app.command("verify", epilog=_VERIFY)
def verify(
    context: typer.Context, data_dir: DataDir = None, tier: _Tier = Tier.DISK, output: Output = OutputFormat.TABLE
) -> None:
    """Read every byte of a data folder and tell each fault, with file, byte, topic and offsets. Changes nothing.

    With --tier object it is the bucket of the broker's settings that is read; brokers may run meanwhile.
    """
    from danube.offline.storage import commands  # noqa: PLC0415 - as above

    if tier is Tier.OBJECT:
        loaded: Loaded[BrokerSettings] = context.obj
        end(lambda: commands.verify_objects(loaded.settings, data_dir, output=output))
    wanted = wanted_of(context, data_dir)
    end(lambda: commands.verify_folder(wanted, output=output))


@app.command("repair", epilog=_REPAIR)
def repair(
    context: typer.Context,
    data_dir: DataDir = None,
    accept_loss: _Accept = False,  # noqa: FBT002 - a flag of a command
    output: Output = OutputFormat.TABLE,
) -> None:
    """Say what a repair would lose and keep; with --accept-loss, do it.

    All that is sound stays where it is, at its own offset. Lost messages are replaced by empty ones that say so.
    What is taken out goes into a folder lost-<time> in the data folder, with a report.
    """
    from danube.offline.storage import commands  # noqa: PLC0415 - as above

    wanted = wanted_of(context, data_dir)
    end(lambda: commands.repair(wanted, accept_loss=accept_loss, output=output))


_From = Annotated[str, typer.Option("--from", help="The bucket with its prefix, as object_store.url names it.")]


@app.command("rebuild", epilog=_REBUILD)
def rebuild(
    context: typer.Context, source: _From, data_dir: DataDir = None, output: Output = OutputFormat.TABLE
) -> None:
    """Make the metadata of a cluster anew from its bucket alone, in a store that is empty.

    For brokers with storage.mode object_store whose metadata is lost. None of them may run. The bucket is only read;
    the broker that starts then takes the topics over. Names, schemas and rights are those of the newest copy in it.
    A broker that stood alone and moved older segments into a bucket gets those back, into an empty data folder.
    """
    from danube.offline.metadata.commands import refusing  # noqa: PLC0415 - as above
    from danube.offline.storage.rebuild.rebuild import rebuild_metadata  # noqa: PLC0415 - as above

    loaded: Loaded[BrokerSettings] = context.obj
    wanted = wanted_of(context, data_dir)
    end(lambda: refusing(lambda: rebuild_metadata(loaded.settings, wanted, source, output=output)))
