"""Real broker processes, and the published client wheel in an environment of its own."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from danube.testing.patience import LONG_S, PATIENCE_S
from danube.testing.processes.broker import BrokerProcess

ROOT = Path(__file__).parents[2]
WHEEL_PYTHON = ROOT / ".venvs" / "danube-client" / "bin" / "python"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A running broker on a folder of the test's own."""
    with BrokerProcess(tmp_path / "data", settings={"ack_timeout_s": round(LONG_S)}) as process:
        yield process


@pytest.fixture(scope="session")
def wheel_python() -> Path:
    """The interpreter of the environment that holds `danube-client` 0.5.0 and nothing of ours."""
    if not WHEEL_PYTHON.exists():
        pytest.fail(f"there is no {WHEEL_PYTHON.relative_to(ROOT)}: run `make test`, which installs it")
    found = subprocess.run(
        [WHEEL_PYTHON, "-I", "-c", "import importlib.metadata as m; print(m.version('danube-client'))"],
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE_S,
    )
    assert found.stdout.strip() == "0.5.0"
    return WHEEL_PYTHON
