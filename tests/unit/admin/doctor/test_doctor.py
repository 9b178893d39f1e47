"""`danube-admin doctor`: what it says of machines that are well and of those that are not."""

import socket
from dataclasses import replace
from pathlib import Path

import pytest

from danube.admin.doctor.facts import host_facts
from danube.admin.doctor.rules import CRITICAL, OK, WARNING, HostFacts, findings, worst

GIB = 1 << 30
WELL = HostFacts(
    open_files_max=1_048_576,
    memory_bytes=16 * GIB,
    memory_available_bytes=12 * GIB,
    folder="/var/lib/danube",
    folder_problem=None,
    file_system="xfs",
    disk_free_bytes=400 * GIB,
    disk_total_bytes=500 * GIB,
    sync_p50_s=0.0008,
    sync_worst_s=0.004,
    clock_is_synchronised=True,
    busy_ports=(),
    is_python_slow=False,
)


def test_a_machine_that_is_well_has_nothing_to_do() -> None:
    found = findings(WELL)
    assert worst(found) == OK
    assert [each.next_step for each in found] == [""] * 7


@pytest.mark.parametrize(
    ("wrong", "check", "status"),
    [
        ({"open_files_max": 1_024}, "open files", CRITICAL),
        ({"open_files_max": 20_000}, "open files", WARNING),
        ({"memory_available_bytes": GIB // 2}, "memory", WARNING),
        ({"folder_problem": "Permission denied", "sync_p50_s": None}, "disk", CRITICAL),
        ({"file_system": "tmpfs"}, "disk", CRITICAL),
        ({"disk_free_bytes": GIB}, "disk", WARNING),
        ({"sync_p50_s": None}, "sync", WARNING),
        ({"sync_p50_s": 0.000_001}, "sync", WARNING),
        ({"sync_p50_s": 0.03, "sync_worst_s": 0.2}, "sync", WARNING),
        ({"sync_p50_s": 0.001, "sync_worst_s": 0.9}, "sync", WARNING),
        ({"sync_p50_s": 0.4, "sync_worst_s": 0.9}, "sync", CRITICAL),
        ({"clock_is_synchronised": False}, "clock", WARNING),
        ({"clock_is_synchronised": None}, "clock", WARNING),
        ({"busy_ports": ("6650: Address already in use",)}, "ports", CRITICAL),
        ({"is_python_slow": True}, "python", WARNING),
    ],
)
def test_what_is_wrong_is_named_with_the_next_step(wrong: dict[str, object], check: str, status: str) -> None:
    found = findings(replace(WELL, **wrong))  # type: ignore[arg-type]  # one field of several types
    (told,) = (each for each in found if each.check == check)
    assert told.status == status
    assert told.next_step or check == "sync"
    assert worst(found) in {status, CRITICAL}


def test_this_machine_is_looked_at_and_its_folder_is_left_as_it_was(tmp_path: Path) -> None:
    with socket.create_server(("", 0)) as busy:
        port = busy.getsockname()[1]
        facts = host_facts(tmp_path / "not" / "there", [port])
    assert list(tmp_path.iterdir()) == []
    assert facts.sync_p50_s is not None
    assert facts.sync_worst_s is not None
    assert 0 < facts.sync_p50_s <= facts.sync_worst_s
    assert facts.memory_bytes > facts.memory_available_bytes > 0
    assert facts.busy_ports == (f"{port}: Address already in use",)
    assert facts.folder_problem is None
