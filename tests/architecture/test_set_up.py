"""Set-up finds a Python that will do, or says what to install; the commands are listed."""

import os
import subprocess
from pathlib import Path


def test_a_python_of_3_11_or_newer_is_found(root: Path) -> None:
    found = find_python(root, {})
    version = "import sys; print(sys.version_info >= (3, 11))"
    answer = subprocess.run([found.stdout.strip(), "-c", version], capture_output=True, text=True, check=True).stdout
    assert answer == "True\n"


def test_a_python_that_is_too_old_is_passed_over_with_advice(root: Path, tmp_path: Path) -> None:
    old = tmp_path / "python-of-old"
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    found = find_python(root, {"PYTHON": str(old)})
    assert (found.returncode, found.stdout) == (1, "")
    assert "No Python 3.11 or newer with venv was found" in found.stderr
    assert "Install one" in found.stderr


def test_make_alone_lists_the_commands(root: Path) -> None:
    listed = subprocess.run(["make"], cwd=root, capture_output=True, text=True, check=True).stdout
    for command in ("demo", "test", "check", "proto", "bench", "soak", "format", "lock", "clean"):
        assert f"make {command} " in listed


def find_python(root: Path, variables: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run the search as make does."""
    environment = {"PATH": os.environ["PATH"]} | variables
    return subprocess.run(
        ["scripts/find_python.sh"], cwd=root, env=environment, capture_output=True, text=True, check=False
    )
