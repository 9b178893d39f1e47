"""A process in a pseudo-terminal, which a test types into."""

import os
import pty
import select
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from danube.testing.patience import PATIENCE_S
from tests.plugins import fork_server

ROOT = Path(__file__).parents[4]
WAIT_S = PATIENCE_S


class Terminal:
    """Runs a module with a terminal as its input, output and errors; ends it when the block ends."""

    def __init__(self, program: Sequence[str], environment: dict[str, str]) -> None:
        self._master, slave = pty.openpty()
        self.shown = ""
        size = {"TERM": "xterm", "COLUMNS": "100", "LINES": "40"}
        self._process = fork_server.start(
            [sys.executable, "-m", *program],
            files=[slave] * 3,
            folder=ROOT,
            variables={"PATH": os.environ["PATH"], **size, **environment},
        )
        os.close(slave)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait(WAIT_S)
        os.close(self._master)

    def expect(self, text: str) -> None:
        """Wait until it was shown."""
        deadline = time.monotonic() + WAIT_S
        while text not in self.shown:
            assert time.monotonic() < deadline, self.shown
            assert self._read(deadline), f"it ended before it showed {text!r}:\n{self.shown}"

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def shows_more(self, within_s: float) -> bool:
        """Whether anything is shown within so many seconds."""
        ready, _, _ = select.select([self._master], [], [], within_s)
        return bool(ready)

    def ended(self) -> int:
        """Wait for the end and answer the exit code."""
        deadline = time.monotonic() + WAIT_S
        while self._read(deadline):
            assert time.monotonic() < deadline, self.shown
        return self._process.wait(WAIT_S)

    def _read(self, deadline: float) -> bool:
        """Whether there may be more to come."""
        ready, _, _ = select.select([self._master], [], [], max(0.0, deadline - time.monotonic()))
        assert ready, f"nothing more was shown:\n{self.shown}"
        try:
            data = os.read(self._master, 65_536)
        except OSError:  # the other end is closed
            return False
        self.shown += data.decode()
        return bool(data)
