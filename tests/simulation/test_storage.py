"""Storage and dispatch through power cuts, kills, failing, full and damaged disks: no seed breaks a promise."""

import hashlib
import os
import pkgutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from danube.testing.patience import PATIENCE_S
from lab.kernel.judge import Violation
from lab.kernel.seeds import Outcome
from lab.simulation import (
    KINDS,
    POWER_CUTS,
    main,
    simulate_damage,
    simulate_kills,
    simulate_late_syncs,
    simulate_power_cuts,
)

ROOT = Path(__file__).parents[2]
FLUSH = "danube.storage.flush"
_DIGEST = "from tests.simulation.test_storage import digest; print(digest(11))"


def count(patch: pytest.MonkeyPatch, seen: Counter[str], method: str, fields: tuple[str, ...]) -> None:
    """Add up what a method answers: a number, or fields of it."""
    original = pkgutil.resolve_name(method)

    async def counted(*args: Any) -> Any:
        answer = await original(*args)
        seen.update({field: getattr(answer, field) for field in fields} or {method.rpartition(".")[2]: answer})
        return answer

    patch.setattr(method, counted)


def digest(seed: int) -> str:
    """Digest of all that was seen in a run."""
    return hashlib.sha256(repr(simulate_power_cuts(seed).history).encode()).hexdigest()


def test_power_cuts_and_kills_break_no_promise(seed: int) -> None:
    outcome = simulate_power_cuts(seed)
    assert not outcome.violations, outcome.report()


def test_kills_break_no_promise_of_weaker_durability(seed: int) -> None:
    outcome = simulate_kills(seed)
    assert not outcome.violations, outcome.report()


def test_what_a_power_cut_takes_of_weaker_durability_is_missed_by_nobody(seed: int) -> None:
    outcome = simulate_late_syncs(seed)
    assert not outcome.violations, outcome.report()


def test_damage_is_told_and_harms_no_other_topic(seed: int) -> None:
    outcome = simulate_damage(seed)
    assert not outcome.violations, outcome.report()


def test_a_run_follows_from_its_seed() -> None:
    assert digest(11) == digest(11) != digest(12)


@pytest.mark.slow
def test_a_run_is_the_same_in_any_process() -> None:
    found = {
        subprocess.run(
            [sys.executable, "-c", _DIGEST],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=True,
            timeout=PATIENCE_S,
        ).stdout.strip()
        for hash_seed in ("1", "2")
    }
    assert found == {digest(11)}


@pytest.mark.nightly
def test_the_runs_contain_what_they_are_for() -> None:
    outcomes = [simulate_power_cuts(seed) for seed in range(20)]
    seen = Counter(type(event).__name__ for outcome in outcomes for event in outcome.history)
    assert min(seen[name] for name in ("AppendAcknowledged", "Delivered", "DeliveryAcknowledged", "CursorFound")) > 200
    stories = " ".join(life for outcome in outcomes for life in outcome.lives)
    for words in ("power cut", "kill", "closed", "off at change", "append", "sync", "room for", "EIO", "ENOSPC"):
        assert words in stories


@pytest.mark.nightly
def test_the_runs_cut_merge_trim_and_delete(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = Counter[str]()
    count(
        monkeypatch,
        seen,
        "danube.storage.flush.segment_flusher.SegmentFlusher.flush",
        ("topics", "merged", "freed_bytes"),
    )
    count(monkeypatch, seen, "danube.storage.retention.enforcer.RetentionEnforcer.retain", ())
    count(monkeypatch, seen, f"{FLUSH}.deletion.TopicDeleter.sweep", ())
    events = Counter(type(event).__name__ for seed in range(20) for event in simulate_power_cuts(seed).history)
    assert min(events["TopicBegun"], events["TopicDeleted"]) > 5
    assert min(seen[name] for name in ("topics", "merged", "freed_bytes", "retain", "sweep")) > 5


@pytest.mark.slow
def test_the_command_runs_seeds_and_says_how_many_failed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seeds", "1", "--from", "5", "--workers", "1"]) == 0
    assert capsys.readouterr().out.startswith(f"{len(KINDS)} runs, 0 failed, ")


def test_a_report_says_what_broke_and_how_to_see_it_again() -> None:
    violation = Violation("order per topic", "s got offset 1 first after 2", "/default/t", 3)
    assert Outcome(POWER_CUTS, 7, [], ["kill"], [violation]).report().splitlines() == [
        "seed 7: 1 violation(s)",
        "  order per topic: /default/t: s got offset 1 first after 2 (event 3)",
        "  life 0: kill",
        "replay: python -m lab.simulation --kind power-cuts --from 7 --seeds 1",
    ]
