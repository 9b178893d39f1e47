"""A Raft group keeps its promises when power, network and processes misbehave; and each remedy is there for a reason.

`docs/raft.md` says what each remedy is for. `python -m tests.simulation.raft_sabotages` looks for the seeds anew.
"""

import pytest

from lab.raft.courses import ALONE, COURSES, FULL_DISKS
from lab.raft.world import Report, simulate
from tests.simulation.raft_sabotages import SABOTAGES, is_found
from tests.simulation.sabotage import Sabotaged, is_noticed

_FAILED_ONCE = (
    308_547,  # a learner did not vote that had been given a vote, and not heard of it
    308_513,  # two snapshots came between two ticks: the first one's file was gone
)


def test_a_raft_group_keeps_its_promises(seed: int) -> None:
    _check(seed)


@pytest.mark.parametrize("failed_once", _FAILED_ONCE)
def test_a_seed_that_failed_once_fails_no_more(failed_once: int) -> None:
    _check(failed_once)


@pytest.mark.parametrize("number", [1, 2])
def test_members_whose_disks_are_full_go_on_by_themselves_and_lose_nothing(number: int) -> None:
    assert _check(number, FULL_DISKS.name).full_disks > 5


@pytest.mark.nightly
def test_full_disks_by_seed(seed: int) -> None:
    _check(seed, FULL_DISKS.name)


def test_a_group_of_one_keeps_what_it_acknowledged(seed: int) -> None:
    _check(seed, ALONE.name)


def test_a_group_of_one_goes_through_full_and_failing_disks_and_rests() -> None:
    reports = [_check(seed, ALONE.name) for seed in range(4)]
    assert all(map(sum, zip(*((one.full_disks, one.failed_disks, one.rests) for one in reports), strict=True)))


def _check(seed: int, course: str = "") -> Report:
    report = simulate(seed, course or list(COURSES)[seed % len(COURSES)])
    assert not report.violations, f"{report}\nagain: pytest tests/simulation/test_raft.py --seed {seed}"
    assert report.acknowledged
    assert report.elections
    return report


@pytest.mark.nightly
@pytest.mark.parametrize("one", SABOTAGES, ids=lambda one: one.sabotage.__name__)
def test_the_seed_of_a_remedy_finds_its_sabotage(one: Sabotaged, monkeypatch: pytest.MonkeyPatch) -> None:
    assert is_noticed(one, is_found, monkeypatch), f"{one.rule}: python -m tests.simulation.raft_sabotages"


def test_each_remedy_of_the_log_and_of_votes_has_a_sabotage() -> None:
    assert {one.rule[0] for one in SABOTAGES} >= set("abcdef")
