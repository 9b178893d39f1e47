"""The automatic mode: it acts on what lasts, within bounds, and stops where something is wrong."""

from dataclasses import replace

import pytest

from danube.loadmgr.automatic import RULES, Automatic, AutomaticMemory, Obstacles, check

RULE = RULES[Automatic.BALANCED]
NONE = Obstacles()


def after(cvs: list[float], memory: AutomaticMemory = AutomaticMemory(), now_ms: int = 0) -> tuple[int, str]:  # noqa: B008 - a constant
    decision = None
    for cv in cvs:
        decision = check(RULE, memory, cv, NONE, now_ms)
        memory = decision.memory
    assert decision is not None
    return decision.moves_max, decision.reason


def test_it_acts_on_imbalance_that_lasts_and_not_on_one_report() -> None:
    assert after([0.9])[0] == 0
    assert after([0.9] * 4) == (0, "the imbalance was above 0.30 in 4 of the last 4 checks: 5 are needed")
    assert after([0.9] * 5)[0] == 10
    assert after([0.9, 0.1] * 4)[0] == 0


def test_it_moves_no_more_topics_in_an_hour_than_its_rule_says() -> None:
    memory = AutomaticMemory().moved(tuple(f"/a/{number}" for number in range(10)), now_ms=0)
    assert after([0.9] * 6, memory, now_ms=1_000) == (0, "10 topics have moved in the last hour")
    assert after([0.9] * 6, memory, now_ms=3_600_001)[0] == 10


def test_a_topic_that_has_moved_stays_for_a_while_and_what_was_seen_before_it_is_forgotten() -> None:
    memory = check(RULE, AutomaticMemory(), 0.9, NONE, 0).memory.moved(("/a/x",), now_ms=5)
    assert memory.checks == ()
    assert memory.muted(RULE, now_ms=1_000) == {"/a/x"}
    assert memory.muted(RULE, now_ms=3_600_005) == frozenset()


@pytest.mark.parametrize(
    ("obstacles", "said"),
    [
        (Obstacles(missing_brokers=(7,)), "broker 7 is missing"),
        (Obstacles(waiting_plan="p1"), "plan p1 waits for a person"),
        (Obstacles(failed_move="/a/x"), "the last move of /a/x failed"),
        (Obstacles(moves_under_way=2), "2 topics are on their way"),
    ],
)
def test_it_stops_where_something_is_wrong_and_begins_to_count_anew(obstacles: Obstacles, said: str) -> None:
    memory = replace(AutomaticMemory(), checks=(True,) * 6)
    decision = check(RULE, memory, 0.9, obstacles, 0)
    assert (decision.moves_max, decision.memory.checks) == (0, ())
    assert said in decision.reason


def test_each_mode_aims_below_its_threshold() -> None:
    assert all(rule.target_cv < rule.threshold_cv and rule.hits <= rule.checks for rule in RULES.values())
