"""A real broker process to test against: started, killed, ended, started again on the same ports and folder."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from danube.model.errors import UnavailableError
from danube.runtime.settings import ENVIRONMENT_PREFIX

_POLL_S = 0.01
_NO_SETTINGS: Mapping[str, str | int] = {}


@dataclass(frozen=True, slots=True)
class Endpoints:
    """Where a broker process listens, each `host:port`."""

    broker: str
    admin: str
    metrics: str | None

    @property
    def service_url(self) -> str:
        """What clients are given."""
        return f"http://{self.broker}"

    @property
    def admin_url(self) -> str:
        """What administrators are given."""
        return f"http://{self.admin}"


class BrokerProcess:
    """`danube-broker` on a data folder, on free ports that it keeps over restarts. A context manager that kills it.

    `flags` and `settings` (those without a flag) are the broker's; `launcher` is a command that becomes the one behind
    it (`nsenter ...`), so that signals still reach the broker.
    """

    def __init__(
        self,
        data_dir: Path,
        *,
        flags: Sequence[str] = (),
        settings: Mapping[str, str | int] = _NO_SETTINGS,
        launcher: Sequence[str] = (),
        start_timeout_s: float = 20.0,
    ) -> None:
        self.data_dir = data_dir
        self._flags = list(flags)
        self._variables = {f"{ENVIRONMENT_PREFIX}{name.upper()}": str(value) for name, value in settings.items()}
        self._launcher = list(launcher)
        self._start_timeout_s = start_timeout_s
        self._endpoints: Endpoints | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._ready = data_dir.with_name(data_dir.name + ".ready.json")
        self.log_path = data_dir.with_name(data_dir.name + ".log")

    @property
    def endpoints(self) -> Endpoints:
        """Where it listens; known from the first start on."""
        if self._endpoints is None:
            raise UnavailableError("the broker was never started: call start() first")
        return self._endpoints

    @property
    def is_running(self) -> bool:
        """Whether its process is there."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """Of the running process."""
        return self._running().pid

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def start(self) -> Endpoints:
        """Start it and wait until it serves. Raises UnavailableError with its log when it does not."""
        self.launch()
        return self.wait()

    def wait(self) -> Endpoints:
        """Wait until a launched one serves. Raises UnavailableError with its log when it does not."""
        self._endpoints = _endpoints(self._wait_ready())
        return self._endpoints

    def launch(self) -> None:
        """Start it and do not wait for anything."""
        self._ready.unlink(missing_ok=True)
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603 - our own broker
                self._command(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **self._variables},
                start_new_session=True,
            )

    def kill(self) -> None:
        """`kill -9`, and wait until it is gone. Harmless when it is not running."""
        self._end(signal.SIGKILL, timeout_s=10)

    def terminate(self, timeout_s: float = 20.0) -> int:
        """SIGTERM; answers the exit code. Raises subprocess.TimeoutExpired."""
        return self._end(signal.SIGTERM, timeout_s)

    def pause(self) -> None:
        """SIGSTOP."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT."""
        os.kill(self.pid, signal.SIGCONT)

    def log(self) -> str:
        """All it has logged, over all starts."""
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    def resident_bytes(self) -> int:
        """Its resident memory, from /proc."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text(encoding="ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def cpu_s(self) -> float:
        """Processor time it has used."""
        return cpu_s(self.pid)

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise UnavailableError("the broker is not running: call start() first")
        return self._process

    def _command(self) -> list[str]:
        paths = ["--data-dir", str(self.data_dir), "--ready-file", str(self._ready)]
        return [*self._launcher, sys.executable, "-m", "danube.broker", *self._addresses(), *paths, *self._flags]

    def _addresses(self) -> list[str]:
        known = self._endpoints
        broker, admin = (known.broker, known.admin) if known else ("127.0.0.1:0", "127.0.0.1:0")
        return ["--broker-addr", broker, "--admin-addr", admin]

    def _wait_ready(self) -> dict[str, Any]:
        process, deadline = self._running(), time.monotonic() + self._start_timeout_s
        pause = threading.Event()
        while time.monotonic() < deadline and process.poll() is None:
            if self._ready.exists():
                found: dict[str, Any] = json.loads(self._ready.read_bytes())
                return found
            pause.wait(_POLL_S)
        code = process.poll()
        self.kill()
        raise UnavailableError(f"the broker did not start (exit code {code}):\n{self.log()[-4_000:]}")

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


def end_leftover(data_dir: Path) -> None:
    """Kill the broker of a `BrokerProcess` on this folder whose own process died without ending it, if there is one."""
    ready = data_dir.with_name(data_dir.name + ".ready.json")
    with suppress(OSError, ValueError):
        pid = int(json.loads(ready.read_bytes())["pid"])
        command = Path(f"/proc/{pid}/cmdline")
        while str(data_dir).encode() in command.read_bytes().split(b"\0"):  # empty once it is dead
            os.kill(pid, signal.SIGKILL)
            threading.Event().wait(_POLL_S)


def _endpoints(ready: dict[str, Any]) -> Endpoints:
    return Endpoints(ready["broker"], ready["admin"], ready["metrics"])


def cpu_s(pid: int) -> float:
    """Processor time that a process has used, user and system, from /proc."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
