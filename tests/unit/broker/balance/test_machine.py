"""Limits of containers: cgroup v2 and v1, the strictest of all groups that the process is in."""

from pathlib import Path

import pytest

from danube.broker.balance.reporting.machine import OwnMachine, cpu_limit, memory_limit


def written(folder: Path, **files: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)
    return folder


def test_limits_of_cgroup_v2_hold_for_all_groups_below(tmp_path: Path) -> None:
    outer = written(tmp_path / "pod", cpu__max="50000 100000\n", memory__max="1000000\n")
    inner = written(outer / "broker", cpu__max="max 100000\n", memory__max="max\n")
    assert cpu_limit([inner, outer]) == 0.5
    assert memory_limit([inner, outer]) == 1_000_000


def test_limits_of_cgroup_v1(tmp_path: Path) -> None:
    folder = written(
        tmp_path / "v1",
        cpu__cfs_quota_us="25000\n",
        cpu__cfs_period_us="100000\n",
        memory__limit_in_bytes="2000000\n",
    )
    assert (cpu_limit([folder]), memory_limit([folder])) == (0.25, 2_000_000)
    free = written(tmp_path / "free", cpu__cfs_quota_us="-1\n", memory__limit_in_bytes=f"{2**63 - 4096}\n")
    assert (cpu_limit([free]), memory_limit([free])) == (0.0, 0)


@pytest.mark.parametrize("text", ["", "max", "0 0", "a b", "-5 100000"])
def test_what_cannot_be_read_is_no_limit(tmp_path: Path, text: str) -> None:
    folder = written(tmp_path / "odd", cpu__max=text, memory__max=text)
    assert (cpu_limit([folder, tmp_path / "missing"]), memory_limit([folder])) == (0.0, 0)


def test_the_machine_says_what_this_process_may_use(tmp_path: Path) -> None:
    written(tmp_path / "groups" / "mine", cpu__max="30000 100000", memory__max="12345")
    own = tmp_path / "cgroup"
    own.write_text("0::/mine\n")
    reading = OwnMachine(tmp_path / "groups", own).reading()
    assert (reading.cores, reading.memory_bytes) == (0.3, 12_345)
    assert reading.network_bytes_per_s > 0
    unlimited = OwnMachine(tmp_path, tmp_path / "none").reading()
    assert unlimited.cores == 1.0
    assert unlimited.memory_bytes > 12_345
