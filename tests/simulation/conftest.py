"""A test that asks for `seed` runs once for each seed of the run: `tests/plugins/seeds.py`."""

import logging
from collections.abc import Iterator

import pytest

from tests.plugins.seeds import seeds_of

_FAST_SEEDS = 8
"""Seeds that `make check` takes, unless a module has its own `FAST_SEEDS`; `TEST_SEEDS` are those of `make test`."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seed" in metafunc.fixturenames:
        seeds = seeds_of(metafunc.config)
        fast = getattr(metafunc.module, "FAST_SEEDS", _FAST_SEEDS)
        most = getattr(metafunc.module, "TEST_SEEDS", len(seeds))
        slow = [pytest.param(seed, marks=pytest.mark.slow) for seed in seeds[fast:most]]
        rest = [pytest.param(seed, marks=pytest.mark.nightly) for seed in seeds[most:]]
        metafunc.parametrize("seed", [*seeds[:fast], *slow, *rest])


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Brokers die here by the thousand, and each says so in the log."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)
