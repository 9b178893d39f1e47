"""A Raft member whose files are damaged has everything that it acknowledged, or refuses to start and says why.

The worlds: `tests/simulation/raft_damage.py`. `--seeds 500` runs more of them, `--seed N` one again.
"""

import random

import pytest

from danube.metadata.raft.folder.recovery import LogRecovery
from tests.simulation.raft_damage import RaftDamaged

_SEEDS = 40
"""One takes some milliseconds."""


def _damaged(seed: int) -> RaftDamaged:
    run = RaftDamaged(random.Random(seed))
    run.run()
    return run


def test_a_damaged_member_has_all_it_acknowledged_or_refuses_to_start(seeds: list[int]) -> None:
    faults = {seed: run.faults for seed in seeds if (run := _damaged(seed)).faults}
    assert not faults, "python -m pytest tests/simulation/test_raft_damage.py --seed N runs one again"


def test_both_happen() -> None:
    runs = [_damaged(seed) for seed in range(_SEEDS)]
    assert 0 < sum(not run.told for run in runs) < len(runs)


def test_a_member_that_trusts_a_shorter_log_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LogRecovery, "_check_end", lambda *_: None)
    assert any(_damaged(seed).faults for seed in range(_SEEDS))
