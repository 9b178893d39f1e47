"""What a member of a Raft group has on its disk is what it promised, through power cuts and failures of the disk.

The worlds: `raft_disk_world.py`. Each guarantee is taken out on purpose, and a seed must show it.
"""

import pytest

from tests.simulation.raft_disk_sabotages import SABOTAGES, Sabotaged, is_found
from tests.simulation.raft_disk_world import World

CLOSE_BY = 40
"""Seeds to try when the one in the table finds nothing any more."""


def test_nothing_that_was_synced_is_lost_and_no_vote_is_given_twice(seed: int) -> None:
    World(seed).run()


@pytest.mark.parametrize("one", SABOTAGES, ids=lambda one: one.sabotage.__name__)
def test_a_guarantee_that_is_taken_out_is_missed(one: Sabotaged, monkeypatch: pytest.MonkeyPatch) -> None:
    one.sabotage(monkeypatch)
    seeds = range(one.seed, one.seed + CLOSE_BY)
    assert any(map(is_found, seeds)), f"{one.guarantee}: python -m tests.simulation.raft_disk_sabotages finds a seed"


@pytest.mark.parametrize("seed_of_one", sorted({one.seed for one in SABOTAGES}))
def test_those_seeds_find_nothing_where_nothing_is_wrong(seed_of_one: int) -> None:
    assert not is_found(seed_of_one)
