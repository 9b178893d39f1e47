"""The test suite's own promises: what tests/conftest.py refuses is refused."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

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


def test_careless_tests_fail_and_careful_ones_pass(root: Path, tmp_path: Path) -> None:
    shutil.copy(root / "tests/conftest.py", tmp_path)
    (tmp_path / "test_careless.py").write_text(CARELESS)
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(root)}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", str(root / "pyproject.toml")]
    command += ["--rootdir", str(tmp_path), str(tmp_path)]
    report = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False).stdout
    assert "2 failed, 2 passed, 1 error" in report, report
    assert "1 task(s) outlive the test:\nE   " in report
    assert "forgotten" in report
    assert "BlockingError: Blocking call to os." in report
    assert "ZeroDivisionError" in report
