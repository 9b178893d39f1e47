"""This process: the resources that it uses, its event loop, the signals that end it, and its structured log on stderr.

Nothing else configures logging.
"""

import asyncio
import gc
import json
import logging
import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import FrameType
from typing import IO, Any, Literal, Protocol, TypeVar

from danube.model.errors import SettingsError
from danube.model.text import install_text

T = TypeVar("T")

ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
"""SIGHUP says that the terminal is gone: without a handler it kills the process."""

_STATM = Path("/proc/self/statm")
_MAXRSS_BYTES = 1 if sys.platform == "darwin" else 1_024


@dataclass(frozen=True, slots=True)
class ProcessUsage:
    """Resources of one process, at one moment."""

    cpu_s: float
    """Processor time since it began, user and system, all threads."""
    rss_bytes: int
    """Memory in use; where the system does not tell, the peak."""


class Process(Protocol):
    """A process that can be asked what it uses."""

    def usage(self) -> ProcessUsage:
        """The resources that it uses now. May block for a moment."""


class OwnProcess:
    """The process that asks."""

    def usage(self) -> ProcessUsage:
        return ProcessUsage(time.process_time(), _resident_bytes())


def _resident_bytes() -> int:
    try:
        return int(_STATM.read_bytes().split()[1]) * resource.getpagesize()
    except (OSError, IndexError, ValueError):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _MAXRSS_BYTES


def settle_memory() -> None:
    """Have the garbage collector leave alone what a start has made: modules and tables, which live to the end.

    Else each of its full rounds, on the event loop in the midst of everything, would look at all of it again.
    """
    gc.collect()
    gc.freeze()


class EventLoop(StrEnum):
    """Implementations of asyncio's event loop."""

    AUTO = "auto"
    """uvloop where it is installed."""
    ASYNCIO = "asyncio"
    UVLOOP = "uvloop"


def run_loop(main: Coroutine[Any, Any, T], kind: EventLoop) -> T:
    """Run `main` to its end on a loop of this kind. Raises SettingsError where uvloop is wanted and missing."""
    try:
        factory = _loop_factory(kind)
    except SettingsError:
        main.close()
        raise
    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(main)


def _loop_factory(kind: EventLoop) -> Callable[[], asyncio.AbstractEventLoop] | None:
    if kind is EventLoop.ASYNCIO:
        return None
    try:
        from uvloop import new_event_loop  # noqa: PLC0415 - an extra
    except ImportError:
        if kind is EventLoop.AUTO:
            return None
        raise SettingsError(
            f"event_loop is uvloop, which is not installed: say auto, or install it with {install_text('speed')}"
        ) from None
    return new_event_loop


def on_end(call: Callable[[], object], numbers: Sequence[signal.Signals] = ENDING) -> list[signal.Signals]:
    """Have the running loop call this for these signals; answers for which it does.

    A SIGHUP that is ignored, as under nohup, stays ignored.
    """
    hung_up_is_nothing = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    handled = [number for number in numbers if number is not signal.SIGHUP or not hung_up_is_nothing]
    for number in handled:
        asyncio.get_running_loop().add_signal_handler(number, call)
    return handled


@contextmanager
def signals_held(*, alarm_grace_s: float) -> Iterator[None]:
    """Let signals that raise do so afterwards: for what must not break off, or takes any error for its own.

    A second one ends the process at once, and so does an alarm that was held, after `alarm_grace_s`.
    """
    held: list[int] = []

    def hold(number: int, _frame: FrameType | None) -> None:
        held.append(number)
        signal.signal(number, signal.SIG_DFL)
        if number == signal.SIGALRM:
            signal.setitimer(signal.ITIMER_REAL, alarm_grace_s)

    is_main = threading.current_thread() is threading.main_thread()
    numbers = (signal.SIGTERM, signal.SIGALRM, signal.SIGINT) if is_main else ()
    raising = {number: how for number in numbers if callable(how := signal.getsignal(number))}
    for number in raising:
        signal.signal(number, hold)
    try:
        yield
    finally:
        for number, how in raising.items():
            signal.signal(number, how)
    for came in held:
        signal.raise_signal(came)


def last_line_of(log: IO[bytes], bytes_max: int) -> str:
    """The last line of what a process has written to a file, within its last bytes; empty when it wrote nothing."""
    size = os.fstat(log.fileno()).st_size
    end = os.pread(log.fileno(), bytes_max, max(0, size - bytes_max))
    lines = [line.strip() for line in end.decode(errors="replace").splitlines()]
    return next((line for line in reversed(lines) if line), "")


LogFormat = Literal["text", "json"]

_OWN = ("danube", "spark_analytics")
"""Below `info` only these log: what libraries tell there has headers in it, and so tokens."""

_TEXT = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"


class _JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        entry = {
            "time": self.formatTime(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            entry["traceback"] = self.formatException(record.exc_info)
        return json.dumps(entry)


def configure_logging(level: str, log_format: LogFormat, reword: Callable[[str], str] | None = None) -> None:
    """Send the log to stderr, at `level` ("debug", "info", "warning", "error") and above.

    `reword` may change each message; it may be called from any thread.
    """
    handler = logging.StreamHandler(sys.stderr)
    if reword is not None:
        handler.addFilter(_rewording(reword))
    handler.setFormatter(_JsonFormatter() if log_format == "json" else logging.Formatter(_TEXT))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for name in _OWN:
        logging.getLogger(name).setLevel(root.level if root.level < logging.INFO else logging.NOTSET)
    root.setLevel(max(root.level, logging.INFO))


def _rewording(reword: Callable[[str], str]) -> Callable[[logging.LogRecord], bool]:
    def apply(record: logging.LogRecord) -> bool:
        try:
            message = record.getMessage()
        except (TypeError, ValueError, KeyError):  # of whoever logs: the handler says so, and its caller goes on
            return True
        record.msg, record.args = reword(message), ()
        return True

    return apply
