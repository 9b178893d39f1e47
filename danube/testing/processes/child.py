"""A program in a process of its own to test against: started, killed, paused and watched, its log kept over starts."""

import os
import signal
import subprocess
import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, ClassVar, Protocol, Self

from danube.model.errors import UnavailableError
from danube.testing.patience import PATIENCE_S

_POLL_S = 0.001
_AT_WORK = "RSD"


class Started(Protocol):
    """A process that was started, as `subprocess.Popen` is one."""

    pid: int

    def poll(self) -> int | None:
        """Its exit code; None while it runs."""

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code once it has ended. Raises TimeoutExpired."""

    def send_signal(self, sig: int) -> None:
        """Harmless when it has ended."""

    def kill(self) -> None:
        """SIGKILL."""


class Starter(Protocol):
    """A way to start processes."""

    def __call__(self, command: Sequence[str], output: BinaryIO, variables: dict[str, str]) -> Started:
        """Start `command` in a session of its own, with nothing to read and `variables` as its whole environment."""


def start_anew(command: Sequence[str], output: BinaryIO, variables: dict[str, str]) -> Started:
    """Start a process the usual way."""
    return subprocess.Popen(  # noqa: S603 - a command of ours
        command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=variables, start_new_session=True
    )


class ChildProcess(ABC):
    """The process; one at a time. A context manager that starts and kills it. Every method may block."""

    name: str
    """In errors."""
    starter: ClassVar[Starter] = staticmethod(start_anew)
    """Of all of them: a test suite may know a quicker way."""

    def __init__(self, log_path: Path, variables: dict[str, str] | None = None) -> None:
        """Nothing is started yet. `variables` are added to the environment."""
        self.log_path = log_path
        """Its output is appended to this file."""
        self._variables = variables or {}
        self._process: Started | None = None

    @property
    def is_running(self) -> bool:
        """True while its process runs."""
        return self._process is not None and self._process.poll() is None

    @property
    def exit_code(self) -> int | None:
        """Of one that ended by itself; None of one that runs, and where there is none."""
        return None if self._process is None else self._process.poll()

    @property
    def pid(self) -> int:
        """Of the running process. Raises UnavailableError when there is none."""
        if self._process is None or self._process.poll() is not None:
            raise UnavailableError(f"{self.name} does not run: call start() first")
        return self._process.pid

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    @abstractmethod
    def start(self) -> object:
        """Start it and wait until it serves. Raises UnavailableError with the end of its log when it does not."""

    @abstractmethod
    def _command(self) -> Sequence[str]:
        """The command line."""

    def launch(self) -> None:
        """Start it and do not wait for anything."""
        with self.log_path.open("ab") as log:
            self._process = self.starter(self._command(), log, {**os.environ, **self._variables})

    def kill(self) -> None:
        """`kill -9`, and wait until it is gone. Harmless when it is not running."""
        self._end(signal.SIGKILL, PATIENCE_S)

    def terminate(self, timeout_s: float = PATIENCE_S, number: signal.Signals = signal.SIGTERM) -> int:
        """SIGTERM, or another signal; answers the exit code. Raises TimeoutExpired, and then it was killed."""
        return self._end(number, timeout_s)

    def pause(self) -> None:
        """SIGSTOP; when this returns it stands still."""
        pause(self.pid)

    def resume(self) -> None:
        """SIGCONT. Harmless when it is not paused, and when it is not there."""
        with suppress(UnavailableError):
            os.kill(self.pid, signal.SIGCONT)

    def log(self) -> str:
        """All it has said, over all starts."""
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    def resident_bytes(self) -> int:
        """Its resident memory, from /proc."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text(encoding="ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def cpu_s(self) -> float:
        """Processor time it has used."""
        return cpu_s(self.pid)

    def waited_s(self) -> float:
        """Seconds for which its main thread was ready to run and had no processor."""
        return int(Path(f"/proc/{self.pid}/schedstat").read_text(encoding="ascii").split()[1]) / 1e9

    def _end(self, number: signal.Signals, timeout_s: float) -> int:
        process, self._process = self._process, None
        if process is None:
            return 0
        if process.poll() is None:
            process.send_signal(number)
        try:
            return process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(timeout_s)
            raise


def pause(pid: int) -> None:
    """SIGSTOP, and wait until it stands still.

    Until one of its threads has seen the signal, which takes a moment where processors are busy, the others go on.
    """
    os.kill(pid, signal.SIGSTOP)
    moment = threading.Event()
    with suppress(FileNotFoundError, ProcessLookupError):  # it has ended, and somebody knows already
        while any(_state(path) in _AT_WORK for path in Path(f"/proc/{pid}/task").iterdir()):
            moment.wait(_POLL_S)


def _state(task: Path) -> str:
    return (task / "stat").read_text(encoding="ascii").rpartition(")")[2].split()[0]


def cpu_s(pid: int) -> float:
    """Processor time that a process has used, user and system, from /proc."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
