"""Rule of the automatic mode: whether to rebalance now. Pure.

It acts on imbalance that lasts, not on one report: some of the last checks must have been above the threshold. It aims
below the threshold, so that the next check does not act again; a topic that has moved stays for a while; a failed move,
a missing broker and a plan that waits for a person stop it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from danube.model.limits.balance import AUTOMATIC_HISTORY_MAX


class Automatic(StrEnum):
    """Automatic modes, by the original's names."""

    OFF = "off"
    CONSERVATIVE = "conservative"
    BALANCED = "balanced"
    AGGRESSIVE = "aggressive"


@dataclass(frozen=True, slots=True, kw_only=True)
class AutomaticRule:
    """Numbers of a mode."""

    threshold_cv: float
    target_cv: float
    checks: int
    """The last checks that are looked at."""
    hits: int
    """So many of them must have been above the threshold."""
    moves_per_hour: int
    mute_s: float
    """A topic that has moved stays for so long."""


RULES: Mapping[Automatic, AutomaticRule] = {
    Automatic.CONSERVATIVE: AutomaticRule(
        threshold_cv=0.4, target_cv=0.25, checks=10, hits=9, moves_per_hour=5, mute_s=3_600
    ),
    Automatic.BALANCED: AutomaticRule(
        threshold_cv=0.3, target_cv=0.2, checks=6, hits=5, moves_per_hour=10, mute_s=3_600
    ),
    Automatic.AGGRESSIVE: AutomaticRule(
        threshold_cv=0.2, target_cv=0.12, checks=3, hits=3, moves_per_hour=20, mute_s=3_600
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Obstacles:
    """Facts that stop the automatic mode."""

    missing_brokers: tuple[int, ...] = ()
    """That own topics and do not run, or have not reported."""
    waiting_plan: str = ""
    """Id of an administrator's plan that waits; "" for none."""
    failed_move: str = ""
    """A topic whose last move failed; "" for none."""
    moves_under_way: int = 0


@dataclass(frozen=True, slots=True)
class AutomaticMemory:
    """Memory of the automatic mode, from check to check."""

    checks: tuple[bool, ...] = ()
    """Results of the last checks, the newest last: True for an imbalance above the threshold."""
    moves: tuple[tuple[str, int], ...] = ()
    """Topics that it moved, and when in milliseconds, the newest last."""

    def moved(self, topics: tuple[str, ...], now_ms: int) -> "AutomaticMemory":
        """The memory after it moved these topics; what was seen before them says nothing any more."""
        moves = (*self.moves, *((topic, now_ms) for topic in topics))
        return AutomaticMemory((), moves[-AUTOMATIC_HISTORY_MAX:])

    def muted(self, rule: AutomaticRule, now_ms: int) -> frozenset[str]:
        """Topics that stay, as they have moved lately."""
        return frozenset(topic for topic, at_ms in self.moves if now_ms - at_ms < rule.mute_s * 1_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Result of a check."""

    moves_max: int
    """Moves that it may plan now; 0 to do nothing."""
    reason: str
    memory: AutomaticMemory


def check(rule: AutomaticRule, memory: AutomaticMemory, cv: float, obstacles: Obstacles, now_ms: int) -> Decision:
    """The decision at this moment, for an imbalance of `cv`."""
    memory = replace(memory, checks=(*memory.checks, cv >= rule.threshold_cv)[-rule.checks :])
    reason = _obstacle(obstacles)
    if reason:
        return Decision(moves_max=0, reason=reason, memory=replace(memory, checks=()))
    hits = sum(memory.checks)
    if hits < rule.hits:
        last = f"above {rule.threshold_cv:.2f} in {hits} of the last {len(memory.checks)} checks"
        return Decision(moves_max=0, reason=f"the imbalance was {last}: {rule.hits} are needed", memory=memory)
    left = rule.moves_per_hour - sum(now_ms - at_ms < 3_600_000 for _, at_ms in memory.moves)
    if left <= 0:
        return Decision(moves_max=0, reason=f"{rule.moves_per_hour} topics have moved in the last hour", memory=memory)
    reason = f"the imbalance is {cv:.2f} and was above {rule.threshold_cv:.2f} in {hits} of {rule.checks} checks"
    return Decision(moves_max=left, reason=reason, memory=memory)


def _obstacle(obstacles: Obstacles) -> str:
    if obstacles.missing_brokers:
        names = ", ".join(map(str, obstacles.missing_brokers))
        return f"broker {names} is missing: bring it back, or remove it"
    if obstacles.waiting_plan:
        return f"plan {obstacles.waiting_plan} waits for a person: approve or reject it"
    if obstacles.failed_move:
        return f"the last move of {obstacles.failed_move} failed: see why, then switch the automatic mode on again"
    if obstacles.moves_under_way:
        return f"{obstacles.moves_under_way} topics are on their way"
    return ""
