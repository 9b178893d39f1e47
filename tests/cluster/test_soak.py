"""A few rounds of the soak: `make soak ROUNDS=50` runs more of them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

ROUNDS = 5


def run(folder: Path, rounds: int) -> list[dict[str, object]]:
    ended = subprocess.run(
        [sys.executable, "-m", "danube.testing.soak", "--rounds", str(rounds), "--folder", str(folder)],
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    assert ended.returncode == 0, f"{ended.stdout}\n{ended.stderr[-4_000:]}"
    return [json.loads(line) for line in (folder / "ledger.jsonl").read_text(encoding="utf-8").splitlines()]


def test_rounds_of_kill_9_lose_nothing_and_the_ledger_goes_on_where_it_stopped(tmp_path: Path) -> None:
    first = run(tmp_path / "soak", 2)
    ledger = run(tmp_path / "soak", ROUNDS)
    assert ledger[:2] == first
    assert [line["round"] for line in ledger] == list(range(ROUNDS))
    assert [(line["lost"], line["changed"], line["gaps"]) for line in ledger] == [(0, 0, 0)] * ROUNDS
    assert all(int(str(line["acknowledged"])) > 0 for line in ledger)
