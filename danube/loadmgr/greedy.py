"""Greedy search of a large cluster: at each step the move, or the swap, that takes most of the imbalance away. Pure."""

from collections.abc import Iterator

from danube.loadmgr.cluster_state import ClusterState
from danube.loadmgr.goal import GAIN_MIN, Goal, Step, in_order, is_allowed, is_sound, pays
from danube.model.limits.balance import PLAN_CANDIDATES_MAX, PLAN_SOURCES_MAX, PLAN_TARGETS_MAX


def greedy(state: ClusterState, goal: Goal) -> list[Step]:
    """Moves that bring the imbalance below the target, or near it where that pays; the state is as before."""
    origin, scores = dict[str, int](), dict(state.scores)
    """Brokers of the topics that were moved, before their first move."""
    while state.imbalance().cv >= goal.target_cv and len(_changed(state, origin)) < goal.moves_max:
        steps = _best_move(state, goal) or _best_swap(state, goal)
        if not steps:
            break
        for name, target in steps:
            origin.setdefault(name, state.broker_of[name])
            state.move(name, target)
    _drop_needless(state, origin, goal)
    changed = _changed(state, origin)
    touched = {broker_id for name, target in changed for broker_id in (origin[name], target)}
    is_worth = state.imbalance().cv < goal.target_cv or pays(scores, state.scores, touched, goal)
    for name, _ in changed:
        state.move(name, origin[name])
    return in_order(state, changed) if is_worth else []


def _changed(state: ClusterState, origin: dict[str, int]) -> list[Step]:
    return [(name, state.broker_of[name]) for name, source in origin.items() if state.broker_of[name] != source]


def _best_move(state: ClusterState, goal: Goal) -> list[Step]:
    """The move that takes most of the variance away, the cheapest of those that come close to it."""
    mean, best = state.imbalance().mean, None
    for source, target in _pairs(state):
        for name in state.nearest(source, (state.scores[source] - state.scores[target]) / 2, PLAN_CANDIDATES_MAX):
            if not is_allowed(state, name, target, goal):
                continue
            gain = _gain(state, (source, target), state.scores_after(name, target), mean)
            if gain > GAIN_MIN and (best is None or gain > best[0]):
                best = gain, name, target
    return [(best[1], best[2])] if best is not None else []


def _best_swap(state: ClusterState, goal: Goal) -> list[Step]:
    """The pair of topics of a busy and an idle broker that are better off in each other's place."""
    mean, best = state.imbalance().mean, None
    for source, target in _pairs(state):
        half = (state.scores[source] - state.scores[target]) / 2
        for name in state.nearest(source, half, PLAN_CANDIDATES_MAX):
            for other in state.nearest(target, max(0.0, state.weight(name, source) - half), PLAN_CANDIDATES_MAX):
                gain = _swap_gain(state, (name, target), (other, source), goal, mean)
                if gain > GAIN_MIN and (best is None or gain > best[0]):
                    best = gain, [(name, target), (other, source)]
    return best[1] if best is not None else []


def _swap_gain(state: ClusterState, there: Step, back: Step, goal: Goal, mean: float) -> float:
    """Variance that a swap takes away, 0 where it breaks a limit; the state is as before."""
    (name, target), (other, source) = there, back
    if not (state.places[source].takes_topics and state.keeps_apart(name, target)):
        return 0.0
    shares = {source: state.shares[source], target: state.shares[target]}
    scores = state.scores[source], state.scores[target]
    state.move(name, target)
    is_apart = state.keeps_apart(other, source)
    state.move(other, source)
    gain = _variance_gain(scores, (state.scores[source], state.scores[target]), mean)
    may_be = is_apart and is_sound(state, shares, goal)
    state.move(other, target)
    state.move(name, source)
    return gain if may_be else 0.0


def _pairs(state: ClusterState) -> Iterator[tuple[int, int]]:
    """Busy brokers with idle ones, the furthest apart first."""
    takers = [broker_id for broker_id, place in state.places.items() if place.takes_topics]
    by_score = sorted(takers, key=lambda broker_id: (state.scores[broker_id], broker_id))
    for source in by_score[::-1][:PLAN_SOURCES_MAX]:
        for target in by_score[:PLAN_TARGETS_MAX]:
            if state.scores[source] > state.scores[target]:
                yield source, target


def _gain(state: ClusterState, pair: tuple[int, int], after: tuple[float, float], mean: float) -> float:
    return _variance_gain((state.scores[pair[0]], state.scores[pair[1]]), after, mean)


def _variance_gain(before: tuple[float, float], after: tuple[float, float], mean: float) -> float:
    return sum((score - mean) ** 2 for score in before) - sum((score - mean) ** 2 for score in after)


def _drop_needless(state: ClusterState, origin: dict[str, int], goal: Goal) -> None:
    """Take back moves without which the target is reached as well, the dearest first."""
    if state.imbalance().cv >= goal.target_cv:
        return
    for name, target in sorted(_changed(state, origin), key=lambda step: state.weight(*step)):
        if not is_allowed(state, name, origin[name], goal):
            continue
        state.move(name, origin[name])
        if state.imbalance().cv >= goal.target_cv:
            state.move(name, target)
