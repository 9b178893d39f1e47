"""Plans that rebalance: they never make it worse, break no limit, and are as short as they can be."""

import itertools
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import ceil

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from danube.loadmgr.cluster_state import ClusterState, Place, PlacedTopic
from danube.loadmgr.goal import Goal
from danube.loadmgr.greedy import greedy
from danube.loadmgr.load import Capacity, Demand
from danube.loadmgr.planner import RebalancePlan, Verdict, plan
from danube.loadmgr.score import Strategy

cores, disks = st.sampled_from([1.0, 2.0, 4.0]), st.sampled_from([0, 10**9])
shares = st.floats(0, 0.4, allow_nan=False)


@st.composite
def clusters(draw: st.DrawFn, brokers: int = 4, topics: int = 12) -> tuple[list[Place], list[PlacedTopic]]:
    places = [
        Place(
            broker_id=number + 1,
            capacity=Capacity(cores=draw(cores), disk_bytes=draw(disks)),
            own=(draw(shares), draw(shares), 0.0, draw(shares)),
            takes_topics=draw(st.booleans()) if number > 1 else True,
        )
        for number in range(draw(st.integers(2, brokers)))
    ]
    return places, [draw(placed(number, len(places))) for number in range(draw(st.integers(1, topics)))]


@st.composite
def placed(draw: st.DrawFn, number: int, brokers: int) -> PlacedTopic:
    return PlacedTopic(
        demand=Demand(
            topic=f"/default/t{number}",
            cores=draw(st.floats(0, 1)),
            bytes_per_s=draw(st.floats(0, 4e7)),
            stored_bytes=draw(st.integers(0, 10**8)),
            clients=draw(st.integers(0, 5)),
            carried_bytes=draw(st.integers(0, 10**8)),
        ),
        broker_id=draw(st.integers(1, brokers)),
        group=draw(st.sampled_from(["", "", "/default/a", "/default/b"])),
        stays=draw(st.sampled_from(["", "", "", "pinned"])),
    )


goals = st.builds(
    Goal,
    target_cv=st.sampled_from([0.1, 0.2, 0.3]),
    moves_max=st.sampled_from([1, 3, 1_000]),
    strategy=st.sampled_from(list(Strategy)),
)


def applied(topics: Sequence[PlacedTopic], found: RebalancePlan) -> list[PlacedTopic]:
    moved = {move.topic: move.target for move in found.moves}
    return [replace(one, broker_id=moved.get(one.demand.topic, one.broker_id)) for one in topics]


@given(clusters(), goals)
def test_a_plan_never_makes_the_imbalance_worse_and_keeps_its_word(
    cluster: tuple[list[Place], list[PlacedTopic]], goal: Goal
) -> None:
    places, topics = cluster
    found = plan(places, topics, goal)
    after = ClusterState(places, applied(topics, found), goal.strategy).imbalance()
    assert abs(after.cv - found.after.cv) < 1e-6
    assert found.after.cv <= found.before.cv + 1e-9
    assert len(found.moves) <= goal.moves_max
    assert (found.verdict is Verdict.PLANNED) == (bool(found.moves) and found.after.cv < goal.target_cv)


@given(clusters(), goals)
def test_no_limit_is_ever_broken(cluster: tuple[list[Place], list[PlacedTopic]], goal: Goal) -> None:
    places, topics = cluster
    found = plan(places, topics, goal)
    by_name, by_id = {one.demand.topic: one for one in topics}, {place.broker_id: place for place in places}
    before = ClusterState(places, topics, goal.strategy)
    after = ClusterState(places, applied(topics, found), goal.strategy)
    for move in found.moves:
        assert not by_name[move.topic].stays
        assert by_id[move.target].takes_topics
        assert move.source != move.target
    for broker_id in by_id:
        for old, new, ceiling in zip(before.shares[broker_id], after.shares[broker_id], goal.ceilings, strict=True):
            assert new <= max(old, ceiling) + 1e-9


@given(clusters(), goals)
def test_no_broker_gets_more_partitions_of_a_topic_than_its_share(
    cluster: tuple[list[Place], list[PlacedTopic]], goal: Goal
) -> None:
    places, topics = cluster
    before, after = crowds(topics), crowds(applied(topics, plan(places, topics, goal)))
    for (broker_id, group), count in after.items():
        assert count <= max(before[broker_id, group], fair_share(places, topics, group))


def crowds(topics: Iterable[PlacedTopic]) -> Counter[tuple[int, str]]:
    """Partitions on each broker, by base name."""
    return Counter((one.broker_id, one.group) for one in topics if one.group)


def fair_share(places: Sequence[Place], topics: Sequence[PlacedTopic], group: str) -> int:
    takers = sum(place.takes_topics for place in places)
    return ceil(sum(one.group == group for one in topics) / takers)


@given(clusters(), goals)
def test_a_plan_reaches_its_target_or_relieves_the_busiest_broker_that_it_touches_by_a_tenth(
    cluster: tuple[list[Place], list[PlacedTopic]], goal: Goal
) -> None:
    places, topics = cluster
    assume(goal.moves_max > 3)
    found = plan(places, topics, goal)
    if found.verdict is Verdict.IMPROVED:
        touched = {broker_id for move in found.moves for broker_id in (move.source, move.target)}
        before, after = (
            max(scores[each].score for each in touched) for scores in (found.brokers_before, found.brokers_after)
        )
        assert after < 0.9 * before


@given(clusters(), goals)
def test_a_plan_that_is_applied_and_planned_again_is_empty(
    cluster: tuple[list[Place], list[PlacedTopic]], goal: Goal
) -> None:
    places, topics = cluster
    assume(goal.moves_max > 3)
    found = plan(places, topics, goal)
    again = plan(places, applied(topics, found), goal)
    assert again.moves == ()


@settings(max_examples=60)
@given(clusters(brokers=3, topics=6), st.sampled_from([0.15, 0.25]))
def test_small_clusters_get_the_fewest_moves_and_of_these_the_cheapest(
    cluster: tuple[list[Place], list[PlacedTopic]], target_cv: float
) -> None:
    places, topics = cluster
    goal = Goal(target_cv=target_cv, ceilings=(10.0, 10.0, 10.0, 10.0))
    found = plan(places, topics, goal)
    assume(found.verdict in {Verdict.PLANNED, Verdict.IMPROVED, Verdict.STUCK})
    prices = [price for assigned in _assignments(places, topics) if (price := _price(places, topics, assigned, goal))]
    if found.verdict is not Verdict.PLANNED:
        assert prices == []
        return
    assert (len(found.moves), found.carried_bytes, found.clients) == min(prices)


def _assignments(places: Sequence[Place], topics: Sequence[PlacedTopic]) -> Iterable[tuple[int, ...]]:
    targets = [place.broker_id for place in places if place.takes_topics]
    choices = [{one.broker_id} if one.stays else {one.broker_id, *targets} for one in topics]
    return itertools.product(*map(sorted, choices))


def _price(
    places: Sequence[Place], topics: Sequence[PlacedTopic], assigned: tuple[int, ...], goal: Goal
) -> tuple[int, int, int] | None:
    """Moves, bytes and clients of an assignment that reaches the target; None for one that does not."""
    moved = [replace(one, broker_id=broker_id) for one, broker_id in zip(topics, assigned, strict=True)]
    if ClusterState(places, moved, goal.strategy).imbalance().cv >= goal.target_cv:
        return None
    before = crowds(topics)
    if any(count > max(before[at], fair_share(places, topics, at[1])) for at, count in crowds(moved).items()):
        return None
    changed = [one.demand for one, before in zip(moved, topics, strict=True) if one.broker_id != before.broker_id]
    return len(changed), sum(one.carried_bytes for one in changed), sum(one.clients for one in changed)


@settings(max_examples=60)
@given(clusters(brokers=3, topics=7))
def test_the_search_of_large_clusters_never_makes_it_worse_than_it_was(
    cluster: tuple[list[Place], list[PlacedTopic]],
) -> None:
    places, topics = cluster
    state, goal = ClusterState(places, topics, Strategy.BALANCED), Goal()
    before = state.imbalance().cv
    for name, target in greedy(state, goal):
        state.move(name, target)
    assert state.imbalance().cv <= before + 1e-9
