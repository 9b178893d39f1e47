"""Incidents of one subscription, from its verdicts over time: what is worth waking a person for, and why. Pure.

A verdict says how a subscription stands; most that are behind catch up by themselves. An incident is lag that is old
for this subscription (older than `high_s`, than its usual lag, and than what is usual at this hour of the week) and
does not shrink, for two moments in a row. Silence of a broker, a block by an exhausted message, and unread messages
that were deleted are incidents, too. It ends when the lag is young again. `docs/lag.md` has its precision and recall.
"""

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from danube.model.lag.seasonal import hour_of_week
from danube.model.lag.verdict import LagCause, LagRule, LagStatus, LagVerdict


class IncidentCause(StrEnum):
    """Named cause of an incident."""

    BROKER_DOWN = "broker_down"
    DATA_LOSS = "data_loss"
    BLOCKED = "blocked"
    REWOUND = "rewound"
    CONSUMER_GONE = "consumer_gone"
    POISON_MESSAGE = "poison_message"
    REDELIVERY_STORM = "redelivery_storm"
    CONSUMER_STUCK = "consumer_stuck"
    NOT_SENT = "not_sent"
    REBALANCE = "rebalance"
    PRODUCER_BURST = "producer_burst"
    THROTTLED = "throttled"
    CONSUMER_SLOW = "consumer_slow"


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertPolicy:
    """Numbers in the rules."""

    high_s: float = 60.0
    """Lag that is younger is never an incident."""
    usual_factor: float = 1.5
    """Times its usual lag, the largest of `memory_s` before, that a subscription must be behind."""
    memory_s: float = 2_400.0
    recent_s: float = 240.0
    """The newest part of the memory, which is judged and is not yet usual."""
    known_s: float = 420.0
    """A subscription that is known for less is not judged by its lag: its usual lag is unknown."""
    growth_s: float = 150.0
    """The lag grows if it is larger than so long ago."""
    lasting: int = 2
    """Moments in a row that make an incident."""
    naming: int = 4
    """The first moments of an incident name its cause: later ones show its consequences."""
    burst_factor: float = 2.0
    """Times the usual arrival rate that is a burst."""

    @classmethod
    def for_step(cls, step_s: float) -> "AlertPolicy":
        """The numbers for moments that are so far apart: spans have a moment or more in them."""
        usual = cls()
        return cls(
            memory_s=max(usual.memory_s, 10 * step_s),
            recent_s=max(usual.recent_s, 2 * step_s),
            known_s=max(usual.known_s, 2 * step_s),
            growth_s=max(usual.growth_s, step_s),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """One incident of a subscription."""

    cause: IncidentCause
    began_ms: int
    ended_ms: int | None
    """None while it lasts."""
    peak_lag_s: float | None
    peak_lag_messages: int | None
    peak_ms: int
    messages_lost: int
    retention_deadline_s: float | None
    """Until unread messages are deleted at the rates of its worst moment; None when that is not near."""
    evidence: str


@dataclass(frozen=True, slots=True)
class _Seen:
    at_ms: int
    verdict: LagVerdict
    quiet: bool
    """True outside incidents: its lag is usual."""


@dataclass(slots=True)
class _Open:
    began_ms: int
    causes: Counter[IncidentCause] = field(default_factory=Counter)
    evidence: dict[IncidentCause, str] = field(default_factory=dict)
    worst: LagVerdict | None = None
    worst_ms: int = 0
    most: int | None = None
    """Messages, at whatever moment of it: not always the one with the oldest message."""
    lost: int = 0
    deadline_s: float | None = None


class IncidentFinder:
    """Finds incidents, moment by moment; keeps the memory of one subscription."""

    def __init__(self, policy: AlertPolicy) -> None:
        self._policy = policy
        self._seen: deque[_Seen] = deque()
        self._hits = 0
        self._hit_ms = 0
        self._open: _Open | None = None

    @property
    def is_open(self) -> bool:
        """True while an incident lasts."""
        return self._open is not None

    def see(self, at_ms: int, verdict: LagVerdict, usual_s: float = 0.0) -> Incident | None:
        """The incident that ended at this moment; `usual_s` is the lag that is usual at this hour of the week."""
        self._drop_old(at_ms)
        cause = self._judge(at_ms, verdict, usual_s)
        ended = None
        if cause is not None:
            self._hit_ms = at_ms if not self._hits else self._hit_ms
            self._hits += 1
            if self._open is None and self._hits >= self._needed(cause):
                self._open = _Open(began_ms=self._hit_ms)
        else:
            self._hits = 0
        if self._open is not None:
            self._note(at_ms, verdict, cause)
            if cause is None and self._is_over(verdict, usual_s):
                ended, self._open = self._closed(at_ms), None
        self._seen.append(_Seen(at_ms, verdict, quiet=self._open is None and cause is None))
        return ended

    def lasting(self) -> Incident | None:
        """The incident that has not ended."""
        return self._closed(None) if self._open is not None else None

    def _needed(self, cause: IncidentCause) -> int:
        return 1 if cause in {IncidentCause.BROKER_DOWN, IncidentCause.DATA_LOSS} else self._policy.lasting

    def _drop_old(self, at_ms: int) -> None:
        while self._seen and at_ms - self._seen[0].at_ms > self._policy.memory_s * 1_000:
            self._seen.popleft()

    def _judge(self, at_ms: int, verdict: LagVerdict, usual_s: float) -> IncidentCause | None:
        """Cause of an incident at this moment, or None."""
        if verdict.rule is LagRule.SILENT:
            return IncidentCause.BROKER_DOWN if self._was_active() else None
        if verdict.status is LagStatus.NOT_KEPT:
            return None
        if self._lost(verdict):
            return IncidentCause.DATA_LOSS
        if not verdict.lag_messages:
            return None
        if not self._is_high(at_ms, verdict, usual_s):
            return None
        return self._cause(at_ms, verdict) if self._is_stuck(at_ms, verdict) else None

    def _is_high(self, at_ms: int, verdict: LagVerdict, usual_s: float) -> bool:
        policy = self._policy
        if verdict.lag_s is None or verdict.lag_s < max(policy.high_s, usual_s):
            return False
        if verdict.blocked:
            return True
        if not self._seen or at_ms - self._seen[0].at_ms < policy.known_s * 1_000:
            return False
        return verdict.lag_s >= policy.usual_factor * self._usual_lag_s(at_ms)

    def _usual_lag_s(self, at_ms: int) -> float:
        until_ms = at_ms - self._policy.recent_s * 1_000
        return max((one.verdict.lag_s or 0.0 for one in self._seen if one.quiet and one.at_ms <= until_ms), default=0.0)

    def _is_stuck(self, at_ms: int, verdict: LagVerdict) -> bool:
        """True unless the lag shrinks."""
        if verdict.status in {LagStatus.STOP, LagStatus.STALL, LagStatus.REWIND}:
            return True
        before = self._before(at_ms, self._policy.growth_s)
        if before is None:
            return False
        if before.lag_s is not None and verdict.lag_s is not None:
            return verdict.lag_s > before.lag_s
        return (verdict.lag_messages or 0) > (before.lag_messages or 0)

    def _before(self, at_ms: int, age_s: float) -> LagVerdict | None:
        for one in reversed(self._seen):
            if at_ms - one.at_ms >= age_s * 1_000:
                return one.verdict
        return None

    def _lost(self, verdict: LagVerdict) -> bool:
        before = self._seen[-1].verdict if self._seen else None
        grew = before is not None and (verdict.messages_lost or 0) > (before.messages_lost or 0)
        return bool(verdict.lost) or grew

    def _was_active(self) -> bool:
        """True if something arrived or waited before the silence."""
        return any((one.verdict.arrived or 0) > 0 or (one.verdict.lag_messages or 0) > 0 for one in self._seen)

    def _cause(self, at_ms: int, verdict: LagVerdict) -> IncidentCause:
        named = {
            LagCause.DATA_LOSS: IncidentCause.DATA_LOSS,
            LagCause.BLOCKED: IncidentCause.BLOCKED,
            LagCause.MEMBER_STUCK: IncidentCause.CONSUMER_STUCK,
            LagCause.STORM: IncidentCause.REDELIVERY_STORM,
            LagCause.THROTTLED: IncidentCause.THROTTLED,
            LagCause.REWOUND: IncidentCause.REWOUND,
            LagCause.STUCK: IncidentCause.CONSUMER_STUCK,
            LagCause.NOT_SENT: IncidentCause.NOT_SENT,
            LagCause.BACK_OFF: IncidentCause.REDELIVERY_STORM,
        }
        if verdict.cause in named:
            return named[verdict.cause]
        if self._went_back(verdict):
            return IncidentCause.REWOUND
        if self._has_moved(at_ms, verdict):
            return IncidentCause.REBALANCE
        if verdict.cause is LagCause.NOBODY_READS:
            return IncidentCause.CONSUMER_GONE
        if verdict.cause is LagCause.POISON:
            before = self._before(at_ms, self._policy.growth_s / 2)
            still = before is not None and before.position == verdict.position
            return IncidentCause.POISON_MESSAGE if still else IncidentCause.REDELIVERY_STORM
        return self._cause_of_rates(verdict)

    def _cause_of_rates(self, verdict: LagVerdict) -> IncidentCause:
        usual = sorted(one.verdict.arrival_rate or 0.0 for one in self._seen if one.quiet)
        middle = usual[len(usual) // 2] if usual else 0.0
        if middle and (verdict.arrival_rate or 0.0) >= self._policy.burst_factor * middle:
            return IncidentCause.PRODUCER_BURST
        return IncidentCause.CONSUMER_SLOW if verdict.in_flight else IncidentCause.THROTTLED

    def _went_back(self, verdict: LagVerdict) -> bool:
        """True if the position is below one that was there before, while nothing of the topic went away."""
        return any(
            (one.verdict.position or 0) > (verdict.position or 0) and (one.verdict.head or 0) <= (verdict.head or 0)
            for one in self._seen
        )

    def _has_moved(self, at_ms: int, verdict: LagVerdict) -> bool:
        """True if another broker served the subscription within the last minutes."""
        recent = (one.verdict.broker_id for one in self._seen if at_ms - one.at_ms <= self._policy.recent_s * 1_000)
        return any(broker_id is not None and broker_id != verdict.broker_id for broker_id in recent)

    def _is_over(self, verdict: LagVerdict, usual_s: float) -> bool:
        bound_s = max(self._policy.high_s, usual_s) / 2
        return verdict.lag_messages == 0 or (verdict.lag_s is not None and verdict.lag_s < bound_s)

    def _note(self, at_ms: int, verdict: LagVerdict, cause: IncidentCause | None) -> None:
        found = self._open
        if found is None:
            return
        if cause is not None and (found.causes.total() < self._policy.naming or cause is IncidentCause.DATA_LOSS):
            found.causes[cause] += 1
            found.evidence.setdefault(cause, _evidence(verdict))
        found.lost = max(found.lost, verdict.messages_lost or 0)
        if verdict.lag_messages is not None:
            found.most = max(found.most or 0, verdict.lag_messages)
        if found.worst is None or (verdict.lag_s or 0.0) > (found.worst.lag_s or 0.0):
            found.worst, found.worst_ms = verdict, at_ms
            found.deadline_s = self._deadline_s(at_ms, verdict)

    def _deadline_s(self, at_ms: int, verdict: LagVerdict) -> float | None:
        """Time until the start of what is kept reaches the position, at the rates of the last minutes."""
        if verdict.lost is not None:
            return verdict.retention_deadline_s
        before = self._before(at_ms, self._policy.growth_s)
        if before is None or verdict.start_offset is None or before.start_offset is None:
            return None
        span_s = self._policy.growth_s
        trimmed = (verdict.start_offset - before.start_offset) / span_s
        net = trimmed - (verdict.consume_rate or 0.0)
        margin = verdict.retention_margin or 0
        return max(0.0, margin / net) if net > 0 else None

    def _closed(self, ended_ms: int | None) -> Incident:
        found = self._open
        assert found is not None  # noqa: S101 - both callers have looked
        cause = (
            max(found.causes, key=lambda one: (found.causes[one], one)) if found.causes else IncidentCause.CONSUMER_SLOW
        )
        if IncidentCause.DATA_LOSS in found.causes:
            cause = IncidentCause.DATA_LOSS
        worst = found.worst
        return Incident(
            cause=cause,
            began_ms=found.began_ms,
            ended_ms=ended_ms,
            peak_lag_s=worst.lag_s if worst else None,
            peak_lag_messages=found.most,
            peak_ms=found.worst_ms,
            messages_lost=found.lost,
            retention_deadline_s=found.deadline_s,
            evidence=found.evidence.get(cause, ""),
        )


def incidents_of(
    verdicts: Iterable[tuple[int, LagVerdict]], policy: AlertPolicy, usual_s: Mapping[int, float] | None = None
) -> Iterator[Incident]:
    """Incidents of one subscription, in the order of their ends; one that lasts comes at the end.

    `usual_s` is the lag that is usual at each hour of the week (`danube.model.lag.seasonal`).
    """
    finder = IncidentFinder(policy)
    usual = usual_s or {}
    for at_ms, verdict in verdicts:
        if (ended := finder.see(at_ms, verdict, usual.get(hour_of_week(at_ms), 0.0))) is not None:
            yield ended
    if (open_one := finder.lasting()) is not None:
        yield open_one


def _evidence(verdict: LagVerdict) -> str:
    """Numbers of the first moment of the cause."""
    parts = [f"{verdict.lag_messages or 0:,} messages wait"]
    if verdict.lag_s is not None:
        parts.append(f"the oldest for {verdict.lag_s:.0f} s")
    if verdict.rule is LagRule.SILENT:
        return "its broker published no telemetry"
    if verdict.arrival_rate is not None and verdict.consume_rate is not None:
        parts.append(f"{verdict.arrival_rate:.1f}/s arrive and {verdict.consume_rate:.1f}/s are acknowledged")
    counts = {
        "consumers": verdict.consumers,
        "in flight": verdict.in_flight,
        "negatively acknowledged": verdict.nacked,
        "redelivered": verdict.redelivered,
        "blocked": verdict.blocked,
    }
    parts += [
        f"{count} {name}" for name, count in counts.items() if count is not None and (count or name == "consumers")
    ]
    return ", ".join(parts)
