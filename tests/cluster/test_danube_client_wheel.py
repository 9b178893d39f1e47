"""The published `danube-client` wheel, unmodified, against a real broker process."""

import itertools
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from danube.testing.process import BrokerProcess

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(240)]

SCRIPT = Path(__file__).parent / "wheel" / "scenarios.py"
LINES = SCRIPT.read_text(encoding="utf-8").splitlines()
SCENARIOS = [
    line.removeprefix("async def ").partition("(")[0]
    for before, line in itertools.pairwise(LINES)
    if before == "@scenario"
]


@pytest.fixture(scope="module")
def shared_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("wheel") / "data") as process:
        yield process


def test_the_scenarios_are_all_found() -> None:
    assert len(SCENARIOS) == 17


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_published_client_works_unmodified(shared_broker: BrokerProcess, wheel_python: Path, name: str) -> None:
    command = [str(wheel_python), "-I", str(SCRIPT), shared_broker.endpoints.service_url, name]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=200)
    assert ended.returncode == 0, f"{ended.stderr[-4_000:]}\n--- broker\n{shared_broker.log()[-2_000:]}"
    imported = json.loads(ended.stdout.splitlines()[0])
    assert imported["version"] == "0.5.0"
    assert Path(imported["file"]).is_relative_to(wheel_python.parents[1])
    assert "Traceback" not in shared_broker.log()
