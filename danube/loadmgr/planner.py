"""Planner of a rebalance: the fewest and cheapest moves that bring the imbalance below its target. Pure.

Small clusters are searched exactly: every set of moves, the smallest first. Large ones are planned greedily: at each
step the move, or the swap, that takes most of the imbalance away; at the end moves that are not needed are dropped. No
move makes a resource of a broker worse than its ceiling, and none is planned that does not pay.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from danube.loadmgr.cluster_state import ClusterState, Place, PlacedTopic
from danube.loadmgr.exact import exact, is_small
from danube.loadmgr.goal import Goal, Step, movable
from danube.loadmgr.greedy import greedy
from danube.loadmgr.score import BrokerScore, Imbalance, Strategy
from danube.model.limits.balance import BALANCE_IDLE_SCORE, PLAN_MOVES_MAX


class Verdict(StrEnum):
    """Result of planning."""

    ALONE = "alone"
    """There are fewer than two brokers that take topics, now or in a moment."""
    BALANCED = "balanced"
    """The imbalance is below its target already."""
    IDLE = "idle"
    """The busiest broker has so little to do that no move pays."""
    WAITING = "waiting"
    """A broker that failed lately gets no topics for a while: a plan is made then."""
    PLANNED = "planned"
    """The moves reach the target."""
    IMPROVED = "improved"
    """The moves help, and the target cannot be reached."""
    STUCK = "stuck"
    """No move that is allowed helps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """One move, with the scores of both brokers before and after it, in the order of the plan."""

    topic: str
    source: int
    target: int
    source_scores: tuple[float, float]
    target_scores: tuple[float, float]
    carried_bytes: int
    clients: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalancePlan:
    """A plan, with what it starts from and leads to."""

    verdict: Verdict
    moves: tuple[Move, ...]
    before: Imbalance
    after: Imbalance
    brokers_before: dict[int, BrokerScore]
    brokers_after: dict[int, BrokerScore]
    hot_topic: str = ""
    """A topic whose load alone is above the mean of the brokers: only more partitions help; "" for none."""

    @property
    def carried_bytes(self) -> int:
        """Bytes that all moves copy."""
        return sum(move.carried_bytes for move in self.moves)

    @property
    def clients(self) -> int:
        """Producers and consumers that all moves disturb."""
        return sum(move.clients for move in self.moves)


def plan(places: Sequence[Place], topics: Sequence[PlacedTopic], goal: Goal) -> RebalancePlan:
    """The plan for a cluster."""
    state = ClusterState(places, topics, goal.strategy)
    before = state.imbalance()
    verdict = _nothing_to_do(state, before, goal)
    if verdict is not None:
        return _planned(state, state, verdict, [])
    steps = _search(state, goal)
    end = ClusterState(places, topics, goal.strategy)
    for name, target in steps:
        end.move(name, target)
    if not steps or end.imbalance().cv >= before.cv:
        steps, end, verdict = [], state, Verdict.STUCK
    else:
        verdict = Verdict.PLANNED if end.imbalance().cv < goal.target_cv else Verdict.IMPROVED
    return _planned(state, end, verdict, steps)


def _search(state: ClusterState, goal: Goal) -> list[Step]:
    """The moves; where too few are allowed to pay and more would, the first of them."""
    search = exact if is_small(state) else greedy
    steps = search(state, goal)
    if not steps and goal.moves_max < min(PLAN_MOVES_MAX, len(movable(state))):
        whole = search(state, replace(goal, moves_max=PLAN_MOVES_MAX))
        steps = search(state, replace(goal, gain_min=0.0)) if whole else []
    return steps


def _nothing_to_do(state: ClusterState, found: Imbalance, goal: Goal) -> Verdict | None:
    if sum(place.counts for place in state.places.values()) < 2:
        return Verdict.ALONE
    if found.cv < goal.target_cv:
        return Verdict.BALANCED
    if found.highest < BALANCE_IDLE_SCORE and goal.strategy is not Strategy.FAIR:
        return Verdict.IDLE
    return Verdict.WAITING if any(place.waits_until for place in state.places.values()) else None


def _planned(start: ClusterState, end: ClusterState, verdict: Verdict, steps: Sequence[Step]) -> RebalancePlan:
    before, scores = start.imbalance(), start.broker_scores()
    return RebalancePlan(
        verdict=verdict,
        moves=tuple(_moves(start, steps)),
        before=before,
        after=end.imbalance(),
        brokers_before=scores,
        brokers_after=end.broker_scores(),
        hot_topic=_hot_topic(end) if verdict in {Verdict.IMPROVED, Verdict.STUCK} else "",
    )


def _moves(state: ClusterState, steps: Sequence[Step]) -> Iterator[Move]:
    for name, target in steps:
        source, demand = state.broker_of[name], state.topics[name].demand
        before = state.scores[source], state.scores[target]
        state.move(name, target)
        yield Move(
            topic=name,
            source=source,
            target=target,
            source_scores=(before[0], state.scores[source]),
            target_scores=(before[1], state.scores[target]),
            carried_bytes=demand.carried_bytes,
            clients=demand.clients,
        )


def _hot_topic(state: ClusterState) -> str:
    mean = state.imbalance().mean
    hottest, weight = "", mean
    for name in state.topics:
        own = state.weight(name, state.broker_of[name])
        if own > weight:
            hottest, weight = name, own
    return hottest
