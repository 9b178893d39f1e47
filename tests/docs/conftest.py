"""A broker process to run what the documents show against, and the published client's environment."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from danube.testing.processes.broker import BrokerProcess


@pytest.fixture(scope="session")
def root() -> Path:
    """The folder of the checkout."""
    return Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def wheel_python(root: Path) -> Path:
    """Python of the environment that holds the published danube-client and nothing of ours."""
    python = root / ".venvs/danube-client/bin/python"
    if not python.exists():
        pytest.fail("the published client is not installed: run make .venvs/danube-client/.installed")
    return python


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A standalone broker."""
    with BrokerProcess(tmp_path_factory.mktemp("broker") / "data") as running:
        yield running


@pytest.fixture
def fresh_broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A standalone broker on which nothing was done yet."""
    with BrokerProcess(tmp_path / "data") as running:
        yield running
