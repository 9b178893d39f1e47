"""What this process costs its machine."""

import gc
import resource
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

_STATM = Path("/proc/self/statm")
_MAXRSS_BYTES = 1 if sys.platform == "darwin" else 1_024


@dataclass(frozen=True, slots=True)
class ProcessUsage:
    """Of one process, at one moment."""

    cpu_s: float
    """Processor time since it began, user and system, all threads."""
    rss_bytes: int
    """Memory that it holds; where the system does not tell, the most it ever held."""


class Process(Protocol):
    """A process that can be asked what it uses."""

    def usage(self) -> ProcessUsage:
        """What it uses now. May block for a moment."""


class OwnProcess:
    """The process that asks."""

    def usage(self) -> ProcessUsage:
        return ProcessUsage(time.process_time(), _resident_bytes())


def _resident_bytes() -> int:
    try:
        return int(_STATM.read_bytes().split()[1]) * resource.getpagesize()
    except (OSError, IndexError, ValueError):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _MAXRSS_BYTES


def settle_memory() -> None:
    """Have the garbage collector leave alone what a start has made: modules and tables, which live to the end.

    Else each of its full rounds, on the event loop in the midst of everything, would look at all of it again.
    """
    gc.collect()
    gc.freeze()
