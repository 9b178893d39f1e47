"""Every behaviour that the original's suite asks of a broker has a scenario through the published client."""

from itertools import chain

from tests.cluster.wheel.acceptance import ROWS
from tests.cluster.wheel.run import load_scenarios
from tests.cluster.wheel.scene import COVERED

SCENARIOS = load_scenarios()


def test_every_behaviour_of_the_original_has_a_scenario() -> None:
    assert ROWS.keys() - set(chain.from_iterable(COVERED.values())) == set()


def test_scenarios_cover_only_what_is_listed() -> None:
    assert COVERED.keys() <= SCENARIOS.keys()
    assert set(chain.from_iterable(COVERED.values())) - ROWS.keys() == set()
