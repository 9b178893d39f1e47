"""Target and limits of a plan, and the moves that they allow. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from danube.loadmgr.cluster_state import ClusterState
from danube.loadmgr.load import Shares
from danube.loadmgr.score import Strategy
from danube.model.limits.balance import PLAN_GAIN_MIN, PLAN_MOVES_MAX, TARGET_CV

GAIN_MIN = 1e-6
"""Of the variance of the scores: less is no gain."""

Step = tuple[str, int]
"""A topic, and the broker that it moves to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """Target and limits of a plan."""

    target_cv: float = TARGET_CV
    moves_max: int = PLAN_MOVES_MAX
    ceilings: Shares = (0.85, 1.0, 0.85, 0.85)
    """Shares of the resources of a broker above which no move takes it."""
    strategy: Strategy = Strategy.BALANCED
    gain_min: float = PLAN_GAIN_MIN
    """Share that a plan short of the target takes off the busiest of the brokers that it touches."""


def movable(state: ClusterState) -> list[str]:
    """Topics that may move, by name."""
    return sorted(name for name, topic in state.topics.items() if not topic.stays)


def targets_of(state: ClusterState) -> list[int]:
    """Brokers that take topics, by id."""
    return sorted(broker_id for broker_id, place in state.places.items() if place.takes_topics)


def is_allowed(state: ClusterState, name: str, target: int, goal: Goal) -> bool:
    """True if a move breaks no limit."""
    if target == state.broker_of[name] or not state.places[target].takes_topics:
        return False
    after = state.shares_with(name, target)
    before = state.shares[target]
    if any(new > ceiling and new > old for new, old, ceiling in zip(after, before, goal.ceilings, strict=True)):
        return False
    return state.keeps_apart(name, target)


def is_sound(state: ClusterState, before: Mapping[int, Shares], goal: Goal) -> bool:
    """True if no broker has gone further above a ceiling than it was `before`."""
    for broker_id, old in before.items():
        for new, share, ceiling in zip(state.shares[broker_id], old, goal.ceilings, strict=True):
            if new > ceiling and new > share:
                return False
    return True


def in_order(state: ClusterState, steps: Sequence[Step]) -> list[Step]:
    """The moves that relieve the busiest brokers first."""
    return sorted(steps, key=lambda step: (-state.scores[state.broker_of[step[0]]], step[0]))


def pays(before: Mapping[int, float], after: Mapping[int, float], touched: Iterable[int], goal: Goal) -> bool:
    """True if moves that miss the target are worth their pauses: they do more than swap the hot spot.

    By the scores before and after them, of the brokers that they touch.
    """
    brokers = [*touched]
    peaks = max((before[each] for each in brokers), default=0.0), max((after[each] for each in brokers), default=0.0)
    return peaks[1] < peaks[0] * (1 - goal.gain_min) or goal.gain_min == 0
