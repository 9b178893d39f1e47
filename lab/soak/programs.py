"""The programs that load a broker during a round: started, watched, ended; what they say is in files."""

import asyncio
import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from danube.testing.patience import PATIENCE_S
from lab.soak import load
from lab.soak.plan import LoadedTopic

BEGIN_S = PATIENCE_S
"""Until a program has stored its first message: an interpreter starts, and a machine may be busy."""
GO_ON_S = 6.0
"""Until it stores again behind a restart: a channel waits a second or more before it connects once more."""
END_S = PATIENCE_S
_POLL_S = 0.05


@dataclass(frozen=True, slots=True)
class Application:
    """What one program does, and with whose client."""

    name: str
    """Of its files."""
    python: Path
    topics: tuple[LoadedTopic, ...]


class Programs:
    """The running programs of a round. A context manager that ends them; they also end when this process does."""

    def __init__(self, applications: Sequence[Application], service_url: str, folder: Path) -> None:
        self._applications = applications
        self._service_url = service_url
        self._folder = folder
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        for one in self._applications:
            self._processes[one.name] = self._start(one)
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes.values():
            if process.stdin is not None:
                process.stdin.close()
        for process in self._processes.values():
            try:
                process.wait(END_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    async def begun(self) -> None:
        """Return once each has stored a message, or one has ended. Raises TimeoutError."""
        if not await self._all_store(dict.fromkeys(self._processes, 0), BEGIN_S):
            raise TimeoutError(f"a program has stored nothing for {BEGIN_S:.0f} s")

    async def go_on(self) -> None:
        """Return once each has stored one more, or it takes too long."""
        await self._all_store({name: len(self._lines(name)) for name in self._processes}, GO_ON_S)

    async def _all_store(self, since: Mapping[str, int], wait_s: float) -> bool:
        for _ in range(round(wait_s / _POLL_S)):
            if self.ended() or all(self._stores(name, lines) for name, lines in since.items()):
                return True
            await asyncio.sleep(_POLL_S)
        return False

    def ended(self) -> list[str]:
        """Which of them have ended by themselves, and their last words."""
        return [
            f"the program of {name} ended: {self._errors(name).read_text(errors='replace')[-600:].strip()}"
            for name, process in self._processes.items()
            if process.poll() is not None
        ]

    def _start(self, one: Application) -> subprocess.Popen[bytes]:
        plan = json.dumps([topic.as_plan() for topic in one.topics])
        command = [str(one.python), "-I", load.__file__, self._service_url, plan, str(self._report(one.name))]
        with self._errors(one.name).open("ab") as errors:  # no pipe: a client writes a lot while its broker is away
            return subprocess.Popen(  # noqa: S603 - our own program
                command, stdin=subprocess.PIPE, stdout=errors, stderr=errors, start_new_session=True
            )

    def _stores(self, name: str, since: int) -> bool:
        return any(json.loads(line)["stored"] for line in self._lines(name)[since:])

    def _lines(self, name: str) -> list[str]:
        path = self._report(name)
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        return [line for line in text.splitlines(keepends=True) if line.endswith("\n")]

    def _report(self, name: str) -> Path:
        return self._folder / f"{name}.jsonl"

    def _errors(self, name: str) -> Path:
        return self._folder / f"{name}.errors"
