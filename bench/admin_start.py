"""Start-up time of `danube-admin`, measured by its help."""

import subprocess
import sys
import time
from collections.abc import Iterator

from bench.result import Figure, median

RUNS = 7
COMMANDS = (["--help"], ["topics", "create", "--help"], ["spec"])


def run() -> Iterator[Figure]:
    """Start the command a few times, as it is typed and after a first run that nobody counts."""
    bare = [sys.executable, "-c", "pass"]
    yield Figure("python, which does nothing", _median_ms(bare), "ms", f"median of {RUNS}")
    for words in COMMANDS:
        command = [sys.executable, "-m", "danube.admin", *words]
        yield Figure(f"danube-admin {' '.join(words)}", _median_ms(command), "ms", f"median of {RUNS}")


def _median_ms(command: list[str]) -> float:
    return median([_elapsed_s(command) for _ in range(RUNS + 1)][1:]) * 1e3


def _elapsed_s(command: list[str]) -> float:
    before = time.monotonic()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    return time.monotonic() - before
