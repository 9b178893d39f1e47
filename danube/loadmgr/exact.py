"""Exact search of a small cluster: every set of moves, the smallest first. Pure."""

import itertools
from collections.abc import Sequence

from danube.loadmgr.cluster_state import ClusterState
from danube.loadmgr.goal import GAIN_MIN, Goal, Step, in_order, is_sound, movable, targets_of
from danube.model.limits.balance import EXACT_STATES_MAX


def is_small(state: ClusterState) -> bool:
    """True if all assignments of topics can be looked at."""
    states = 1
    for _ in movable(state):
        states *= max(1, len(targets_of(state)))
        if states > EXACT_STATES_MAX:
            return False
    return True


def exact(state: ClusterState, goal: Goal) -> list[Step]:
    """The fewest moves that reach the target, the cheapest of these; else those that come nearest to it."""
    names, targets, start = movable(state), targets_of(state), state.imbalance()
    nearest: tuple[float, list[Step]] = (start.cv * (1 - GAIN_MIN), [])
    for count in range(1, min(len(names), goal.moves_max) + 1):
        found: list[tuple[tuple[int, int, float], list[Step]]] = []
        for chosen in itertools.combinations(names, count):
            for places in itertools.product(targets, repeat=count):
                steps = list(zip(chosen, places, strict=True))
                cv = _cv_after(state, steps, goal)
                if cv is None:
                    continue
                if cv < goal.target_cv:
                    found.append(((*_price(state, steps), cv), steps))
                elif cv < nearest[0] * (1 - GAIN_MIN):
                    nearest = cv, steps
        if found:
            return in_order(state, min(found)[1])
    return in_order(state, nearest[1])


def _cv_after(state: ClusterState, steps: Sequence[Step], goal: Goal) -> float | None:
    """The imbalance after these moves, None where they break a limit; the state is as before."""
    back = [(name, state.broker_of[name]) for name, _ in steps]
    before, allowed = {target: state.shares[target] for _, target in steps}, True
    for done, (name, target) in enumerate(steps):
        if target == back[done][1]:
            allowed, back = False, back[:done]
            break
        state.move(name, target)
    if allowed:
        allowed = is_sound(state, before, goal) and not any(state.is_crowded(*step) for step in steps)
    cv = state.imbalance().cv
    for name, source in reversed(back):
        state.move(name, source)
    return cv if allowed else None


def _price(state: ClusterState, steps: Sequence[Step]) -> tuple[int, int]:
    """Bytes to carry and clients to disturb."""
    demands = [state.topics[name].demand for name, _ in steps]
    return sum(one.carried_bytes for one in demands), sum(one.clients for one in demands)
