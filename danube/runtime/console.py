"""Console output of commands: standard output is data, standard error is for people, exit codes are a promise.

The codes are those of `danube/model/exit_codes.py`. Errors are one sentence with the next step, never a traceback.
"""

import asyncio
import getpass
import os
import socket
import sys
import traceback
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from danube.model.errors import DanubeError
from danube.model.exit_codes import ExitCode, exit_code_of
from danube.runtime.log import configure_logging

T = TypeVar("T")


def say(text: str, program: str) -> None:
    """Write a line to standard error after the name of the program; unprintable characters are escaped."""
    sys.stderr.write(f"{program}: {escaped(text)}\n")
    sys.stderr.flush()


def escaped(text: str) -> str:
    """The text on one line, with what would move the cursor or hide itself as `\\x1b` and the like."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def write(text: str) -> None:
    """Write to standard output and flush. Raises BrokenPipeError when whoever read it has left."""
    sys.stdout.write(text)
    sys.stdout.flush()


def ended(work: Callable[[], ExitCode], program: str, *, debug: bool = False) -> ExitCode:
    """Do a command's work and answer its exit code; an error is written to standard error.

    With `debug` an error that has no name of ours is shown with its traceback.
    """
    try:
        return work()
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        discard_stdout()
        return ExitCode.OK
    except DanubeError as error:
        say(str(error), program)
        return exit_code_of(error)
    except Exception as error:  # the edge of the process: a person at a terminal gets no traceback
        if debug:
            traceback.print_exc()
        else:
            say(f"this should not have happened: {_one_line(error)}; --debug shows where", program)
        return ExitCode.FAILURE


def awaited(work: Coroutine[Any, Any, T], *, log_level: str = "warning") -> T:
    """Do asynchronous work; Ctrl-C cancels it, and it then puts itself in order."""
    configure_logging(log_level, "text")
    return asyncio.run(work)


def discard_stdout() -> None:
    """The reader of standard output has left: discard the rest, so that the end of the process is quiet."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)


def is_terminal(*streams: Any) -> bool:  # noqa: ANN401 - text streams, as a program finds them
    """True if a person is at the other end of every one of these streams."""
    return all(stream.isatty() for stream in streams)


def whoever_calls() -> str:
    """`user@host`, as far as the machine knows."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError):  # no such user in a container
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"


def _one_line(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"
