"""`danube-admin tui`. What is heavy is imported when it starts: `danube-admin --help` must not wait for it."""

import logging
import os
import re
import signal
import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from danube.admin.gateway import AdminGateway
from danube.admin.profiles import TargetFlags, resolve_target
from danube.admin.target import PROGRAM, Connect
from danube.model.errors import SettingsError
from danube.model.exit_codes import ExitCode
from danube.model.limits.faces import TUI_REFRESH_MAX_S, TUI_REFRESH_MIN_S, TUI_REFRESH_S
from danube.model.plans.plan import Caller, Face
from danube.model.text import install_text
from danube.runtime.clock import SystemClock
from danube.runtime.console import awaited, ended, is_terminal, whoever_calls
from danube.runtime.paths import PATH_FLAG
from danube.runtime.process import on_end

if TYPE_CHECKING:
    from danube.admin.tui.app import AdminApp

_HELP = """Look at the cluster, act on it and decide about plans, in a terminal of 80 by 24 or more.

In it `?` shows the keys and `:` every operation. NO_COLOR takes the colours away; nothing is told by them alone.
"""

_WEB_FONTS = re.compile(r"\s*@font-face\s*\{.*?\}", re.DOTALL)
_SIZE = re.compile(r"(\d{2,3})x(\d{2,3})")


@dataclass(frozen=True, slots=True)
class Shot:
    """One picture to take instead of filling the terminal."""

    file: Path
    width: int
    height: int


def add_commands(app: typer.Typer, connect: Connect) -> None:
    """Add `tui` to the command line; it parses as the commands there are, so it takes the options of the root too."""
    kind = next((each.cls for each in app.registered_commands if each.cls is not None), None)

    @app.command("tui", cls=kind, help=_HELP, short_help="Look at the cluster and act on it in a terminal.")
    def tui(
        context: typer.Context,
        *,
        refresh_s: Annotated[
            float,
            typer.Option(
                min=TUI_REFRESH_MIN_S, max=TUI_REFRESH_MAX_S, help="Seconds between two looks at the cluster."
            ),
        ] = TUI_REFRESH_S,
        screenshot: Annotated[
            Path | None,
            typer.Option(**PATH_FLAG, metavar="FILE.svg", help="Draw the first screen into a file once, and end."),
        ] = None,
        size: Annotated[str, typer.Option(metavar="COLUMNSxLINES", help="How large that picture is.")] = "120x36",
    ) -> None:
        def work() -> ExitCode:
            shot = _shot(screenshot, size) if screenshot is not None else None
            _check(shot)
            target = resolve_target(context.find_root().obj or TargetFlags(), os.environ)
            from danube.admin.tui.app import AdminApp  # noqa: PLC0415 - `--help` needs no Textual

            def app_at(gateway: AdminGateway) -> AdminApp:
                caller = Caller(who=whoever_calls(), face=Face.TUI)
                return AdminApp(gateway, target, clock=SystemClock(), caller=caller, refresh_s=refresh_s)

            picture = awaited(_run(connect(target), app_at, shot))
            if shot is not None:
                _write(shot.file, picture)
            return ExitCode.OK

        raise typer.Exit(ended(work, PROGRAM))


async def take(app: "AdminApp", width: int, height: int) -> str:
    """Draw an app once, after its first look at the cluster, and answer the picture: SVG that needs no web font."""
    async with app.run_test(size=(width, height)) as pilot:
        await app.refreshed()
        await pilot.pause()
        return _WEB_FONTS.sub("", app.export_screenshot())


async def _run(
    opening: AbstractAsyncContextManager[AdminGateway], app_at: "Callable[[AdminGateway], AdminApp]", shot: Shot | None
) -> str:
    async with opening as gateway:
        app = app_at(gateway)
        if shot is not None:
            return await take(app, shot.width, shot.height)
        logging.disable()  # a line on standard error would be drawn across the screen
        on_end(app.exit, (signal.SIGTERM, signal.SIGHUP))  # Textual restores the terminal; the default would not
        try:
            await app.run_async()
        finally:
            logging.disable(logging.NOTSET)
    return ""


def _check(shot: Shot | None) -> None:
    if find_spec("textual") is None:
        raise SettingsError(f"the terminal UI needs Textual: {install_text('tui')}")
    if shot is None and not is_terminal(sys.stdin, sys.stdout):
        raise SettingsError(
            "the terminal UI needs a terminal: run it in one, use the commands of `danube-admin --help` in scripts, or"
            " draw one picture with --screenshot FILE.svg"
        )


def _shot(file: Path, size: str) -> Shot:
    found = _SIZE.fullmatch(size)
    if found is None:
        raise SettingsError(f"{size!r} is no size: give columns and lines, as in 120x36")
    return Shot(file, int(found[1]), int(found[2]))


def _write(file: Path, picture: str) -> None:
    try:
        file.write_text(picture, encoding="utf-8")
    except OSError as error:
        raise SettingsError(f"{file} cannot be written: {error.strerror}") from None
