"""Facts about the machine of this process, as `danube-admin doctor` asks for them. Everything here may block."""

import ctypes
import os
import resource
import shutil
import socket
import statistics
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import google_crc32c
import psutil

from danube.admin.doctor.rules import HostFacts
from danube.model.limits.faces import SYNC_BYTES, SYNC_TRIES
from danube.runtime.disk import LocalDisk

_STATUS_AT, _UNSYNCHRONISED = 40, 0x40  # of `struct timex`, https://man7.org/linux/man-pages/man2/adjtimex.2.html
_CGROUP_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


def host_facts(folder: Path, ports: Sequence[int]) -> HostFacts:
    """Look at the machine, the folder for data, and the ports of a broker; nothing stays in the folder."""
    place = next(each for each in (folder.absolute(), *folder.absolute().parents) if each.exists())
    problem, syncs = None, list[float]()
    try:
        syncs = _syncs_s(place)
    except OSError as error:
        problem = error.strerror or str(error)
    memory, usage = psutil.virtual_memory(), shutil.disk_usage(place)
    limit = _memory_limit() or memory.total
    return HostFacts(
        open_files_max=resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        memory_bytes=min(limit, memory.total),
        memory_available_bytes=min(limit, memory.available),
        folder=str(folder),
        folder_problem=problem,
        file_system=_file_system(place),
        disk_free_bytes=usage.free,
        disk_total_bytes=usage.total,
        sync_p50_s=statistics.median(syncs) if syncs else None,
        sync_worst_s=max(syncs) if syncs else None,
        clock_is_synchronised=_clock_is_synchronised(),
        busy_ports=tuple(told for port in ports if (told := _busy(port))),
        is_python_slow=google_crc32c.implementation != "c",
    )


def _syncs_s(folder: Path) -> list[float]:
    found, disk, name = list[float](), LocalDisk(folder), f".danube-doctor-{os.getpid()}"
    file = disk.create(name)
    try:
        for _ in range(SYNC_TRIES):
            file.append([b"\0" * SYNC_BYTES])
            began_s = time.perf_counter()
            file.sync()
            found.append(time.perf_counter() - began_s)
    finally:
        file.close()
        disk.remove(name)
    return found


def _file_system(folder: Path) -> str:
    kinds = {each.mountpoint: each.fstype for each in psutil.disk_partitions(all=True)}
    return next((kinds[str(each)] for each in (folder, *folder.parents) if str(each) in kinds), "unknown")


def _memory_limit() -> int | None:
    for path in _CGROUP_LIMITS:
        with suppress(OSError, ValueError):
            return int(path.read_text(encoding="ascii"))
    return None


def _clock_is_synchronised() -> bool | None:
    with suppress(OSError, AttributeError):
        buffer = ctypes.create_string_buffer(512)
        if ctypes.CDLL(None).adjtimex(buffer) >= 0:
            return not int.from_bytes(buffer.raw[_STATUS_AT : _STATUS_AT + 4], "little") & _UNSYNCHRONISED
    return None


def _busy(port: int) -> str:
    try:
        with socket.create_server(("", port)):
            return ""
    except OSError as error:
        return f"{port}: {os.strerror(error.errno or 0)}"
