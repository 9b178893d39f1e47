"""Each rule of "Durability and storage" is broken on purpose, and a seed must show it.

A sabotage that no seed finds means that the simulation, or the rule, is worth nothing. When what runs in a simulation
changes, the seeds may, and as a rule one close by finds it; `python -m tests.simulation.sabotages` (and
`folder_sabotages`, `cluster_sabotages`) looks for them anew.
"""

import pytest

from lab.simulation import KINDS, POWER_CUTS
from tests.simulation.cluster_sabotages import CLUSTER_SABOTAGES
from tests.simulation.folder_sabotages import FOLDER_SABOTAGES
from tests.simulation.sabotage import Sabotaged, is_noticed
from tests.simulation.sabotages import SABOTAGES, is_found

ALL = [*SABOTAGES, *FOLDER_SABOTAGES, *CLUSTER_SABOTAGES]

RULES = range(1, 8)


@pytest.mark.nightly
@pytest.mark.parametrize("one", ALL, ids=lambda one: one.sabotage.__name__)
def test_the_seed_of_a_rule_finds_its_sabotage(one: Sabotaged, monkeypatch: pytest.MonkeyPatch) -> None:
    found = is_noticed(one, is_found, monkeypatch)
    assert found, f"{one.rule}: python -m tests.simulation.sabotages finds a seed"


@pytest.mark.nightly
@pytest.mark.parametrize(("kind", "seed_of_one"), sorted({(one.kind or POWER_CUTS, one.seed) for one in ALL}))
def test_those_seeds_find_nothing_where_nothing_is_wrong(kind: str, seed_of_one: int) -> None:
    outcome = KINDS[kind](seed_of_one)
    assert not outcome.violations, outcome.report()


def test_each_rule_has_a_sabotage() -> None:
    assert {one.rule[0] for one in SABOTAGES} >= {str(rule) for rule in RULES}
