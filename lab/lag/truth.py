"""Truth of a situation: what its own clients did and know, and how a verdict compares with it. Pure."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field

from danube.model.lag.verdict import LagStatus

GRACE_S = 30.0
"""A verdict may be so late, beyond the evidence."""
MESSAGES_OFF = 2
"""Messages by which broker and clients may differ: those on their way."""
SMOOTH_S = 10.0
"""Batches that are so near to one another are one even flow."""
FINE = frozenset({LagStatus.OK})
BEHIND = frozenset({LagStatus.WARN, LagStatus.STOP, LagStatus.STALL})
STOOD = frozenset({LagStatus.STOP, LagStatus.STALL})


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """A span of a situation in which one thing is true; it lasts until the next phase begins."""

    begins_s: float
    statuses: frozenset[LagStatus] = FINE
    """Each of them is right."""
    causes: frozenset[str | None] = frozenset({None})
    evidence_s: float = 0.0
    """So long after the begin nobody could know it from outside: a silence must last before it is one."""

    @property
    def is_trouble(self) -> bool:
        """True if a person should hear of it."""
        return not self.statuses & FINE

    def holds(self, status: LagStatus, cause: str | None) -> bool:
        """True when the verdict is right."""
        return status in self.statuses and cause in self.causes


@dataclass(slots=True)
class Ledger:
    """Deeds of the clients of one topic: offsets in the order of their sending, and times of their answers."""

    sent_s: list[float] = field(default_factory=list)
    answered_s: dict[int, float] = field(default_factory=dict)
    """By offset: acknowledged, or passed over because an administrator or retention said so."""
    acknowledged_s: list[float] = field(default_factory=list)
    """One for each message that a consumer acknowledged for the first time."""

    def sent(self, at_s: float, count: int) -> None:
        """More messages were accepted."""
        self.sent_s += [at_s] * count

    def acknowledged(self, at_s: float, offset: int) -> None:
        """A consumer has its confirmation."""
        if offset not in self.answered_s:
            self.answered_s[offset] = at_s
            self.acknowledged_s.append(at_s)

    def begin_anew(self) -> None:
        """The topic was made anew."""
        self.sent_s.clear()
        self.answered_s.clear()
        self.acknowledged_s.clear()

    def passed_over(self, at_s: float, below: int) -> None:
        """All below were given up."""
        for offset in range(min(below, len(self.sent_s))):
            self.answered_s.setdefault(offset, at_s)

    def at(self, at_s: float, window_s: float = 45.0) -> "Numbers":
        """The numbers as they were at a time."""
        count = bisect_right(self.sent_s, at_s)
        waiting = [offset for offset in range(count) if self.answered_s.get(offset, at_s + 1.0) > at_s]
        since_s = at_s - window_s
        return Numbers(
            lag_messages=len(waiting),
            lag_s=at_s - self.sent_s[waiting[0]] if waiting else 0.0,
            lag_s_least=at_s - self.sent_s[min(count - 1, waiting[0] + MESSAGES_OFF)] if waiting else 0.0,
            lag_s_most=at_s - self.sent_s[max(0, waiting[0] - MESSAGES_OFF)] if waiting else 0.0,
            arrival_rate=(_smooth(self.sent_s, at_s) - _smooth(self.sent_s, since_s)) / window_s,
            consume_rate=(_smooth(self.acknowledged_s, at_s) - _smooth(self.acknowledged_s, since_s)) / window_s,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """Numbers of a subscription at a time, told by its clients."""

    lag_messages: int
    lag_s: float
    lag_s_least: float
    """If a few messages more were read, whose confirmations are on their way; or fewer, as `lag_s_most`."""
    lag_s_most: float
    arrival_rate: float
    consume_rate: float


def _smooth(times_s: Sequence[float], at_s: float) -> float:
    """Messages until a time, if those of a batch had come one by one since the batch before it, a moment ago."""
    count = bisect_right(times_s, at_s)
    if 0 < count < len(times_s) and (apart_s := times_s[count] - times_s[count - 1]) <= SMOOTH_S:
        batch = bisect_right(times_s, times_s[count]) - count
        return count + batch * (at_s - times_s[count - 1]) / apart_s
    return float(count)
