"""Rules for a machine that is to run a broker: what of it is wrong, how badly, and what to do. No I/O."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from danube.model.limits import faces as limits
from danube.model.text import size_text

OK, WARNING, CRITICAL = "ok", "warning", "critical"


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFacts:
    """Facts about a machine and its folder for data; None where the system does not tell."""

    open_files_max: int
    memory_bytes: int
    """Of the machine, or of the control group if that is less."""
    memory_available_bytes: int
    folder: str
    folder_problem: str | None
    """The reason why nothing can be written there."""
    file_system: str
    disk_free_bytes: int
    disk_total_bytes: int
    sync_p50_s: float | None
    sync_worst_s: float | None
    clock_is_synchronised: bool | None
    busy_ports: tuple[str, ...]
    """Those of the broker that another program listens on, with the reason."""
    is_python_slow: bool
    """The checksum runs in Python: its compiled part is missing."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check."""

    check: str
    status: str
    found: str
    next_step: str = ""


def findings(facts: HostFacts) -> list[Finding]:
    """One result of each check."""
    return [check(facts) for check in _CHECKS]


def _open_files(facts: HostFacts) -> Finding:
    found = f"{facts.open_files_max:,} files and connections at most"
    if facts.open_files_max >= limits.OPEN_FILES_MIN:
        return Finding("open files", OK, found)
    status = CRITICAL if facts.open_files_max < limits.OPEN_FILES_CRITICAL else WARNING
    return Finding(
        "open files", status, found, f"raise it: ulimit -n {limits.OPEN_FILES_MIN}, or LimitNOFILE in the unit"
    )


def _memory(facts: HostFacts) -> Finding:
    found = f"{size_text(facts.memory_available_bytes)} of {size_text(facts.memory_bytes)} available"
    if facts.memory_available_bytes >= limits.MEMORY_AVAILABLE_MIN_BYTES:
        return Finding("memory", OK, found)
    step = "give it more, or lower cache_bytes_max and stream_memory_bytes_max"
    return Finding("memory", WARNING, found, step)


def _disk(facts: HostFacts) -> Finding:
    if facts.folder_problem is not None:
        step = "make the folder, owned by the broker's user, or name another one with --data-dir"
        return Finding("disk", CRITICAL, f"{facts.folder}: {facts.folder_problem}", step)
    found = f"{size_text(facts.disk_free_bytes)} of {size_text(facts.disk_total_bytes)} free, {facts.file_system}"
    if facts.file_system in limits.VOLATILE_FILE_SYSTEMS:
        return Finding("disk", CRITICAL, found, "it forgets everything with the machine: name a folder on a disk")
    if facts.disk_free_bytes < limits.DISK_FREE_MIN_BYTES:
        return Finding("disk", WARNING, found, "free room, or enlarge the volume: a full disk refuses messages")
    return Finding("disk", OK, found)


def _sync(facts: HostFacts) -> Finding:
    if facts.sync_p50_s is None or facts.sync_worst_s is None:
        return Finding("sync", WARNING, "not measured: nothing can be written")
    found = f"{facts.sync_p50_s * 1_000:.1f} ms in the middle, {facts.sync_worst_s * 1_000:.1f} ms at worst"
    if facts.sync_p50_s < limits.SYNC_REAL_MIN_S and facts.file_system not in limits.VOLATILE_FILE_SYSTEMS:
        step = "a disk is hardly so quick: is its write cache without power protection, or are barriers off?"
        return Finding("sync", WARNING, found, step)
    if facts.sync_p50_s > limits.SYNC_SLOW_S or facts.sync_worst_s > limits.SYNC_STALL_S:
        status = CRITICAL if facts.sync_p50_s > limits.SYNC_STALL_S else WARNING
        return Finding(
            "sync", status, found, "every acknowledgement waits for that: use another disk, or a quieter one"
        )
    return Finding("sync", OK, found)


def _clock(facts: HostFacts) -> Finding:
    if facts.clock_is_synchronised:
        return Finding("clock", OK, "synchronised")
    found = "the system does not tell" if facts.clock_is_synchronised is None else "not synchronised"
    return Finding("clock", WARNING, found, "run chrony or systemd-timesyncd: retention and tokens go by the time")


def _ports(facts: HostFacts) -> Finding:
    if not facts.busy_ports:
        return Finding("ports", OK, "free")
    step = "end the other program, or choose other ports with --port and in the settings"
    return Finding("ports", CRITICAL, "; ".join(facts.busy_ports), step)


def _python(facts: HostFacts) -> Finding:
    if facts.is_python_slow:
        return Finding("python", WARNING, "checksums run in Python", "install google-crc32c's wheel for this machine")
    return Finding("python", OK, "checksums run in C")


_CHECKS: Final[tuple[Callable[[HostFacts], Finding], ...]] = (
    _open_files,
    _memory,
    _disk,
    _sync,
    _clock,
    _ports,
    _python,
)


def worst(found: list[Finding]) -> str:
    """The worst status of all."""
    return max((each.status for each in found), key=(OK, WARNING, CRITICAL).index)
