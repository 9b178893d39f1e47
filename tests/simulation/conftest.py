"""Which seeds to run: 200 by default, `--seed N` for one again, `--seeds COUNT` (and `--first-seed N`) for many.

The options are known when pytest is given this folder; DANUBE_SEEDS does the same as `--seeds` from anywhere.
"""

import logging
import os
from collections.abc import Iterator

import pytest

_SEEDS = 200
_FAST_SEEDS = 8  # of them, what `make check` runs


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("simulation")
    group.addoption("--seed", type=int, action="append", help="run only this seed (may be given again)")
    group.addoption("--seeds", type=int, help=f"how many seeds to run (default {_SEEDS}, or DANUBE_SEEDS)")
    group.addoption("--first-seed", type=int, help="the first of them (default 0)")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seed" in metafunc.fixturenames:
        seeds = _seeds(metafunc.config)
        slow = [pytest.param(seed, marks=pytest.mark.slow) for seed in seeds[_FAST_SEEDS:]]
        metafunc.parametrize("seed", [*seeds[:_FAST_SEEDS], *slow])


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Brokers die here by the thousand, and each says so in the log."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def _seeds(config: pytest.Config) -> list[int]:
    chosen: list[int] | None = config.getoption("--seed", None)
    if chosen:
        return chosen
    first = config.getoption("--first-seed", None) or 0
    count = config.getoption("--seeds", None) or int(os.environ.get("DANUBE_SEEDS", _SEEDS))
    return list(range(first, first + count))
