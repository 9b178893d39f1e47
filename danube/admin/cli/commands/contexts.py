"""`danube-admin contexts`: named clusters, and which one is used when nothing else is said."""

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from danube.admin.access import AccessLevel, ApprovalMode
from danube.admin.cli.call import stdout_screen
from danube.admin.cli.output.draw import drawn
from danube.admin.cli.output.help_text import examples_text
from danube.admin.cli.output.options import OutputOptions
from danube.admin.cli.output.selection import program_text
from danube.admin.cli.typer_classes import HELP_SETTINGS, AdminCommand, AdminGroup, flags_of, output_options_of
from danube.admin.present import Table, View, label, printable
from danube.admin.target import PROGRAM, Colour
from danube.model.errors import DanubeError, InvalidRequestError
from danube.model.exit_codes import ExitCode
from danube.runtime import console
from danube.runtime.paths import PATH_FLAG

_EXAMPLES = examples_text(
    [
        ("Name a cluster, and use it from now on", f"{PROGRAM} contexts set staging --endpoint 10.0.0.5:50051"),
        (
            "A cluster where nothing is destroyed",
            f"{PROGRAM} contexts set live --endpoint 10.0.0.9:50051 --access write",
        ),
        ("Use another one", f"{PROGRAM} contexts use live"),
        ("One command on another one", f"{PROGRAM} topics list --context staging"),
    ]
)

app = typer.Typer(
    cls=AdminGroup,
    rich_markup_mode=None,
    no_args_is_help=True,
    context_settings=HELP_SETTINGS,
    help="List, choose and change named clusters.",
    epilog=_EXAMPLES,
)


def context_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """The names of contexts, for a shell."""
    from danube.admin.profiles import contexts_file, list_contexts  # noqa: PLC0415 - `--help` reads no contexts

    given = ctx.find_root().params.get("config_file")
    try:
        known = list_contexts(contexts_file(given, os.environ))
    except DanubeError:
        return []
    return [name for name, _, _ in known if name.startswith(incomplete)]


Name = Annotated[
    str,
    typer.Argument(metavar="NAME", help="The name of the context.", show_default=False, autocompletion=context_names),
]


@app.command("list", cls=AdminCommand)
def list_command(context: typer.Context) -> None:
    """List the contexts; the current one is marked."""
    from danube.admin.profiles import list_contexts  # noqa: PLC0415 - `--help` reads no contexts

    rows = [
        {"name": name, "current": is_current, **each.model_dump(include={"endpoint", "access", "approval"})}
        for name, each, is_current in list_contexts(_file(context))
    ]
    _show(output_options_of(context), rows)


@app.command("show", cls=AdminCommand)
def show_command(
    context: typer.Context,
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="The current one without a name.")] = None,
) -> None:
    """Show what a context says; its token is not shown."""
    from danube.admin.profiles import show_context  # noqa: PLC0415 - as above

    _show(output_options_of(context), show_context(_file(context), name))


@app.command("use", cls=AdminCommand)
def use_command(context: typer.Context, name: Name) -> None:
    """Use a context from now on."""
    from danube.admin.profiles import use_context  # noqa: PLC0415 - as above

    use_context(_file(context), name)
    _say(context, f"context {name} is used from now on")


@app.command("remove", cls=AdminCommand)
def remove_command(context: typer.Context, name: Name) -> None:
    """Remove a context; the current one after a question, or with --yes."""
    from danube.admin.profiles import list_contexts, remove_context  # noqa: PLC0415 - as above

    if (name, True) in {(each, is_current) for each, _, is_current in list_contexts(_file(context))}:
        _confirm(context, name)
    remove_context(_file(context), name)
    _say(context, f"context {name} is forgotten")


@app.command("set", cls=AdminCommand, epilog=_EXAMPLES)
def set_command(
    context: typer.Context,
    name: Name,
    *,
    endpoint: Annotated[
        str | None, typer.Option("--endpoint", help="http://host:port of a broker's admin port.")
    ] = None,
    access: Annotated[AccessLevel | None, typer.Option("--access", help="The most that may be done there.")] = None,
    approval: Annotated[
        ApprovalMode | None, typer.Option("--approval", help="Which plans of assistants wait for a person.")
    ] = None,
    tls: Annotated[bool | None, typer.Option("--tls/--no-tls", help="Use TLS; an https:// endpoint does too.")] = None,
    ca: Annotated[Path | None, typer.Option("--ca", **PATH_FLAG, help="PEM file of who is trusted.")] = None,
    cert: Annotated[
        Path | None, typer.Option("--cert", **PATH_FLAG, help="PEM file of the client's certificate.")
    ] = None,
    key: Annotated[Path | None, typer.Option("--key", **PATH_FLAG, help="PEM file of its key.")] = None,
    domain: Annotated[str | None, typer.Option("--domain", help="The name in the broker's certificate.")] = None,
    token_file: Annotated[
        Path | None, typer.Option("--token-file", **PATH_FLAG, help="File that holds the token.")
    ] = None,
    token_env: Annotated[str | None, typer.Option("--token-env", help="Variable that holds the token.")] = None,
    always_yes: Annotated[
        bool | None,
        typer.Option("--always-yes/--never-yes", help="Apply plans made on the command line without a question."),
    ] = None,
    prometheus: Annotated[
        str | None, typer.Option("--prometheus", help="http://host:9090 of a Prometheus that scrapes the brokers.")
    ] = None,
    colour: Annotated[Colour | None, typer.Option("--colour", help="What faces mark the cluster with.")] = None,
    unset: Annotated[
        list[str] | None, typer.Option("--unset", metavar="FIELD", help="Take a field away; may be repeated.")
    ] = None,
) -> None:
    """Create a context, or change what is given of one; the first one is used from then on."""
    typed = locals()
    from danube.admin.profiles import Context, list_contexts, set_context  # noqa: PLC0415 - as above

    given = {**typed, "yes": always_yes}
    changes = {field: value for field, value in given.items() if field in Context.model_fields and value is not None}
    for field in unset or []:
        if field.replace("-", "_") not in Context.model_fields:
            raise InvalidRequestError(f"a context has no {field}: it has {', '.join(Context.model_fields)}")
        changes[field.replace("-", "_")] = None
    set_context(_file(context), name, changes)
    is_current = any(is_used for known, _, is_used in list_contexts(_file(context)) if known == name)
    _say(context, f"Saved context {name}{' (now current)' if is_current else ''}")


def _confirm(context: typer.Context, name: str) -> None:
    """A person's yes, or `--yes`; without a terminal an error with exit code 3."""
    if flags_of(context).yes or os.environ.get("DANUBE_ADMIN_YES") == "1":
        return
    if not sys.stdin.isatty():
        console.say(f"{name} is the current context: remove it with --yes, or use another one first", PROGRAM)
        raise typer.Exit(ExitCode.NEEDS_YES)
    typer.confirm(f"{name} is the current context. Remove it?", abort=True, err=True)


def _file(context: typer.Context) -> Path:
    from danube.admin.profiles import contexts_file  # noqa: PLC0415 - as above

    return contexts_file(flags_of(context).config_file, os.environ)


def _say(context: typer.Context, text: str) -> None:
    if not output_options_of(context).quiet:
        console.say(text, PROGRAM)


def _show(output: OutputOptions, data: Any) -> None:  # noqa: ANN401 - JSON
    """One mapping, or rows of one shape."""
    if not output.output.is_for_people:
        console.write(program_text(data, output))
        return
    if isinstance(data, dict):
        view = View(tuple((label(key), printable(value)) for key, value in data.items()))
    else:
        columns = tuple(label(key) for key in data[0]) if data else ()
        rows = tuple(tuple(_cell(value) for value in row.values()) for row in data)
        view = View((), (Table("Contexts", columns, rows),))
    console.write(drawn(view, stdout_screen(output)))
    if not data and not output.quiet:
        console.say(f"there are no contexts; `{PROGRAM} contexts set NAME --endpoint HOST:PORT` makes one", PROGRAM)


def _cell(value: object) -> str:
    return "yes" if value is True else "" if value is False else "-" if value is None else printable(str(value))
