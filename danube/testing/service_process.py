"""A server of others that tests run against: on a folder and a port of its own, killed, paused and started again."""

import os
import signal
import socket
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from danube.model.errors import UnavailableError
from danube.testing.free_ports import free_port

_POLL_S = 0.02
_START_TIMEOUT_S = 30.0
_LOG_CHARS = 2_000


class ServiceProcess(ABC):
    """The process. A context manager that kills it. Its folder and port stay the same over restarts."""

    name: str

    def __init__(self, folder: Path) -> None:
        """Nothing is started yet; `folder` is made."""
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self._paused = False
        self._log_path = folder / f"{self.name}.log"

    @property
    def address(self) -> str:
        """`host:port` where clients connect."""
        return f"127.0.0.1:{self.port}"

    @property
    def is_running(self) -> bool:
        """Whether its process is there."""
        return self._process is not None and self._process.poll() is None

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

    def start(self) -> None:
        """Start it and wait until it serves. Raises UnavailableError with the end of its log when it does not."""
        self.launch()
        deadline_s = time.monotonic() + _START_TIMEOUT_S
        while not self._serves():
            if not self.is_running or time.monotonic() > deadline_s:
                self.kill()
                raise UnavailableError(f"{self.name} does not start:\n{self.log()[-_LOG_CHARS:]}")
            time.sleep(_POLL_S)

    def launch(self) -> None:
        """Start it and do not wait for anything."""
        with self._log_path.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603 - a command of ours
                self._command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    def kill(self) -> None:
        """`kill -9`, and wait until it is gone. Harmless when it is not running."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(timeout=10)
        self._paused = False

    def pause(self) -> None:
        """SIGSTOP."""
        os.kill(self.pid, signal.SIGSTOP)
        self._paused = True

    def resume(self) -> None:
        """SIGCONT. Harmless when it is not paused."""
        if self._paused:
            os.kill(self.pid, signal.SIGCONT)
            self._paused = False

    def log(self) -> str:
        """All it has said, over all starts."""
        return self._log_path.read_text(errors="replace") if self._log_path.exists() else ""

    def resident_bytes(self) -> int:
        """Its resident memory, from /proc."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text(encoding="ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    @abstractmethod
    def _command(self) -> Sequence[str]:
        """What starts it."""

    @abstractmethod
    def _serves(self) -> bool:
        """Whether it answers."""


def ask(port: int, request: bytes) -> bytes:
    """What a local port answers to a few bytes, up to 64 KiB; nothing where nobody does."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1.0) as connection:
            connection.sendall(request)
            return connection.recv(65_536)
    except OSError:
        return b""
