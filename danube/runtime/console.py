"""Console output of commands: standard output is data, standard error is for people, exit codes are a promise.

The codes are those of `danube/model/exit_codes.py`. Errors are one sentence with the next step, never a traceback.
"""

import asyncio
import codecs
import errno
import getpass
import io
import math
import os
import re
import socket
import sys
import traceback
from collections.abc import Callable, Coroutine
from typing import Any, NoReturn, TypeVar

from danube.model.errors import DanubeError, InvalidRequestError
from danube.model.exit_codes import ExitCode, exit_code_of
from danube.runtime.process import configure_logging

T = TypeVar("T")

DEBUG = "--debug"
_ESCAPES = "danube.escapes"
_QUOTED_IN_YAML = re.compile(r"[-+.0-9].*|y|n", re.DOTALL | re.IGNORECASE)
"""Texts that some reader takes for a number, a date or a truth value, and PyYAML writes without quotes."""


def main(command: Callable[[], None], program: str, *, debug: bool = False) -> NoReturn:
    """Run the command line of a program to its end, whatever standard output and the environment are.

    `debug` is as for `ended`: of a server, whoever keeps its log wants to know where it failed.
    """

    def work() -> ExitCode:
        command()
        return ExitCode.OK

    settle_streams()
    sys.exit(ended(work, program, debug=debug))


def settle_streams() -> None:
    """Have both streams escape what their encoding lacks, and give a closed one a place that no socket takes."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:  # closed; an open descriptor of this number would be taken for it
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDONLY), "r"))
            _occupy(number)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.writable():
            stream.reconfigure(errors=_ESCAPES)


def _occupy(number: int) -> None:
    try:
        os.fstat(number)
    except OSError:
        os.dup2(os.open(os.devnull, os.O_RDWR), number)


def _escapes(error: UnicodeError) -> tuple[str, int]:
    """Escapes as in JSON, which is right within its strings too: UTF-16 code units."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    units = error.object[error.start : error.end].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2)), error.end


codecs.register_error(_ESCAPES, _escapes)


def say(text: str, program: str) -> None:
    """Write a line to standard error after the name of the program; unprintable characters are escaped."""
    try:
        sys.stderr.write(f"{program}: {escaped(text)}\n")
        sys.stderr.flush()
    except (OSError, ValueError):  # closed or full: the exit code is left to tell
        return


def warn_of_token(program: str, remedy: str) -> Callable[[Any, str | None], str | None]:
    """Make the callback of an option that has a token: one that stands on the command line is seen by others."""
    import typer  # noqa: PLC0415 - brokers write without it; Typer reads the annotation

    def warn(context: typer.Context, token: str | None) -> str | None:
        source = context.get_parameter_source("token")
        if token is not None and source is not None and source.name == "COMMANDLINE":
            say(
                f"warning: processes of this machine and the shell's history show what --token has: use {remedy}",
                program,
            )
        return token

    return warn


def escaped(text: str) -> str:
    """The text on one line, with what would move the cursor or hide itself as `\\x1b` and the like."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def write(text: str) -> None:
    """Write to standard output and flush. Raises BrokenPipeError when whoever read it has left."""
    sys.stdout.write(text)
    sys.stdout.flush()


def yaml_text(data: Any) -> str:  # noqa: ANN401 - JSON
    """JSON values as YAML in ASCII; a text stays one for readers of YAML 1.1 and of 1.2, so `1e3` is quoted."""
    import yaml  # noqa: PLC0415 - for those who ask for it

    def quoted(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
        style = "'" if _QUOTED_IN_YAML.fullmatch(text) else None
        return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)

    dumper: Any = type("Dumper", (getattr(yaml, "CSafeDumper", yaml.SafeDumper),), {})
    dumper.add_representer(str, quoted)
    # without allow_unicode whatever is not ASCII is written as an escape
    written: str = yaml.dump(data, Dumper=dumper, sort_keys=False, default_flow_style=False, allow_unicode=False)
    return written


def ended(work: Callable[[], ExitCode], program: str, *, debug: bool = False) -> ExitCode:
    """Do a command's work and answer its exit code; an error is written to standard error.

    With `debug`, or the flag of that name, an error that has no name of ours is shown with its traceback.
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
        if (debug or DEBUG in sys.argv) and not _is_of_output(error):
            traceback.print_exc()
        say(_sentence(error), program)
        discard_stdout()
        return ExitCode.FAILURE


_OF_OUTPUT = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF}


def _is_of_output(error: Exception) -> bool:
    if isinstance(error, io.UnsupportedOperation):
        return True
    return isinstance(error, OSError) and error.errno in _OF_OUTPUT and error.filename is None


def _sentence(error: Exception) -> str:
    """The cause, and the next step."""
    match error:
        case io.UnsupportedOperation():
            return "standard output is closed: redirect it to a file or a pipe, and run the command again"
        case OSError(strerror=str(cause)) if _is_of_output(error):
            return f"cannot write the output: {cause}; make room or write elsewhere, and run the command again"
        case OSError(strerror=str(cause), filename=str(path)):
            return f"cannot use {path}: {cause}; check the path, its permissions and the space there"
        case UnicodeError():
            return f"an argument or a variable is not valid UTF-8 ({error.reason}): write it as UTF-8"  # type: ignore[attr-defined]
        case _:
            return f"internal error: {_one_line(error)}; {DEBUG} shows where, please report it"


def awaited(work: Coroutine[Any, Any, T], *, log_level: str = "warning") -> T:
    """Do asynchronous work; Ctrl-C cancels it, and it then puts itself in order."""
    configure_logging(log_level, "text")
    return asyncio.run(work)


def discard_stdout() -> None:
    """The reader of standard output has left: discard the rest, so that the end of the process is quiet."""
    try:
        number = sys.stdout.fileno()
    except (OSError, ValueError):  # a test's, or closed
        return
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, number)
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


def duration_flag(least_s: float = 0.0, most_s: float = math.inf) -> Any:  # noqa: ANN401 - typer's parameters
    """For a flag of typer's that is a number of seconds: it takes `90s` and `1h30m`, too."""

    def seconds(given: str | float) -> float:
        import typer  # noqa: PLC0415 - brokers have no flag of this kind

        from danube.model.text import seconds_of  # noqa: PLC0415 - as above

        try:
            found = seconds_of(given) if isinstance(given, str) else given  # a default is a number already
        except InvalidRequestError as error:
            raise typer.BadParameter(str(error)) from None
        if not least_s <= found <= most_s:
            end = "" if math.isinf(most_s) else f", {most_s:g} at most"
            raise typer.BadParameter(f"{given!r} is no time for it: {least_s:g} seconds at least{end}")
        return found

    return {"parser": seconds, "metavar": "DURATION"}
