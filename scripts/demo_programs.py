"""The programs that the demo runs: each in a process group of its own, all ended together."""

import asyncio
import contextlib
import os
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping
from pathlib import Path

STEP_S_MAX = 400.0
"""One program, one report."""
_END_S_MAX = 30.0
"""From SIGTERM to SIGKILL."""
_LOG_TAIL_LINES = 15


class DemoFailedError(Exception):
    """The demo failed; the message is a sentence."""


class Programs:
    """The processes of the demo, each the head of a process group of its own, so that none is left behind."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        """`environment` is given to each of them, beside this program's own."""
        self._folder = folder
        self._running: list[Process] = []
        local = {"GRPC_VERBOSITY": "NONE", "PYTHONUNBUFFERED": "1"}
        self._environment = {k: v for k, v in os.environ.items() if not k.lower().endswith("_proxy")} | local
        self._environment |= environment

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

    async def start_on_terminal(self, terminal: int, *arguments: str | Path) -> Process:
        """Start a program whose input and output are one end of a pseudo-terminal."""
        process = await asyncio.create_subprocess_exec(
            *arguments,
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            env={**self._environment, "TERM": "dumb", "COLUMNS": "100"},
            start_new_session=True,
        )
        self._running.append(process)
        return process

    async def run(self, name: str, *arguments: str | Path, timeout_s: float = STEP_S_MAX) -> bytes:
        """Run a program to its end and answer what it wrote to stdout."""
        process = await self.start(name, *arguments)
        async with asyncio.timeout(timeout_s):
            output, _ = await process.communicate()
        if process.returncode != 0:
            raise self.failure(name, f"ended with exit code {process.returncode}")
        return output

    def failure(self, name: str, what: str) -> DemoFailedError:
        """An error that carries the end of the program's log."""
        lines = self.log(name).read_text(errors="replace").splitlines()[-_LOG_TAIL_LINES:]
        return DemoFailedError("\n".join([f"{name} {what}; its log ends:", *(f"    {line}" for line in lines)]))

    def log(self, name: str) -> Path:
        """Path of the program's log."""
        return self._folder / f"{name}.log"

    async def end(self) -> None:
        """End every process group: ask, wait a little, then kill."""
        for process in self._running:
            _signal_group(process, signal.SIGTERM)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_END_S_MAX):
                await asyncio.gather(*(process.wait() for process in self._running))
        for process in self._running:
            _signal_group(process, signal.SIGKILL)


def _signal_group(process: Process, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)
