"""Programs that load a broker: each writes lines of JSON to a file until its standard input ends."""

import json
import os
import subprocess
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from danube.testing.patience import PATIENCE_S

_LAST_WORDS = 1_000


class Program:
    """One running program; it also ends when this process does. `report` is the file that it writes."""

    def __init__(self, name: str, command: Sequence[str], report: Path, *, niceness: int = 0) -> None:
        self.name = name
        self.report = report
        self._errors = report.with_suffix(".errors")
        with self._errors.open("ab") as errors:  # no pipe: a client writes a lot while its broker is away
            self._process = subprocess.Popen(  # noqa: S603 - our own program
                command, stdin=subprocess.PIPE, stdout=errors, stderr=errors, start_new_session=True
            )
        if niceness:
            _make_nice(self._process.pid, niceness)

    def lines(self) -> list[Any]:
        """Lines of its report; a last line that is torn is left out."""
        text = self.report.read_text(encoding="utf-8") if self.report.exists() else ""
        return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]

    def last_words(self) -> str:
        return self._errors.read_text(errors="replace")[-_LAST_WORDS:].strip()

    def ended(self) -> str | None:
        """The reason if it ended by itself; None while it runs."""
        return None if self._process.poll() is None else f"the program {self.name} ended: {self.last_words()}"

    def tell_to_end(self) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()

    def wait(self) -> None:
        """Wait until it has ended; kill it when that takes too long."""
        try:
            self._process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def end_programs(programs: Iterable[Program]) -> None:
    """End all of them. Blocks."""
    programs = list(programs)
    for program in programs:
        program.tell_to_end()
    for program in programs:
        program.wait()


def _make_nice(pid: int, niceness: int) -> None:
    """Lower its priority, among sessions too, where Linux shares processors among those first (autogroups)."""
    os.setpriority(os.PRIO_PROCESS, pid, niceness)
    with suppress(OSError):  # there are no autogroups
        Path(f"/proc/{pid}/autogroup").write_text(str(niceness), encoding="ascii")
