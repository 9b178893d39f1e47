"""Processes that outlive a test run which was killed: noted in a folder while they run, ended when it is used again."""

import os
import signal
import threading
from contextlib import suppress
from pathlib import Path

_POLL_S = 0.01
_SUFFIX = ".pid"


def note_process(folder: Path, name: str, pid: int) -> None:
    """Write down that this process runs for the folder; the last one of a name counts."""
    (folder / f"{name}{_SUFFIX}").write_text(f"{pid} {_began(pid)}", encoding="ascii")


def end_leftovers(folder: Path) -> None:
    """`kill -9` what was noted and still runs, and wait until it is gone. A pid that is another's by now is spared."""
    for note in folder.glob(f"*{_SUFFIX}"):
        pid, _, began = note.read_text(encoding="ascii").partition(" ")
        while began and _began(int(pid)) == began:
            with suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
            threading.Event().wait(_POLL_S)
        note.unlink()


def _began(pid: int) -> str:
    """When it was started, in ticks since the machine was; "" when it does not run, a zombie neither."""
    with suppress(OSError):
        state, *fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        return "" if state == "Z" else fields[18]
    return ""
