"""The client processes that keep a broker busy: started one by one, counted, ended. Every method blocks."""

import json
import os
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

from danube.model.errors import UnavailableError
from danube.model.topic import TopicName

NICENESS = 10
"""So that clients do not take the processor from the brokers; the brokers have 0."""
_BEGIN_S_MAX = 60.0
_END_S = 10.0
_POLL_S = 0.05
_TAIL_BYTES = 1_000
"""Of the counts of a client: its last line is in it."""


class Clients:
    """Programs of `lab.trials.load` on one topic, to be ended by `close`."""

    def __init__(self, service_url: str, topic: TopicName, folder: Path) -> None:
        self._command = [sys.executable, "-m", "lab.trials.load", service_url, str(topic)]
        self._folder = folder
        self._processes: list[subprocess.Popen[bytes]] = []

    def __len__(self) -> int:
        return len(self._processes)

    def close(self) -> None:
        """End all of them."""
        for process in self._processes:
            if process.stdin is not None:
                process.stdin.close()
        for process in self._processes:
            try:
                process.wait(_END_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def add(self) -> None:
        """Start one more; returns when it moves messages. Raises UnavailableError when it does not."""
        number = len(self._processes)
        with self._counts(number).open("wb") as counts, self._errors(number).open("wb") as errors:
            process = subprocess.Popen(  # noqa: S603 - our own program
                self._command, stdin=subprocess.PIPE, stdout=counts, stderr=errors, start_new_session=True
            )
        _make_nice(process.pid)
        self._processes.append(process)
        pause, deadline_s = threading.Event(), time.monotonic() + _BEGIN_S_MAX
        while not self._moved(number):
            self.check()
            if time.monotonic() > deadline_s:
                raise UnavailableError(f"a client has moved no message for {_BEGIN_S_MAX:.0f} s: {self._said(number)}")
            pause.wait(_POLL_S)

    def messages(self) -> int:
        """Sent and read by all of them."""
        return sum(map(self._moved, range(len(self._processes))))

    def check(self) -> None:
        """Raises UnavailableError with the last words of a client that ended by itself."""
        for number, process in enumerate(self._processes):
            if process.poll() is not None:
                raise UnavailableError(f"a client ended by itself: {self._said(number)}")

    def _moved(self, number: int) -> int:
        """By what it has said last."""
        with self._counts(number).open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
            lines = [line for line in file.read().splitlines(keepends=True) if line.endswith(b"\n")]
        told = json.loads(lines[-1]) if lines else {"sent": 0, "read": 0}
        return int(told["sent"]) + int(told["read"])

    def _said(self, number: int) -> str:
        return self._errors(number).read_text(errors="replace")[-_TAIL_BYTES:].strip()

    def _counts(self, number: int) -> Path:
        return self._folder / f"client{number + 1}.jsonl"

    def _errors(self, number: int) -> Path:
        return self._folder / f"client{number + 1}.log"


def _make_nice(pid: int) -> None:
    """Where Linux shares processors among sessions first (autogroups), a nice process is so in its session only."""
    os.setpriority(os.PRIO_PROCESS, pid, NICENESS)
    with suppress(OSError):  # there are no autogroups
        Path(f"/proc/{pid}/autogroup").write_text(str(NICENESS), encoding="ascii")
