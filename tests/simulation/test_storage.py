"""Journal and dispatch through power cuts, kills, failing and full disks: no seed breaks a promise."""

import hashlib
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

from danube.testing.checkers import Violation
from danube.testing.simulation import Outcome, simulate_storage

ROOT = Path(__file__).parents[2]
_DIGEST = "from tests.simulation.test_storage import digest; print(digest(11))"


def digest(seed: int) -> str:
    """Of all that was seen in a run."""
    return hashlib.sha256(repr(simulate_storage(seed).history).encode()).hexdigest()


def test_power_cuts_and_kills_break_no_promise(seed: int) -> None:
    outcome = simulate_storage(seed)
    assert not outcome.violations, outcome.report()


def test_a_run_follows_from_its_seed() -> None:
    assert digest(11) == digest(11) != digest(12)


def test_a_run_is_the_same_in_any_process() -> None:
    found = {
        subprocess.run(
            [sys.executable, "-c", _DIGEST],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=True,
            timeout=50,
        ).stdout.strip()
        for hash_seed in ("1", "2")
    }
    assert found == {digest(11)}


def test_the_runs_contain_what_they_are_for() -> None:
    outcomes = [simulate_storage(seed) for seed in range(20)]
    seen = Counter(type(event).__name__ for outcome in outcomes for event in outcome.history)
    assert min(seen[name] for name in ("AppendAcknowledged", "Delivered", "DeliveryAcknowledged", "CursorFound")) > 200
    stories = " ".join(life for outcome in outcomes for life in outcome.lives)
    for words in ("power cut", "kill", "closed", "off at change", "append", "sync", "room for", "EIO", "ENOSPC"):
        assert words in stories


def test_a_report_says_what_broke_and_how_to_see_it_again() -> None:
    violation = Violation("order per topic", "/default/t", "s got offset 1 first after 2", 3)
    assert Outcome(7, [], ["kill"], [violation]).report().splitlines() == [
        "seed 7: 1 violation(s)",
        "  order per topic: /default/t: s got offset 1 first after 2 (event 3)",
        "  life 0: kill",
        "replay: pytest tests/simulation -k power_cuts --seed 7",
    ]
