"""How `danube` speaks: as `danube/runtime/console.py` says, under its own name."""

from collections.abc import Coroutine
from typing import NoReturn

import typer

from danube.model.exit_codes import ExitCode
from danube.runtime import console

EXIT_CODES = (
    "Exit codes: 0 done, 1 failed, 2 wrong usage, 4 the topic is not there, 5 the broker cannot be reached, "
    "6 refused, 130 interrupted."
)
PROGRAM = "danube"


def say(text: str) -> None:
    """Tell the person at the terminal."""
    console.say(text, PROGRAM)


def run(work: Coroutine[None, None, ExitCode]) -> NoReturn:
    """Do a command's work and end with its exit code; Ctrl-C cancels the work, which then puts itself in order."""
    raise typer.Exit(console.ended(lambda: console.awaited(work), PROGRAM))


def size_text(count: int) -> str:
    """A number of bytes for people."""
    amount, unit = float(count), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if amount < 1024:
            break
        amount, unit = amount / 1024, larger
    return f"{count} B" if unit == "B" else f"{amount:.1f} {unit}"


def counted(count: int) -> str:
    """A number of messages for people."""
    return "1 message" if count == 1 else f"{count:,} messages"
