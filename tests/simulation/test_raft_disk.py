"""A member of a Raft group has on its disk all that it promised, through power cuts and failures of the disk.

The worlds: `raft_disk_world.py`. Each guarantee is taken out on purpose, and a seed must show it.
"""

import pytest

from tests.simulation.raft_disk_sabotages import SABOTAGES, is_found
from tests.simulation.raft_disk_world import World
from tests.simulation.sabotage import Sabotaged, is_noticed


def test_nothing_that_was_synced_is_lost_and_no_vote_is_given_twice(seed: int) -> None:
    World(seed).run()


@pytest.mark.parametrize("one", SABOTAGES, ids=lambda one: one.sabotage.__name__)
def test_a_guarantee_that_is_taken_out_is_missed(one: Sabotaged, monkeypatch: pytest.MonkeyPatch) -> None:
    found = is_noticed(one, is_found, monkeypatch)
    assert found, f"{one.rule}: python -m tests.simulation.raft_disk_sabotages finds a seed"


@pytest.mark.parametrize("one", {one.seed: one for one in SABOTAGES}.values(), ids=lambda one: str(one.seed))
def test_those_seeds_find_nothing_where_nothing_is_wrong(one: Sabotaged) -> None:
    assert not is_found(one, one.seed)
