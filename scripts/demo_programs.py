"""The processes of the demo: each in a process group of its own, all ended together, and a broker that can be lost."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from asyncio.subprocess import PIPE, Process
from dataclasses import dataclass
from pathlib import Path

BIN = Path(sys.executable).parent
STEP_S_MAX = 60.0
_END_S_MAX = 5.0
"""From SIGTERM to SIGKILL."""
_POLL_S = 0.02
_LOG_TAIL_LINES = 15


class DemoFailedError(Exception):
    """What went wrong, as a sentence."""


class Programs:
    """The processes of the demo, each the head of a process group of its own, so that none is left behind."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running: list[Process] = []
        self._apart: list[subprocess.Popen[bytes]] = []
        local = {"GRPC_VERBOSITY": "NONE", "PYTHONUNBUFFERED": "1"}
        self._environment = {k: v for k, v in os.environ.items() if not k.lower().endswith("_proxy")} | local

    async def start(self, name: str, *arguments: str | Path) -> Process:
        """Start a program to talk with; what it says on stderr goes to its log."""
        with self.log(name).open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                *arguments,
                stdin=PIPE,
                stdout=PIPE,
                stderr=log,
                env=self._environment,
                start_new_session=True,
            )
        self._running.append(process)
        return process

    async def run(self, name: str, *arguments: str | Path) -> bytes:
        """Run a program to its end and answer what it wrote to stdout."""
        process = await self.start(name, *arguments)
        async with asyncio.timeout(STEP_S_MAX):
            output, _ = await process.communicate()
        if process.returncode != 0:
            raise self.failure(name, f"ended with exit code {process.returncode}")
        return output

    def failure(self, name: str, what: str) -> DemoFailedError:
        """An error that carries the end of the program's log."""
        lines = self.log(name).read_text(errors="replace").splitlines()[-_LOG_TAIL_LINES:]
        return DemoFailedError("\n".join([f"{name} {what}; its log ends:", *(f"    {line}" for line in lines)]))

    def log(self, name: str) -> Path:
        """Where the program's log is."""
        return self._folder / f"{name}.log"

    def start_apart(self, name: str, *arguments: str | Path) -> subprocess.Popen[bytes]:
        """Start a program that may outlive this one; all it says goes to its log."""
        with self.log(name).open("ab") as log:
            process = subprocess.Popen(
                arguments,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._environment,
                start_new_session=True,
            )
        self._apart.append(process)
        return process

    def leave_running(self, process: subprocess.Popen[bytes]) -> None:
        """Let this one live on when the others are ended."""
        self._apart.remove(process)

    async def end(self) -> None:
        """End every process group: ask, wait a little, then kill."""
        running: list[Process | subprocess.Popen[bytes]] = [*self._running, *self._apart]
        for process in running:
            signal_group(process, signal.SIGTERM)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_END_S_MAX):
                await asyncio.gather(*(process.wait() for process in self._running))
                await asyncio.gather(*(ended(process) for process in self._apart))
        for process in running:
            signal_group(process, signal.SIGKILL)


async def ended(process: subprocess.Popen[bytes]) -> None:
    """Return once the process has ended."""
    while process.poll() is None:  # noqa: ASYNC110 - not a child of asyncio, which would kill it when we end
        await asyncio.sleep(_POLL_S)


def signal_group(process: Process | subprocess.Popen[bytes], number: signal.Signals) -> None:
    """Signal the process and all that it started, if any of it is left."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)


@dataclass(frozen=True, slots=True)
class Served:
    """What a broker says of itself once it serves."""

    client_port: str
    admin_port: str
    pid: int
    startup_s: float


class Broker:
    """One standalone broker that can be lost and started again on the same ports and folder."""

    def __init__(self, programs: Programs, folder: Path) -> None:
        self._programs = programs
        self._data = folder / "broker"
        self._ready_file = folder / "ready.json"
        self._client_port = self._admin_port = "127.0.0.1:0"
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Where clients find it."""
        return f"http://{self._client_port}"

    async def start(self) -> Served:
        """Start it and wait until it serves."""
        begun = time.monotonic()
        self._ready_file.unlink(missing_ok=True)
        ports = ["--broker-addr", self._client_port, "--admin-addr", self._admin_port]
        command: list[str | Path] = [BIN / "danube-broker", "--mode", "standalone", "--data-dir", self._data, *ports]
        self.process = self._programs.start_apart("broker", *command, "--ready-file", self._ready_file)
        async with asyncio.timeout(STEP_S_MAX):
            while not self._ready_file.exists():
                if self.process.poll() is not None:
                    raise self._programs.failure("broker", f"ended with exit code {self.process.returncode}")
                await asyncio.sleep(_POLL_S)
        said = json.loads(self._ready_file.read_text())
        self._client_port, self._admin_port = said["broker"], said["admin"]
        return Served(said["broker"], said["admin"], said["pid"], time.monotonic() - begun)

    async def kill(self) -> None:
        """Take it away without a warning, as `kill -9` does."""
        if self.process is not None:
            signal_group(self.process, signal.SIGKILL)
            await ended(self.process)
