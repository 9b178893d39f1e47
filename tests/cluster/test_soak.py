"""A few rounds of the soak: `make soak ROUNDS=50` runs more of them."""

import json
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from danube.testing.patience import PATIENCE_S
from danube.testing.processes.broker import end_leftover

pytestmark = [pytest.mark.cluster, pytest.mark.nightly, pytest.mark.timeout(400)]

ROUNDS = 3
LEAST = 10
"""Of what a round does; on a slow machine it is little."""
WAIT_S = PATIENCE_S


def command(folder: Path, rounds: int, *more: str) -> list[str]:
    return [sys.executable, "-m", "lab.soak.rounds", "--rounds", str(rounds), "--folder", str(folder), *more]


def run(folder: Path, rounds: int, *more: str) -> list[dict[str, Any]]:
    ended = subprocess.run(command(folder, rounds, *more), capture_output=True, text=True, check=False, timeout=380)
    assert ended.returncode == 0, f"{ended.stdout}\n{ended.stderr[-4_000:]}"
    assert "Every promise was kept" in ended.stdout
    return ledger(folder)


def ledger(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "ledger.jsonl").read_text(encoding="utf-8").splitlines()]


def test_rounds_of_faults_keep_every_promise_and_go_on_where_they_stopped(tmp_path: Path, wheel_python: Path) -> None:
    wheel = ("--wheel-python", str(wheel_python))
    first = run(tmp_path / "soak", 1, *wheel)
    found = run(tmp_path / "soak", ROUNDS, *wheel)
    assert found[:1] == first
    assert [line["round"] for line in found] == list(range(ROUNDS))
    assert [line["seed"] for line in found] == list(range(1, ROUNDS + 1))
    assert all(not any(line["violations"].values()) for line in found)
    assert all(min(line["acknowledged"], line["confirmed"]) > LEAST for line in found)
    assert found[-1]["journal_files"][1] > 1, "the journal went on in new files"


@pytest.fixture
def soak(tmp_path: Path) -> Any:
    """A soak whose first round is under way."""
    folder = tmp_path / "soak"
    process = subprocess.Popen(command(folder, 1), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        wait_for_messages(folder / "round-00000" / "ours.jsonl")
        yield process
    finally:
        process.kill()
        process.communicate()
        end_leftover(folder / "data")


def wait_for_messages(path: Path) -> None:
    deadline_s = time.monotonic() + WAIT_S
    while not path.exists() or '"confirmed": {"/' not in path.read_text(encoding="utf-8"):
        assert time.monotonic() < deadline_s, "nothing was confirmed"
        threading.Event().wait(0.05)


def test_an_interrupt_ends_the_round_early_and_judges_it(soak: Any, tmp_path: Path) -> None:
    soak.send_signal(signal.SIGINT)
    out, errors = soak.communicate(timeout=WAIT_S)
    assert soak.returncode == 130, errors
    assert "Every promise was kept" in out
    assert [line["violations"]["lost"] for line in ledger(tmp_path / "soak")] == [0]


def test_a_round_that_was_killed_is_judged_at_the_next_start(soak: Any, tmp_path: Path) -> None:
    soak.kill()
    soak.wait()
    found = run(tmp_path / "soak", 1)
    assert [line["faults"] for line in found] == [["interrupted"]]
    assert found[0]["acknowledged"] > 0
