"""Readings of the machine, as far as this broker may use it: limits of its container, memory, disk and network."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from danube.model.limits.balance import BROKER_CORES_MAX, NETWORK_BYTES_PER_S

_CGROUPS = Path("/sys/fs/cgroup")
_OWN = Path("/proc/self/cgroup")
_NO_LIMIT = 1 << 60
"""cgroup v1 writes no limit as a number above this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineReading:
    """Limits and counters at one moment."""

    cores: float = 1.0
    """Processors that the broker may use, at most as many as it can: its Python code runs on one at a time."""
    memory_bytes: int = 0
    """That it may use; 0 where it is not known."""
    io_bytes: int = 0
    """Read and written by this process since it began."""
    network_bytes: int = 0
    """In and out, of all networks but loopback, since the machine began."""
    network_bytes_per_s: float = NETWORK_BYTES_PER_S
    """Capacity of the fastest network."""


class Machine(Protocol):
    """A machine that can be asked."""

    def reading(self) -> MachineReading:
        """Its limits and counters now. May block for a moment."""


class OwnMachine:
    """The machine of this process."""

    def __init__(self, cgroups: Path = _CGROUPS, own: Path = _OWN) -> None:
        """`cgroups` and `own` are where Linux shows control groups, and those of this process."""
        self._cgroups = cgroups
        self._own = own

    def reading(self) -> MachineReading:
        import psutil  # noqa: PLC0415 - a broker starts without it

        cores = min(float(_processors()), cpu_limit(self._folders("cpu")) or BROKER_CORES_MAX, BROKER_CORES_MAX)
        total = psutil.virtual_memory().total
        limit = memory_limit(self._folders("memory"))
        return MachineReading(
            cores=cores,
            memory_bytes=min(total, limit) if limit else total,
            io_bytes=_io_bytes(),
            network_bytes=_network_bytes(),
            network_bytes_per_s=_network_capacity(),
        )

    def _folders(self, controller: str) -> list[Path]:
        """Folders of this process's control group and those above it, the innermost first."""
        try:
            lines = self._own.read_text().splitlines()
        except OSError:
            return []
        found: list[Path] = []
        for line in lines:
            _, controllers, path = (*line.split(":", 2), "", "")[:3]
            if not controllers or controller in controllers.split(","):
                root = self._cgroups / controller if controllers else self._cgroups
                inner = root / path.strip("/")
                found += [inner, *(each for each in inner.parents if each.is_relative_to(root))]
        return list(dict.fromkeys(found))


def cpu_limit(folders: list[Path]) -> float:
    """The smallest limit of processors, of cgroup v2 or v1; 0.0 for none."""
    limits = []
    for folder in folders:
        quota, period = (*_words(folder / "cpu.max"), "", "")[:2]
        if not quota:
            quota, period = _word(folder / "cpu.cfs_quota_us"), _word(folder / "cpu.cfs_period_us")
        if quota.isdecimal() and period.isdecimal() and int(quota) and int(period):
            limits.append(int(quota) / int(period))
    return min(limits, default=0.0)


def memory_limit(folders: list[Path]) -> int:
    """The smallest limit of memory in bytes, of cgroup v2 or v1; 0 for none."""
    texts = [_word(folder / name) for folder in folders for name in ("memory.max", "memory.limit_in_bytes")]
    return min((int(text) for text in texts if text.isdecimal() and 0 < int(text) < _NO_LIMIT), default=0)


def _words(file: Path) -> list[str]:
    try:
        return file.read_text().split()
    except OSError:
        return []


def _word(file: Path) -> str:
    return next(iter(_words(file)), "")


def _processors() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0)) or 1
    return os.cpu_count() or 1


def _io_bytes() -> int:
    import psutil  # noqa: PLC0415 - as above

    try:
        counters = psutil.Process().io_counters()
    except (psutil.Error, OSError, AttributeError):  # not every system tells
        return 0
    return int(counters.read_bytes + counters.write_bytes)


def _network_bytes() -> int:
    import psutil  # noqa: PLC0415 - as above

    try:
        counters = psutil.net_io_counters(pernic=True)
    except (psutil.Error, OSError):
        return 0
    return sum(one.bytes_sent + one.bytes_recv for name, one in counters.items() if not name.startswith("lo"))


def _network_capacity() -> float:
    import psutil  # noqa: PLC0415 - as above

    try:
        networks = psutil.net_if_stats()
    except (psutil.Error, OSError):
        return NETWORK_BYTES_PER_S
    speeds = [one.speed for name, one in networks.items() if one.isup and not name.startswith("lo")]
    return max(speeds, default=0) * 1e6 / 8 or NETWORK_BYTES_PER_S
