"""The options of `danube-admin` itself, which every command takes after its own words too."""

from pathlib import Path
from typing import Annotated

import typer

from danube import __version__
from danube.admin.access import AccessLevel
from danube.admin.cli.commands.contexts import context_names
from danube.admin.cli.output.help_text import examples_text
from danube.admin.cli.output.options import OUTPUT_WORDS, OutputFormat
from danube.admin.cli.typer_classes import remember
from danube.admin.target import PROGRAM
from danube.runtime import console
from danube.runtime.paths import PATH_FLAG

_EXAMPLES = examples_text(
    [
        ("Is all well?", f"{PROGRAM} cluster health"),
        ("What is there, for a program", f"{PROGRAM} topics list -o json"),
        ("What would happen", f"{PROGRAM} topics delete /default/orders --dry-run"),
        ("Look every five seconds", f"{PROGRAM} topics describe /default/orders --watch=5"),
    ]
)
_EPILOG = f"""{_EXAMPLES}

The broker is the one behind --endpoint, DANUBE_ADMIN_ENDPOINT or the context in use; without any of them it is
http://127.0.0.1:50051. Also read: DANUBE_ADMIN_TOKEN, DANUBE_ADMIN_CONTEXT, DANUBE_ADMIN_ACCESS, DANUBE_ADMIN_YES=1,
DANUBE_ADMIN_TLS, DANUBE_ADMIN_CA and NO_COLOR."""


def add_root(app: typer.Typer) -> None:
    """Give the app its options and its help."""
    app.callback(epilog=_EPILOG)(danube_admin)


def _show_version(*, value: bool) -> None:
    if value:
        console.write(f"{PROGRAM} {__version__}\n")
        raise typer.Exit


def _formats() -> list[str]:
    return [each.value if each is not OutputFormat.JSONPATH else f"{each.value}=" for each in OutputFormat]


def danube_admin(
    ctx: typer.Context,
    *,
    endpoint: Annotated[
        str | None, typer.Option("--endpoint", metavar="URL", help="Admin port of any broker: http://host:port.")
    ] = None,
    context: Annotated[
        str | None,
        typer.Option("--context", metavar="NAME", help="Use this named cluster.", autocompletion=context_names),
    ] = None,
    access: Annotated[
        AccessLevel | None, typer.Option("--access", help="The most that may be done.", metavar="read|write|destroy")
    ] = None,
    timeout_s: Annotated[
        float | None, typer.Option("--timeout-s", **console.duration_flag(), help="Of one call to a broker.")
    ] = None,
    config_file: Annotated[
        Path | None,
        typer.Option("--config-file", **PATH_FLAG, metavar="FILE", help="File of contexts, in place of the usual one."),
    ] = None,
    yes: Annotated[bool, typer.Option("-y", "--yes", help="Apply plans without a question.")] = False,
    output: Annotated[
        str | None,
        typer.Option("-o", "--output", help="What to write.", metavar=OUTPUT_WORDS, autocompletion=_formats),
    ] = None,
    sort_by: Annotated[
        str | None, typer.Option("--sort-by", metavar="FIELD", help="Sort rows by a field, or by -FIELD downwards.")
    ] = None,
    no_color: Annotated[bool, typer.Option("--no-color", help="Draw without colours.")] = False,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Say nothing but errors.")] = False,
    verbose: Annotated[bool, typer.Option("-v", "--verbose", help="Show the evidence below a table.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show where an error came from.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Administer a Danube cluster: look at it, change it, and see who did what."""
    remember(ctx, locals())
