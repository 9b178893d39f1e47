"""Effect of other disk load on a plain log: its latency, in a process of its own, and when its syncs stood still."""

import asyncio
import json
import subprocess
import sys
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.live import Arrival

STALL_S = 0.02
"""A sync that takes longer than this did not wait for what a few others write, but for the disk."""

_PROGRAM = Path(__file__).with_name("plain_log_program.py")


@dataclass(frozen=True, slots=True)
class PlainLog:
    """Measurements of a log."""

    latencies_s: Sequence[float]
    """Of each message, from when it was due to the end of the sync behind it."""
    stalls_s: Sequence[tuple[float, float]]
    """When a sync of it stood still: begin and end, monotonic, in order."""

    def answered(self, arrivals: Sequence[Arrival]) -> list[Arrival]:
        """Latencies of writes that were under way only while the disk answered this log, too."""
        begins_s = [begin_s for begin_s, _ in self.stalls_s]

        def is_answered(arrival: Arrival) -> bool:
            number = bisect_right(begins_s, arrival.received_s) - 1
            return number < 0 or self.stalls_s[number][1] < arrival.due_s

        return [arrival for arrival in arrivals if is_answered(arrival)]


async def run_plain_log(
    path: Path, per_second: int, seconds: float, *, pace: int = 0, files: Sequence[Path] = ()
) -> PlainLog:
    """Run one, that appends to `path`; beside a plain reader of `files` with a `pace`, in bytes a second."""
    command = [sys.executable, str(_PROGRAM), str(path), str(per_second), str(seconds), str(pace), *map(str, files)]
    running = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
    told, _ = await running.communicate()
    if running.returncode:
        raise RuntimeError(f"the plain log ended with {running.returncode}")
    written = json.loads(told)
    stalls_s = [(began_s, ended_s) for began_s, ended_s in written["syncs_s"] if ended_s - began_s > STALL_S]
    return PlainLog(written["latencies_s"], stalls_s)
