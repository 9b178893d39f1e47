"""The seeds of a run: the same ones each time, so that a change fails by what it does; printed at the end of the run.

In `tests/simulation/` a test that asks for `seed` runs once for each of them. `--seed N` runs one, `--seeds COUNT`
(or `SEEDS`) sets how many, and `--first-seed N` (or `SEED`) sets the first; `SEED=new` takes other ones each day and
for each commit, as `make nightly` does.
"""

import datetime as dt
import os
import subprocess
import zlib
from pathlib import Path

import pytest

_SEEDS = 40
_FIRST_SEED = 1
_NEW = "new"
_FIRST_SEED_MAX = 1_000_000
_GIT_TIMEOUT_S = 10


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("simulation")
    group.addoption("--seed", type=int, action="append", help="run only this seed (may be given again)")
    group.addoption("--seeds", type=int, help=f"how many seeds to run (default {_SEEDS}, or SEEDS)")
    group.addoption("--first-seed", type=int, help=f"the first of them (default: SEED, or {_FIRST_SEED})")


def pytest_configure(config: pytest.Config) -> None:
    """Workers inherit the first seed, so that all of them collect the same tests."""
    if os.environ.setdefault("SEED", str(_FIRST_SEED)) == _NEW:
        os.environ["SEED"] = str(_seed_of_today(config.rootpath))


@pytest.fixture
def seeds(pytestconfig: pytest.Config) -> list[int]:
    """All seeds of the run, for a test whose seeds take milliseconds."""
    return seeds_of(pytestconfig)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    reports = [report for found in terminalreporter.stats.values() for report in found]
    if any(getattr(report, "nodeid", "").startswith("tests/simulation/") for report in reports):
        seeds = seeds_of(config)
        terminalreporter.write_line(f"seeds: {len(seeds)} from {seeds[0]} (SEED={seeds[0]} repeats them)")


def seeds_of(config: pytest.Config) -> list[int]:
    """The seeds of this run, at least one."""
    chosen: list[int] | None = config.getoption("--seed")
    if chosen:
        return chosen
    first: int | None = config.getoption("--first-seed")
    count: int = config.getoption("--seeds") or int(os.environ.get("SEEDS", _SEEDS))
    begin = int(os.environ["SEED"]) if first is None else first
    return list(range(begin, begin + count))


def _seed_of_today(root: Path) -> int:
    command = ["git", "rev-parse", "HEAD"]
    commit = subprocess.run(command, cwd=root, capture_output=True, check=False, timeout=_GIT_TIMEOUT_S).stdout
    today = dt.datetime.now(dt.UTC).date().isoformat()
    return zlib.crc32(commit + today.encode()) % _FIRST_SEED_MAX
