"""Files of tests that passed are removed but for logs, which are searched for secrets in the end.

Each broker takes room for its journal beforehand: of all tests together that is some twenty gigabytes. The retention of
pytest itself would remove the logs, too.
"""

import os
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest

from tests.plugins.secrets import LOGS

_FAILED: Final = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Remove it once nothing of the test runs any more."""
    report = yield
    item.stash[_FAILED] = report.failed or item.stash.get(_FAILED, False)
    folder = getattr(item, "funcargs", {}).get("tmp_path")
    if call.when == "teardown" and not item.stash[_FAILED] and isinstance(folder, Path):
        clear(folder)
    return report


def clear(folder: Path) -> None:
    """Remove everything below a folder but logs, as far as that is allowed."""
    for place, folders, files in os.walk(folder, topdown=False):
        for name in files:
            if not Path(name).match(LOGS):
                with suppress(OSError):
                    Path(place, name).unlink()
        for name in folders:
            path = Path(place, name)
            with suppress(OSError):  # it holds a log
                path.unlink() if path.is_symlink() else path.rmdir()
