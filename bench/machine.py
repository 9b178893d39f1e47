"""Description of the machine, in one line."""

import os
import platform
from importlib.metadata import version
from pathlib import Path


def describe() -> str:
    """Processor, cores, memory, kernel and the versions that decide."""
    return (
        f"{_processor()}, {os.cpu_count()} cores, {_memory_gb():.0f} GB, {platform.system()} {platform.release()}, "
        f"Python {platform.python_version()}, grpcio {version('grpcio')}, protobuf {version('protobuf')}"
    )


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _memory_gb() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
