"""A server of others that tests run against: on a folder and a port of its own, killed, paused and started again."""

import socket
import time
from abc import abstractmethod
from pathlib import Path

from danube.model.errors import UnavailableError
from danube.testing.patience import PATIENCE_S
from danube.testing.processes.child import ChildProcess
from danube.testing.processes.free_ports import free_port

_POLL_S = 0.02

_LOG_CHARS = 2_000


class ServiceProcess(ChildProcess):
    """The process. Its folder and port stay the same over restarts."""

    def __init__(self, folder: Path) -> None:
        """Nothing is started yet; `folder` is made."""
        folder.mkdir(parents=True, exist_ok=True)
        super().__init__(folder / f"{self.name}.log")
        self.folder = folder
        self.port = free_port()

    @property
    def address(self) -> str:
        """`host:port` where clients connect."""
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it and wait until it serves. Raises UnavailableError with the end of its log when it does not."""
        self.launch()
        self.wait_until_it_serves()

    def wait_until_it_serves(self) -> None:
        """Wait until it serves, after `launch`: for servers that need each other to serve. Raises UnavailableError."""
        deadline_s = time.monotonic() + PATIENCE_S
        while not self._serves():
            if not self.is_running or time.monotonic() > deadline_s:
                self.kill()
                raise UnavailableError(f"{self.name} does not start:\n{self.log()[-_LOG_CHARS:]}")
            time.sleep(_POLL_S)

    @abstractmethod
    def _serves(self) -> bool:
        """True once it answers."""


def ask(port: int, request: bytes) -> bytes:
    """The answer of a local port to a few bytes, up to 64 KiB; empty without one."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1.0) as connection:
            connection.sendall(request)
            return connection.recv(65_536)
    except OSError:
        return b""
