"""Whole clusters by seed: brokers die, sleep, are cut off, give topics away; all topics are served, with all they had.

`python -m lab.simulation --kind cluster` runs more of them; `cluster_sabotages.py` takes the rules out, one by one.
"""

import pytest

from lab.simulation import simulate_cluster

FAST_SEEDS, TEST_SEEDS = 8, 16
CLOSE_BY = 10
FAILED_ONCE = (229, 417, 513)
"""An owner that was killed with an offer of its log outstanding served its topic again as if it had made none; a broker
removed what it had copied while its topic was about to become its own. Both lost messages.
"""


def test_topics_that_move_between_brokers_lose_nothing_and_are_served(seed: int) -> None:
    outcome = simulate_cluster(seed)
    assert not outcome.violations, outcome.report()


@pytest.mark.parametrize("failed_once", FAILED_ONCE)
def test_a_seed_that_failed_once_fails_no_more(failed_once: int) -> None:
    outcome = simulate_cluster(failed_once)
    assert not outcome.violations, outcome.report()


def test_the_same_seed_is_the_same_run() -> None:
    assert simulate_cluster(3).lives == simulate_cluster(3).lives


@pytest.mark.nightly
def test_the_runs_have_in_them_what_they_are_for() -> None:
    words = " ".join(line for seed in range(CLOSE_BY) for line in simulate_cluster(seed).lives)
    for happened in ("is killed", "without power", "sleeps", "is cut off", "is drained", "it is fenced", "is to go to"):
        assert happened in words
