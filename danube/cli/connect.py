"""`danube connect`: run connectors, check their files, and list what there is."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from danube.cli.output import EXIT_CODES, run, say
from danube.model.errors import DanubeError, SettingsError
from danube.model.exit_codes import ExitCode, exit_code_of
from danube.runtime.paths import expanded

if TYPE_CHECKING:
    from danube.connect.connector import Plan

app = typer.Typer(help="Bring data into topics and out of them.", no_args_is_help=True, rich_markup_mode=None)

_FILE_VARIABLE = "CONNECTOR_CONFIG_PATH"
_RUN_EPILOG = f"""Examples:

  danube connect example webhook > webhook.toml

  danube connect check webhook.toml

  danube connect run webhook.toml orders-to-table.toml

Without FILE it is that of {_FILE_VARIABLE}. DANUBE_SERVICE_URL, CONNECTOR_NAME, DANUBE_CA_CERT, DANUBE_TOKEN and, of a
section, variables such as MQTT_PASSWORD replace what the file says.

{EXIT_CODES}
"""

Files = Annotated[
    list[str] | None, typer.Argument(metavar="[FILE]...", help="Files of connectors, in TOML.", show_default=False)
]


@app.command("run", epilog=_RUN_EPILOG)
def run_command(
    files: Files = None,
    log_format: Annotated[str, typer.Option("--log-format", metavar="json|text", help="Of the log.")] = "json",
) -> None:
    """Run the connectors of files until SIGTERM or Ctrl-C, which end them after what is under way."""
    from danube.connect.running import run_until_signalled  # noqa: PLC0415 - `--help` needs no gRPC

    if log_format not in {"json", "text"}:
        raise _usage(SettingsError(f"{log_format!r} is no log format: use json or text"))
    plans = _plans(files)
    run(run_until_signalled(plans, "json" if log_format == "json" else "text", announce=say))


@app.command("check")
def check_command(files: Files = None) -> None:
    """Tell what would run, and reach the cluster and the other sides. Changes nothing."""
    from danube.connect.runner import check  # noqa: PLC0415 - as above

    plans = _plans(files)

    async def work() -> ExitCode:
        is_well = True
        for plan in plans:
            typer.echo(plan.describe())
            async for well, text in check(plan):
                is_well = is_well and well
                typer.echo(f"  {'ok   ' if well else 'WRONG'} {text}")
        return ExitCode.OK if is_well else ExitCode.UNAVAILABLE

    run(work())


@app.command("list")
def list_command() -> None:
    """List the connectors that a file can name."""
    from danube.connect.connectors.catalogue import ENTRIES  # noqa: PLC0415 - as above

    for entry in ENTRIES:
        absent = "" if entry.target else " (not in this version)"
        typer.echo(f"{entry.name:<12} {entry.direction:<7} {entry.delivery:<14} {entry.summary}{absent}")
    typer.echo('One of your own is a section [connector] with name = "module:function".')


@app.command("example")
def example_command(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A connector of `list`, or `own`.", show_default=False)],
) -> None:
    """Write a commented file for a connector to standard output."""
    from danube.connect.connectors.catalogue import example  # noqa: PLC0415 - as above

    try:
        typer.echo(example(name), nl=False)
    except DanubeError as error:
        raise _usage(error) from None


def _plans(files: Sequence[str] | None) -> "list[Plan]":
    from danube.connect.config.file import read_files  # noqa: PLC0415 - as above
    from danube.connect.connector import plan  # noqa: PLC0415 - as above

    paths = [expanded(Path(each)) for each in files or filter(None, [os.environ.get(_FILE_VARIABLE)])]
    try:
        if not paths:
            raise SettingsError(f"no file is named: give FILE, or set {_FILE_VARIABLE}")
        return [plan(config) for config in read_files(paths, os.environ)]
    except DanubeError as error:
        raise _usage(error) from None


def _usage(error: DanubeError) -> typer.Exit:
    say(str(error))
    return typer.Exit(exit_code_of(error))
