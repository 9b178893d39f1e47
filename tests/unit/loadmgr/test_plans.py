"""Plans that rebalance, as people read them, what-if, assignment, and smoothed rates."""

from dataclasses import replace

import pytest

from danube.loadmgr.assigning import assign_topics, expected_demand
from danube.loadmgr.cluster_state import ClusterState, Place, PlacedTopic
from danube.loadmgr.explain import explain
from danube.loadmgr.goal import Goal
from danube.loadmgr.load import Capacity, Demand
from danube.loadmgr.planner import RebalancePlan, Verdict, plan
from danube.loadmgr.score import Strategy
from danube.loadmgr.smoothing import SmoothedRate
from danube.loadmgr.what_if import with_broker, with_rate, without_broker
from danube.model.errors import NotFoundError


def place(broker_id: int, *, takes_topics: bool = True) -> Place:
    return Place(broker_id=broker_id, capacity=Capacity(), own=(0.0, 0.0, 0.0, 0.0), takes_topics=takes_topics)


def topic(name: str, cores: float, broker_id: int, *, group: str = "", stays: str = "") -> PlacedTopic:
    demand = Demand(topic=name, cores=cores, clients=2, carried_bytes=1_000)
    return PlacedTopic(demand=demand, broker_id=broker_id, group=group, stays=stays)


SKEWED = [topic("/a/x", 0.4, 1), topic("/a/y", 0.3, 1), topic("/a/z", 0.05, 2)]


def planned(places: list[Place], topics: list[PlacedTopic], goal: Goal = Goal()) -> RebalancePlan:  # noqa: B008 - a constant
    return plan(places, topics, goal)


def test_a_plan_says_what_moves_why_and_what_it_costs() -> None:
    places = [place(1), place(2)]
    found = planned(places, SKEWED)
    said = explain(found, ClusterState(places, SKEWED, Strategy.BALANCED))
    assert said.summary == "Move 1 topic: the imbalance goes from 0.87 to 0.07; broker 1 is the busiest."
    (move,) = said.moves
    assert move.startswith(
        "/a/y: broker 1 (CPU 70 %, of which /a/x 40 %) to 2 (CPU 5 %, of which /a/z 5 %); scores 70 to"
    )
    assert move.endswith("2 clients attach again, 1,000 bytes are copied.")


PINNED = [topic("/a/x", 0.5, 1, stays="pin"), topic("/a/y", 0.3, 1, stays="pin")]


@pytest.mark.parametrize(
    ("places", "topics", "verdict", "said"),
    [
        ([place(1)], SKEWED, Verdict.ALONE, "fewer than two brokers"),
        ([place(1), place(2, takes_topics=False)], SKEWED, Verdict.ALONE, "fewer than two brokers"),
        ([place(1), place(2)], [topic("/a/x", 0.3, 1), topic("/a/y", 0.3, 2)], Verdict.BALANCED, "well balanced"),
        ([place(1), place(2)], [topic("/a/x", 0.01, 1), topic("/a/y", 0.01, 1)], Verdict.IDLE, "uses 5 %"),
        ([place(1), place(2)], [topic("/a/x", 0.5, 1)], Verdict.STUCK, "no moves that are allowed pay"),
        (
            [place(1), place(2)],
            [topic("/a/x", 0.5, 1, stays="pin"), topic("/a/y", 0.3, 1, stays="pin")],
            Verdict.STUCK,
            "no",
        ),
        ([place(1), place(2)], [], Verdict.BALANCED, "well balanced"),
    ],
)
def test_it_says_when_nothing_is_to_be_done_and_why(
    places: list[Place], topics: list[PlacedTopic], verdict: Verdict, said: str
) -> None:
    found = planned(places, topics)
    assert (found.verdict, found.moves) == (verdict, ())
    assert said in explain(found, ClusterState(places, topics, Strategy.BALANCED)).summary


def test_a_topic_that_no_move_can_split_is_named() -> None:
    places, topics = [place(1), place(2)], [topic("/a/hot", 0.8, 1), topic("/a/y", 0.05, 1), topic("/a/z", 0.05, 1)]
    found = planned(places, topics)
    assert found.verdict is Verdict.IMPROVED
    (advice,) = explain(found, ClusterState(places, topics, Strategy.BALANCED)).advice
    assert "/a/hot alone is more than a broker's fair share" in advice


def test_a_plan_that_only_swaps_the_hot_spot_is_none() -> None:
    places, topics = [place(1), place(2), place(3)], [topic("/a/hot", 0.36, 1), topic("/a/y", 0.02, 1)]
    topics += [topic("/a/z", 0.2, 2), topic("/a/u", 0.22, 3)]
    found = planned(places, topics)
    assert (found.verdict, found.moves) == (Verdict.STUCK, ())
    assert 0.2 < found.before.cv < 0.35
    nearer = planned(places, topics, Goal(gain_min=0.0))
    assert nearer.verdict is Verdict.IMPROVED  # which it was without the minimum


def test_a_few_moves_are_planned_where_they_begin_what_pays() -> None:
    places, topics = [place(1), place(2)], [topic(f"/a/t{number:02}", 0.01, 1) for number in range(40)]
    found = planned(places, topics, Goal(moves_max=2))
    assert (found.verdict, len(found.moves)) == (Verdict.IMPROVED, 2)


def test_partitions_of_one_topic_stay_apart_though_all_were_on_one_broker() -> None:
    places = [place(1), place(2), replace(place(3), own=(0.3, 0.0, 0.0, 0.0))]
    alone = [topic(f"/a/p-part-{at}", 0.15, 1) for at in range(4)]
    assert [move.target for move in planned(places, alone).moves] == [2, 2]
    together = [replace(one, group="/a/p") for one in alone]
    found = planned(places, together)
    assert [move.target for move in found.moves] == [2, 2]  # the share of two
    crowded = [topic(f"/a/p-part-{at}", 0.15, 1, group="/a/p") for at in range(3)] + [topic("/a/x", 0.15, 1)]
    found = planned(places, crowded)
    assert [move.topic.startswith("/a/p") for move in found.moves if move.target == 2].count(True) <= 1
    assert found.verdict is Verdict.PLANNED


def test_a_broker_that_failed_lately_counts_and_a_plan_waits_for_it() -> None:
    places = [place(1), *(replace(place(each, takes_topics=False), waits_until="12:03") for each in (2, 3))]
    found = planned(places, SKEWED[:2])
    assert (found.verdict, found.moves) == (Verdict.WAITING, ())
    said = explain(found, ClusterState(places, SKEWED[:2], Strategy.BALANCED)).summary
    assert said == (
        "Wait: the imbalance is 1.41, and broker 2, 3 failed lately and gets no topics until 12:03: plan again then."
    )


def test_a_full_broker_gets_no_topic() -> None:
    places = [place(1), place(2)]
    topics = [topic("/a/x", 0.6, 1), topic("/a/y", 0.35, 1), topic("/a/z", 0.6, 2)]
    goal = Goal(target_cv=0.05, ceilings=(0.7, 1.0, 0.85, 0.85))
    assert planned(places, topics, goal).verdict is Verdict.STUCK


def test_a_burst_of_new_topics_is_spread_and_partitions_are_kept_apart() -> None:
    state = ClusterState([place(1), place(2), place(3)], [topic("/a/x", 0.5, 1)], Strategy.BALANCED)
    new = [topic(f"/a/p-part-{number}", 0.1, 0, group="/a/p") for number in range(6)]
    found = assign_topics(state, new, seed=7)
    assert sorted(found.values()) == [1, 1, 2, 2, 3, 3]
    again = ClusterState([place(1), place(2), place(3)], [topic("/a/x", 0.5, 1)], Strategy.BALANCED)
    assert assign_topics(again, new, seed=7) == found
    assert assign_topics(ClusterState([place(1, takes_topics=False)], [], Strategy.FAIR), new, seed=1) == {}


def test_a_topic_that_nobody_has_measured_is_expected_to_be_like_the_others() -> None:
    known = [Demand(topic=f"/a/{cores}", cores=cores) for cores in (0.1, 0.2, 0.9)]
    assert expected_demand("/a/new", known).cores == 0.2
    assert expected_demand("/a/new", []).cores == 0.0


def test_what_would_be_without_a_broker_with_one_more_and_with_a_hotter_topic() -> None:
    places, topics = [place(1), place(2)], list(SKEWED)
    left, moved = without_broker(places, topics, 2, Strategy.BALANCED)
    assert ([one.broker_id for one in left], {one.broker_id for one in moved}) == ([1], {1})
    more, same = with_broker(places, topics, 3)
    assert planned(more, same).after.cv < planned(places, topics).before.cv
    _, hotter = with_rate(places, topics, "/a/x", 2.0)
    assert hotter[0].demand.cores == 0.8
    with pytest.raises(NotFoundError):
        without_broker(places, topics, 9, Strategy.BALANCED)
    with pytest.raises(NotFoundError):
        with_rate(places, topics, "/a/no", 2.0)


def test_a_rate_is_smoothed_by_its_half_life_and_survives_a_counter_that_begins_anew() -> None:
    rate = SmoothedRate(10.0).read(0, 0.0).read(1_000, 10.0)
    assert rate.value == 100.0
    rate = rate.read(1_000, 20.0)
    assert rate.value == pytest.approx(50.0)
    assert rate.read(500, 30.0).value == pytest.approx(50.0)
    assert rate.read(2_000, 20.0) == rate
