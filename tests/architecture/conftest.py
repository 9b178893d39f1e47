"""What the tests of the tree look at."""

import ast
import gc
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

GENERATED = "danube/wire/gen/"


@pytest.fixture(scope="session")
def root() -> Path:
    """The folder of the checkout."""
    return Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def tracked(root: Path) -> list[str]:
    """Every file that is, or is about to be, in version control."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout.splitlines()
    return sorted(name for name in set(listed) if (root / name).is_file())


@pytest.fixture(scope="session")
def written(tracked: list[str]) -> list[str]:
    """The Python files that people write."""
    return [name for name in tracked if name.endswith(".py") and not name.startswith(GENERATED)]


def parsed(files: Iterable[Path]) -> Iterator[ast.Module]:
    """Each file's tree. The garbage collector, which would look at all nodes again and again, waits."""
    gc.disable()
    try:
        yield from (ast.parse(file.read_text()) for file in files)
    finally:
        gc.freeze()
        gc.enable()
