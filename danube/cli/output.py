"""Output of `danube` for people: messages after its name, exit codes, a progress line."""

import sys
from collections.abc import Coroutine
from typing import TYPE_CHECKING, NoReturn

import typer

from danube.model.exit_codes import ExitCode
from danube.runtime import console
from danube.runtime.clock import Clock

if TYPE_CHECKING:
    from rich.progress import Progress as Bar
    from rich.progress import TaskID

_INTERVAL_S = 0.1

EXIT_CODES = (
    "Exit codes: 0 done, 1 failed, 2 wrong usage, 4 the topic is not there, 5 the broker cannot be reached, "
    "6 refused, 130 interrupted."
)
PROGRAM = "danube"


def say(text: str) -> None:
    """Write a line to standard error, after the name of the program."""
    console.say(text, PROGRAM)


def run(work: Coroutine[None, None, ExitCode]) -> NoReturn:
    """Do a command's work and end with its exit code; Ctrl-C cancels the work, which then puts itself in order."""
    raise typer.Exit(console.ended(lambda: console.awaited(work), PROGRAM))


class Progress:
    """A counting line on stderr; none where stderr is not a terminal, or when told to be quiet."""

    def __init__(self, text: str, clock: Clock, *, quiet: bool) -> None:
        self._clock = clock
        self._shown_at_s = clock.monotonic_s()
        self._bar: Bar | None = None
        self._task: TaskID | None = None
        if not quiet and sys.stderr.isatty():
            self._show(text)

    def update(self, count: int) -> None:
        """Show this count; drawn at most ten times a second."""
        now_s = self._clock.monotonic_s()
        if self._bar is None or self._task is None or now_s - self._shown_at_s < _INTERVAL_S:
            return
        self._shown_at_s = now_s
        self._bar.update(self._task, completed=count, refresh=True)

    def close(self) -> None:
        """Remove the line."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def _show(self, text: str) -> None:
        from rich.console import Console  # noqa: PLC0415 - only a terminal needs rich
        from rich.progress import Progress as Bar  # noqa: PLC0415 - the same
        from rich.progress import TextColumn, TimeElapsedColumn  # noqa: PLC0415 - the same

        columns = (TextColumn("{task.description}"), TextColumn("{task.completed:,.0f}"), TimeElapsedColumn())
        self._bar = Bar(*columns, console=Console(stderr=True), auto_refresh=False, transient=True)
        self._task = self._bar.add_task(text, total=None)
        self._bar.start()
