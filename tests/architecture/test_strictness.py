"""The test suite's own promises: what tests/conftest.py refuses is refused."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CARELESS = """
import asyncio, threading
from pathlib import Path

from danube.runtime.disk import LocalDisk


async def test_leaves_a_task():
    asyncio.create_task(asyncio.Event().wait(), name="forgotten")


async def test_blocks_the_loop(tmp_path: Path):
    LocalDisk(tmp_path).replace_file("file", b"data")


def test_fails_in_a_thread():
    thread = threading.Thread(target=lambda: 1 / 0)
    thread.start()
    thread.join()


async def test_is_careful(tmp_path: Path):
    await asyncio.to_thread(LocalDisk(tmp_path).replace_file, "file", b"data")
"""

SHARING = """
import pytest


@pytest.fixture(scope="module", params=["one", "two"])
def server(request):
    return request.param


def test_quick():
    pass


def test_shares(server):
    pass


def test_shares_too(server):
    pass
"""
PATIENT = """
import pytest

pytestmark = pytest.mark.timeout(100)


def test_long():
    pass
"""


def test_careless_tests_fail_and_careful_ones_pass(root: Path, tmp_path: Path) -> None:
    (tmp_path / "test_careless.py").write_text(CARELESS)
    report = run(root, tmp_path, "-q")
    assert "2 failed, 2 passed, 1 error" in report, report
    assert "1 task(s) outlive the test:\nE   " in report
    assert "forgotten" in report
    assert "BlockingError: Blocking call to os." in report
    assert "ZeroDivisionError" in report


@pytest.mark.slow
@pytest.mark.nightly
def test_who_shares_a_server_shares_a_worker_and_the_longest_begin_first(root: Path, tmp_path: Path) -> None:
    (tmp_path / "test_a_sharing.py").write_text(SHARING)
    (tmp_path / "test_z_patient.py").write_text(PATIENT)
    report = run(root, tmp_path, "-v", "-n", "1", "--dist", "loadgroup", "--no-loadscope-reorder")
    ran = re.findall(r"PASSED (?:\S+/)?test_\w+\.py::(.+)", report)
    assert [test.strip() for test in ran] == [
        "test_long",
        "test_quick",
        "test_shares[one]@test_a_sharing server0",
        "test_shares_too[one]@test_a_sharing server0",
        "test_shares[two]@test_a_sharing server1",
        "test_shares_too[two]@test_a_sharing server1",
    ], report


def run(root: Path, tests: Path, *flags: str) -> str:
    """What pytest says of tests in a folder that has our conftest.py."""
    shutil.copy(root / "tests/conftest.py", tests)
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(root)}
    command = [sys.executable, "-m", "pytest", *flags, "-p", "no:cacheprovider", "-c", str(root / "pyproject.toml")]
    command += ["--rootdir", str(tests), str(tests)]
    return subprocess.run(command, cwd=tests, env=environment, capture_output=True, text=True, check=False).stdout
