"""How the commands speak: standard output is data, standard error is talk, exit codes are a promise.

The codes are those of `danube/model/exit_codes.py`. Errors are one sentence with the next step, never a traceback.
"""

import asyncio
import os
import sys
from collections.abc import Coroutine
from typing import NoReturn

import typer

from danube.model.errors import DanubeError
from danube.model.exit_codes import ExitCode, exit_code_of
from danube.runtime.log import configure_logging

EXIT_CODES = (
    "Exit codes: 0 done, 1 failed, 2 wrong usage, 4 the topic is not there, 5 the broker cannot be reached, "
    "6 refused, 130 interrupted."
)


def say(text: str) -> None:
    """Tell the person at the terminal."""
    typer.echo(f"danube: {text}", err=True)


def run(work: Coroutine[None, None, ExitCode]) -> NoReturn:
    """Do a command's work and end with its exit code; Ctrl-C cancels the work, which then puts itself in order."""
    configure_logging("warning", "text")
    try:
        code = asyncio.run(work)
    except KeyboardInterrupt:
        code = ExitCode.INTERRUPTED
    except BrokenPipeError:
        forget_stdout()
        code = ExitCode.OK
    except DanubeError as error:
        say(str(error))
        code = exit_code_of(error)
    raise typer.Exit(code)


def forget_stdout() -> None:
    """Whoever read our output has left: give the rest to nobody, so that the end of the process is quiet."""
    nobody = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nobody, sys.stdout.fileno())
    os.close(nobody)


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
