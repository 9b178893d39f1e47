"""A real broker process to test against: started, killed, ended, started again on the same ports and folder."""

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from danube.model.errors import UnavailableError
from danube.runtime.settings import ENVIRONMENT_PREFIX
from danube.testing.patience import PATIENCE_S
from danube.testing.processes.child import ChildProcess

_POLL_S = 0.01
_NO_SETTINGS: Mapping[str, str | int] = {}


@dataclass(frozen=True, slots=True)
class Endpoints:
    """Listen addresses of a broker process, each `host:port`."""

    broker: str
    admin: str
    metrics: str | None
    schemas: str | None = None
    """Of the schema registry over HTTP, where it is switched on."""
    scheme: str = "http"

    @property
    def service_url(self) -> str:
        """The URL for clients."""
        return f"{self.scheme}://{self.broker}"

    @property
    def admin_url(self) -> str:
        """The URL for administrators."""
        return f"{self.scheme}://{self.admin}"


class BrokerProcess(ChildProcess):
    """`danube-broker` on a data folder, on free ports that it keeps over restarts.

    `flags` and `settings` (those without a flag) are the broker's; `launcher` is a command that becomes the one behind
    it (`nsenter ...`), so that signals still reach the broker.
    """

    name = "the broker"

    def __init__(
        self,
        data_dir: Path,
        *,
        flags: Sequence[str] = (),
        settings: Mapping[str, str | int] = _NO_SETTINGS,
        launcher: Sequence[str] = (),
        start_timeout_s: float = PATIENCE_S,
    ) -> None:
        variables = {f"{ENVIRONMENT_PREFIX}{name.upper()}": str(value) for name, value in settings.items()}
        super().__init__(data_dir.with_name(data_dir.name + ".log"), variables)
        self.data_dir = data_dir
        self._flags = list(flags)
        self._launcher = list(launcher)
        self._start_timeout_s = start_timeout_s
        self._endpoints: Endpoints | None = None
        self._scheme = "https" if settings.get("auth_mode", "none") != "none" else "http"
        self._ready = data_dir.with_name(data_dir.name + ".ready.json")

    @property
    def endpoints(self) -> Endpoints:
        """Its listen addresses, known from the first start on."""
        if self._endpoints is None:
            raise UnavailableError("the broker was never started: call start() first")
        return self._endpoints

    def start(self) -> Endpoints:
        """Start it and wait until it serves. Raises UnavailableError with its log when it does not."""
        self.launch()
        return self.wait()

    def wait(self) -> Endpoints:
        """Wait until a launched one serves. Raises UnavailableError with its log when it does not."""
        ready = self._wait_ready()
        places = (ready["broker"], ready["admin"], ready["metrics"], ready.get("schemas"))
        self._endpoints = Endpoints(*places, self._scheme)
        return self._endpoints

    def launch(self) -> None:
        self._ready.unlink(missing_ok=True)
        super().launch()

    def _command(self) -> list[str]:
        paths = ["--data-dir", str(self.data_dir), "--ready-file", str(self._ready)]
        return [*self._launcher, sys.executable, "-m", "danube.broker", *self._addresses(), *paths, *self._flags]

    def _addresses(self) -> list[str]:
        known = self._endpoints
        broker, admin = (known.broker, known.admin) if known else ("127.0.0.1:0", "127.0.0.1:0")
        return ["--broker-addr", broker, "--admin-addr", admin]

    def _wait_ready(self) -> dict[str, Any]:
        pause, deadline_s = threading.Event(), time.monotonic() + self._start_timeout_s
        while time.monotonic() < deadline_s and self.is_running:
            if self._ready.exists():
                found: dict[str, Any] = json.loads(self._ready.read_bytes())
                return found
            pause.wait(_POLL_S)
        code = self.exit_code
        self.kill()
        raise UnavailableError(f"the broker did not start (exit code {code}):\n{self.log()[-4_000:]}")


def end_leftover(data_dir: Path) -> None:
    """Kill the broker of a `BrokerProcess` on this folder whose own process died without ending it, if there is one."""
    ready = data_dir.with_name(data_dir.name + ".ready.json")
    with suppress(OSError, ValueError):
        pid = int(json.loads(ready.read_bytes())["pid"])
        command = Path(f"/proc/{pid}/cmdline")
        while str(data_dir).encode() in command.read_bytes().split(b"\0"):  # empty once it is dead
            os.kill(pid, signal.SIGKILL)
            threading.Event().wait(_POLL_S)
