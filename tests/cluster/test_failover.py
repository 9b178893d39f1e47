"""One round of the failover laboratory: `make failover` runs ten of them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from lab.failover.course import FaultKind

pytestmark = [pytest.mark.cluster, pytest.mark.nightly, pytest.mark.timeout(400)]


def test_a_round_of_faults_on_three_brokers_keeps_every_promise(tmp_path: Path, wheel_python: Path) -> None:
    words = ["--rounds", "1", "--folder", str(tmp_path / "failover"), "--wheel-python", str(wheel_python)]
    command = [sys.executable, "-m", "lab.failover", *words]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=380)
    assert ended.returncode == 0, f"{ended.stdout}\n{ended.stderr[-4_000:]}"
    assert "Every promise was kept" in ended.stdout
    (line,) = (tmp_path / "failover" / "ledger.jsonl").read_text(encoding="utf-8").splitlines()
    assert json.loads(line)["faults"] == list(FaultKind)
