"""`danube-admin mcp install HOST`: shows the change of a file, asks, keeps a copy, and writes."""

import difflib
import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from danube.admin.access import AccessLevel, ApprovalMode
from danube.admin.mcp.install.hosts import HOSTS, Host, entry_of, host_of, snippet, with_server
from danube.admin.profiles import TargetFlags, resolve_target
from danube.admin.target import PROGRAM
from danube.model.errors import PreconditionFailedError, SettingsError
from danube.model.exit_codes import ExitCode
from danube.runtime.console import ended, escaped, is_terminal, say
from danube.runtime.disk import LocalDisk
from danube.runtime.paths import PATH_FLAG, expanded

_SETTINGS_BYTES_MAX = 4 * 1024 * 1024

HELP = f"""Add this server to the settings of an assistant's program: {", ".join(HOSTS)}.

The change is shown, and made when you agree; the file as it was is kept beside it. The options --context or --endpoint,
--access, --approval, --toolsets and --name become part of the settings. A token never does: name a cluster with its
token by `{PROGRAM} contexts set`, then use --context.
"""
EXAMPLES = f"""Examples:

  {PROGRAM} mcp install claude-desktop

  {PROGRAM} mcp install cursor --context staging --access read --name staging

  {PROGRAM} mcp install claude-code --project

  {PROGRAM} mcp install codex --print
"""


def complete_host(incomplete: str) -> list[str]:
    """Names of programs, for a shell."""
    return [name for name in HOSTS if name.startswith(incomplete)]


def install(
    context: typer.Context,
    host: Annotated[
        str,
        typer.Argument(metavar="HOST", help="The program.", show_default=False, autocompletion=complete_host),
    ],
    *,
    name: Annotated[str, typer.Option(help="The server's name in that program.")] = "danube",
    toolsets: Annotated[str | None, typer.Option(help="Groups of tools, with commas between them.")] = None,
    access: Annotated[AccessLevel | None, typer.Option(help="The most that the assistant may do.")] = None,
    project: Annotated[
        bool, typer.Option("--project", help="Of this folder's project alone, where the program has such settings.")
    ] = False,
    file: Annotated[
        Path | None, typer.Option("--file", **PATH_FLAG, help="Settings in another place than the usual one.")
    ] = None,
    only_print: Annotated[bool, typer.Option("--print", help="Print the settings, and change nothing.")] = False,
) -> None:
    """Install: see HELP."""
    given: TargetFlags = context.find_root().obj or TargetFlags()

    def work() -> ExitCode:
        chosen = host_of(host)
        if not name.replace("-", "").replace("_", "").isalnum():
            raise SettingsError(f"--name {name[:60]!r} cannot name a server: use letters, digits, '_' and '-'")
        entry = entry_of(chosen, _command(), _arguments(given, access, toolsets, name))
        if only_print:
            typer.echo(snippet(chosen, name, entry), nl=False)
            return ExitCode.OK
        path = _path(chosen, file, is_project=project)
        before = _read(path)
        try:
            after = with_server(chosen, before, name, entry)
        except SettingsError as error:
            raise SettingsError(f"{path}: {error}") from None
        return _change(chosen, path, before, after, is_sure=given.yes)

    raise typer.Exit(ended(work, PROGRAM))


def _change(host: Host, path: Path, before: str, after: str, *, is_sure: bool) -> ExitCode:
    if before == after:
        say(f"{path} has this server already: nothing to do", PROGRAM)
        return ExitCode.OK
    difference = difflib.unified_diff(before.splitlines(), after.splitlines(), str(path), str(path), lineterm="", n=2)
    typer.echo("\n".join(map(escaped, difference)))
    if not is_sure:
        if not is_terminal(sys.stdin):
            raise PreconditionFailedError("nothing was changed: --yes makes this change without a question")
        if not typer.confirm(f"Change {path}?", err=True):
            say("nothing was changed", PROGRAM)
            return ExitCode.INTERRUPTED
    copy = _write(path, after)
    kept = f"; the file as it was is {copy.name} beside it" if copy is not None else ""
    say(f"{path} has the server now{kept}. Next: {host.next_step}", PROGRAM)
    return ExitCode.OK


def _arguments(given: TargetFlags, access: AccessLevel | None, toolsets: str | None, name: str) -> list[str]:
    """Arguments of the server: the same cluster with the same limits, by name where it has one.

    Raises SettingsError where a token would have to be among them, and for a toolset that is not there.
    """
    target = resolve_target(replace(given, access=access or given.access), os.environ)
    arguments = ["mcp"]
    if target.context is not None:
        arguments += ["--context", target.context]
        if given.config_file is not None:
            arguments += ["--config-file", str(expanded(given.config_file).absolute())]
    elif target.token is not None:
        raise SettingsError(
            "a token is set, and settings of a program are no place for it: name the cluster with"
            f" `{PROGRAM} contexts set NAME --endpoint {target.endpoint} --token-file FILE`, then use --context"
        )
    else:
        arguments += ["--endpoint", target.endpoint]
    if target.guard.level is not AccessLevel.DESTROY:
        arguments += ["--access", str(target.guard.level)]
    if target.guard.approval is not ApprovalMode.DESTROY:
        arguments += ["--approval", str(target.guard.approval)]
    if toolsets is not None:
        from danube.admin.mcp.tool_catalogue import check_toolsets  # noqa: PLC0415 - `--help` needs no operation

        arguments += ["--toolsets", ",".join(check_toolsets(toolsets.split(",")))]
    return arguments + (["--name", name] if name != "danube" else [])


def _command() -> str:
    """Path of this program: those of desktops have a `PATH` of their own."""
    found = Path(sys.argv[0])
    return str(found.absolute()) if found.stem == PROGRAM and found.exists() else shutil.which(PROGRAM) or PROGRAM


def _path(host: Host, file: Path | None, *, is_project: bool) -> Path:
    if file is not None:
        return expanded(file).absolute()
    if not is_project:
        return host.path(Path.home(), sys.platform)
    if host.project_file is None:
        raise SettingsError(f"{host.title} has no settings of a project: leave out --project")
    return Path.cwd() / host.project_file


def _read(path: Path) -> str:
    try:
        if path.stat().st_size > _SETTINGS_BYTES_MAX:
            raise SettingsError(f"{path} is larger than 4 MiB: it is no file of settings")
        return path.read_text("utf-8")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"cannot read {path}: {error}") from None


def _write(path: Path, text: str) -> Path | None:
    """Write the file at once or not at all; the copy of what it was, if it was."""
    copy: Path | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            moment = datetime.now().astimezone().strftime("%Y%m%d-%H%M%S")
            copy = path.with_name(f"{path.name}.before-danube-{moment}")
            shutil.copy2(path, copy)
        target = path.resolve()  # a link to a folder of dotfiles stays one
        LocalDisk(target.parent).replace_file(target.name, text.encode())
        if copy is not None:
            shutil.copymode(copy, target)
    except OSError as error:
        raise SettingsError(f"cannot write {path} ({error.strerror}): see --print") from None
    return copy


def words_of(arguments: Sequence[str]) -> list[str] | None:
    """The words after `install`; None for the server itself."""
    return list(arguments[1:]) if arguments[:1] == ["install"] else None
