"""Exact search of a small cluster: every set of moves, the smallest first. Pure."""

import itertools
import math
from collections.abc import Sequence

from danube.loadmgr.cluster_state import ClusterState
from danube.loadmgr.goal import GAIN_MIN, Goal, Step, in_order, is_sound, movable, pays, targets_of
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
    """The fewest moves that reach the target, the cheapest of these; else of those that pay the nearest to it."""
    names, targets, start = movable(state), targets_of(state), state.imbalance()
    nearest: tuple[float, list[Step]] = (start.cv * (1 - GAIN_MIN), [])
    for count in range(1, min(len(names), goal.moves_max) + 1):
        found: list[tuple[tuple[int, int, float], list[Step]]] = []
        for chosen in itertools.combinations(names, count):
            for places in itertools.product(targets, repeat=count):
                steps = list(zip(chosen, places, strict=True))
                cv, does_pay = _judged(state, steps, goal)
                if cv < goal.target_cv:
                    found.append(((*_price(state, steps), cv), steps))
                elif does_pay and cv < nearest[0] * (1 - GAIN_MIN):
                    nearest = cv, steps
        if found:
            return in_order(state, min(found)[1])
    return in_order(state, nearest[1])


def _judged(state: ClusterState, steps: Sequence[Step], goal: Goal) -> tuple[float, bool]:
    """The imbalance after these moves, infinite where they break a limit, and whether they pay; nothing is moved."""
    back, scores = [(name, state.broker_of[name]) for name, _ in steps], dict(state.scores)
    touched = {broker_id for _, broker_id in (*back, *steps)}
    before, allowed = {target: state.shares[target] for _, target in steps}, True
    for done, (name, target) in enumerate(steps):
        if target == back[done][1]:
            allowed, back = False, back[:done]
            break
        state.move(name, target)
    if allowed:
        allowed = is_sound(state, before, goal) and not any(state.is_crowded(*step) for step in steps)
    judged = (state.imbalance().cv, pays(scores, state.scores, touched, goal)) if allowed else (math.inf, False)
    for name, source in reversed(back):
        state.move(name, source)
    return judged


def _price(state: ClusterState, steps: Sequence[Step]) -> tuple[int, int]:
    """Bytes to carry and clients to disturb."""
    demands = [state.topics[name].demand for name, _ in steps]
    return sum(one.carried_bytes for one in demands), sum(one.clients for one in demands)
