"""Durations of each run, recorded as JSON beside pytest's cache, and a budget for each folder of tests.

A folder above its budget is a warning at the end of a run, never a failure: wall time says something of the machine.
"""

import json
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

BUDGET_S: Final[Mapping[str, int]] = {
    "tests/architecture": 60,
    "tests/cluster": 850,
    "tests/contracts": 140,
    "tests/deploy": 25,
    "tests/docs": 100,
    "tests/faces": 280,
    "tests/fuzz": 80,
    "tests/golden": 20,
    "tests/properties": 30,
    "tests/simulation": 140,
    "tests/spark": 220,
    "tests/unit": 450,
}
"""Summed seconds of set-up, call and tear-down in `make test`, with four workers on two quiet processors."""
_TOLERANCE: Final = 1.2
_RUNS_KEPT: Final = 20


class Durations:
    """Recorder of one run."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._tests_s = Counter[str]()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._tests_s[report.nodeid] += report.duration  # type: ignore[assignment]

    def pytest_sessionfinish(self) -> None:
        name = time.strftime("%Y-%m-%dT%H-%M-%S.json", time.gmtime())
        tests_s = {test: round(duration_s, 3) for test, duration_s in self._tests_s.most_common()}
        (self._folder / name).write_text(json.dumps({"folders_s": folders_s(tests_s), "tests_s": tests_s}, indent=1))
        for old in sorted(self._folder.glob("*.json"))[:-_RUNS_KEPT]:
            old.unlink()

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for folder, spent_s in over_budget(self._tests_s).items():
            terminalreporter.write_line(f"warning: {folder} took {spent_s} s, its budget is {BUDGET_S[folder]} s")


def pytest_configure(config: pytest.Config) -> None:
    """Workers report to the process that started them, which records."""
    if not hasattr(config, "workerinput") and (cache := getattr(config, "cache", None)):
        config.pluginmanager.register(Durations(cache.mkdir("durations")))


def folders_s(tests_s: Mapping[str, float]) -> dict[str, int]:
    """Summed durations by folder of tests, the longest first."""
    sums = Counter[str]()
    for test, duration_s in tests_s.items():
        sums["/".join(test.split("/")[:2])] += duration_s  # type: ignore[assignment]
    return {folder: round(spent_s) for folder, spent_s in sums.most_common()}


def over_budget(tests_s: Mapping[str, float]) -> dict[str, int]:
    """Folders that took clearly longer than their budget, with their seconds."""
    spent = folders_s(tests_s)
    return {name: spent[name] for name, budget_s in BUDGET_S.items() if spent.get(name, 0) > budget_s * _TOLERANCE}
