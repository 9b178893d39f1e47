"""Incidents of one subscription, from its verdicts over time: what is worth waking a person for, and why. Pure.

A verdict says how a subscription stands; most that are behind catch up by themselves. An incident is lag that is old
for this subscription (older than `high_s`, than its usual lag, and than what is usual at this hour of the week) and
does not shrink, for two moments in a row. Silence of a broker, a block by an exhausted message, and unread messages
that were deleted are incidents, too. It begins with its first evidence, not with the moment that saw it, and ends when
the lag is young again. `docs/lag.md` has its precision and recall.
"""

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise

from danube.model.lag.evidence import evidence_of
from danube.model.lag.history import OLD_LAG_S
from danube.model.lag.movement import counted
from danube.model.lag.seasonal import hour_of_week
from danube.model.lag.verdict import LagCause, LagPolicy, LagRule, LagStatus, LagVerdict
from danube.model.limits.broker import TELEMETRY_INTERVAL_S
from danube.model.text import span_text


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

    high_s: float = OLD_LAG_S
    usual_factor: float = 1.5
    """Times its usual lag, the largest of `memory_s` before, that a subscription must be behind."""
    memory_s: float = 2_400.0
    recent_s: float = 240.0
    """The newest part of the memory, which is judged and is not yet usual."""
    known_s: float = 420.0
    """A subscription that is known for less is not judged by its lag: its usual lag is unknown."""
    growth_s: float = 150.0
    """The lag grows if it is larger than so long ago."""
    lasting_s: float = 30.0
    """Moments in a row that make an incident, two or more, are so far apart."""
    naming_s: float = 120.0
    """The first moments of an incident name its root cause: later ones show its consequences."""
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
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """One incident of a subscription."""

    cause: IncidentCause
    """Root: the first of the chain."""
    chain: str
    """Causes in the order in which they came, with " -> " between two."""
    began_ms: int
    """The first evidence."""
    ended_ms: int | None
    """None while it lasts."""
    peak_lag_s: float | None
    peak_lag_messages: int | None
    peak_ms: int
    messages_lost: int
    retention_deadline_s: float | None
    """Until unread messages are deleted at the rates of its worst moment; None when that is not near."""
    offset: int | None
    """The first message that it is about."""
    consumer: str | None
    """The consumer that answers nothing, with its address."""
    evidence: str


_RUN_S = 2 * TELEMETRY_INTERVAL_S
"""Lag that is younger is not the beginning of anything."""
_FALL_S = 5.0
"""The age of a lag that grows may fall by so much: the position moves in steps."""
_GROWTH_MIN = 0.1
"""Seconds a second: a lag that grows more slowly than that began at no certain time."""


@dataclass(frozen=True, slots=True)
class _Seen:
    at_ms: int
    verdict: LagVerdict
    quiet: bool
    """True outside incidents: its lag is usual."""


_PERIODIC = 1.2
"""Times the shortest time between two visits that the longest may be."""
_WEAK = frozenset({IncidentCause.CONSUMER_SLOW, IncidentCause.PRODUCER_BURST, IncidentCause.THROTTLED})
"""Causes that rates alone show: they follow from no other one."""


@dataclass(slots=True)
class _Open:
    began_ms: int
    named_ms: int
    """The root cause is known from then on."""
    roots: Counter[IncidentCause] = field(default_factory=Counter)
    later: list[IncidentCause] = field(default_factory=list)
    held: tuple[IncidentCause | None, int] = (None, 0)
    """The cause of the newest moments, and since when."""
    first: dict[IncidentCause, tuple[int, LagVerdict]] = field(default_factory=dict)
    """The first moment of each cause."""
    worst: LagVerdict | None = None
    worst_ms: int = 0
    most: int | None = None
    """Messages, at whatever moment of it: not always the one with the oldest message."""
    lost: int = 0
    deadline_s: float | None = None

    def add(self, at_ms: int, verdict: LagVerdict, cause: IncidentCause | None, lasting_s: float) -> None:
        """One more moment names the root, or a consequence once that has lasted."""
        if cause is None:
            self.held = None, at_ms
            return
        self.first.setdefault(cause, (at_ms, verdict))
        self.held = self.held if self.held[0] is cause else (cause, at_ms)
        if at_ms < self.named_ms:
            self.roots[cause] += 1
        elif cause not in _WEAK and at_ms >= self.held[1] + lasting_s * 1_000:
            self.follow(cause)

    def follow(self, consequence: IncidentCause) -> None:
        """It came of what was there before."""
        if consequence not in self.later:
            self.later.append(consequence)

    @property
    def chain(self) -> list[IncidentCause]:
        """The root, which most of the first moments have, and what followed from it."""
        usual = {one: count for one, count in self.roots.items() if one is not IncidentCause.DATA_LOSS}
        root, _ = Counter(usual or self.roots).most_common(1)[0]
        return [root, *(one for one in self.later if one is not root)]


class IncidentFinder:
    """Finds incidents, moment by moment; keeps the memory of one subscription."""

    def __init__(self, policy: AlertPolicy) -> None:
        self._policy = policy
        self._seen: deque[_Seen] = deque()
        self._hit_ms: int | None = None
        """The first of the bad moments in a row."""
        self._lost = 0
        """Messages deleted unread since the last good moment."""
        self._open: _Open | None = None
        self._visits: deque[int] = deque(maxlen=3)
        """Times at which a reader came, of one that is away for most of the time."""

    @property
    def is_open(self) -> bool:
        """True while an incident lasts."""
        return self._open is not None

    def see(self, at_ms: int, verdict: LagVerdict, usual_s: float = 0.0) -> Incident | None:
        """The incident that ended at this moment; `usual_s` is the lag that is usual at this hour of the week."""
        self._drop_old(at_ms)
        self._note_visit(at_ms, verdict)
        self._lost += self._newly_lost(verdict)
        cause = self._judge(at_ms, verdict, usual_s)
        ended = None
        if cause is None:
            self._hit_ms = None
        elif self._open is None:
            self._hit_ms = at_ms if (is_first := self._hit_ms is None) else self._hit_ms
            lasts = not is_first and at_ms - (self._hit_ms or 0) >= self._policy.lasting_s * 1_000
            if lasts or cause is IncidentCause.BROKER_DOWN or self._is_losing(verdict):
                named_ms = (self._hit_ms or 0) + round(self._policy.naming_s * 1_000)
                self._open = _Open(self._began_ms(at_ms, verdict, cause), max(named_ms, at_ms + 1))
        if self._open is not None:
            self._note(at_ms, verdict, cause)
            if cause is None and self._is_over(verdict, usual_s):
                ended, self._open = self._closed(at_ms), None
        if self._open is None and cause is None:
            self._lost = 0
        self._seen.append(_Seen(at_ms, verdict, quiet=self._open is None and cause is None))
        return ended

    def lasting(self) -> Incident | None:
        """The incident that has not ended."""
        return self._closed(None) if self._open is not None else None

    def _began_ms(self, at_ms: int, verdict: LagVerdict, cause: IncidentCause) -> int:
        """Time of the first evidence, whichever moments were judged.

        That is the last record of a silent broker. Else the age of the lag has grown along a line since it was usual.
        """
        if cause is IncidentCause.BROKER_DOWN:
            return verdict.observed_ms or at_ms
        first_ms, lag_s = at_ms, verdict.lag_s or 0.0
        earlier = list(self._seen)
        while earlier and _RUN_S < (age_s := earlier[-1].verdict.lag_s or 0.0) < lag_s + _FALL_S:
            first_ms, lag_s = earlier.pop().at_ms, age_s
        usual_s = max((one.verdict.lag_s or 0.0 for one in earlier if one.quiet), default=0.0)
        above_s = lag_s - (usual_s if usual_s > _RUN_S else 0.0)
        grows = ((verdict.lag_s or 0.0) - lag_s) * 1_000 / (at_ms - first_ms) if at_ms > first_ms else 1.0
        began_ms = first_ms - round(max(0.0, above_s) * 1_000 / min(1.0, max(_GROWTH_MIN, grows)))
        if not earlier:
            return max(began_ms, first_ms - round(lag_s * 1_000))
        known_ms = earlier[-1].at_ms - round((earlier[-1].verdict.lag_s or 0.0) * 1_000)
        went_back = first_ms - lag_s * 1_000 < known_ms - _FALL_S * 1_000
        return first_ms if went_back else max(began_ms, known_ms)

    def _drop_old(self, at_ms: int) -> None:
        while self._seen and at_ms - self._seen[0].at_ms > self._policy.memory_s * 1_000:
            self._seen.popleft()

    def _note_visit(self, at_ms: int, verdict: LagVerdict) -> None:
        before = self._seen[-1].verdict if self._seen else verdict
        if before.cause is LagCause.NOBODY_READS and verdict.consumers and (before.lag_s or 0.0) >= self._policy.high_s:
            if self._visits and 2_000 * (before.lag_s or 0.0) < at_ms - self._visits[-1]:
                self._visits.clear()
            self._visits.append(at_ms)

    def _awaits_visit(self, at_ms: int) -> bool:
        """True while a reader that came at set times, three at the least, is not late."""
        gaps = [after - before for before, after in pairwise(self._visits)]
        period_ms = _PERIODIC * min(gaps, default=0)
        return len(gaps) > 1 and max(gaps) <= period_ms and at_ms - self._visits[-1] <= period_ms

    def _judge(self, at_ms: int, verdict: LagVerdict, usual_s: float) -> IncidentCause | None:
        """Cause of an incident at this moment, or None."""
        if verdict.rule is LagRule.SILENT:
            return IncidentCause.BROKER_DOWN if self._was_active() else None
        if verdict.status is LagStatus.NOT_KEPT:
            return None
        is_high = bool(verdict.lag_messages) and self._is_high(at_ms, verdict, usual_s)
        if self._is_losing(verdict):
            return self._cause(at_ms, verdict) if verdict.lag_messages else IncidentCause.DATA_LOSS
        return self._cause(at_ms, verdict) if is_high and self._is_stuck(at_ms, verdict) else None

    def _is_high(self, at_ms: int, verdict: LagVerdict, usual_s: float) -> bool:
        policy = self._policy
        if verdict.lag_s is None or verdict.lag_s < max(policy.high_s, usual_s):
            return False
        if verdict.blocked:
            return True
        if verdict.cause is LagCause.NOBODY_READS and self._awaits_visit(at_ms):
            return False
        if not self._seen or at_ms - self._seen[0].at_ms < policy.known_s * 1_000:
            return False
        return verdict.lag_s >= policy.usual_factor * self._usual_lag_s(at_ms, verdict)

    def _usual_lag_s(self, at_ms: int, verdict: LagVerdict) -> float:
        """The largest outside incidents; while nothing is read, the message that waits now tells nothing usual."""
        until_ms = at_ms - self._policy.recent_s * 1_000
        waits_ms = at_ms - (verdict.lag_s or 0.0) * 1_000
        is_still = verdict.status in {LagStatus.STOP, LagStatus.STALL}
        usual = (
            lag_s
            for one in self._seen
            if one.quiet and one.at_ms <= until_ms and (lag_s := one.verdict.lag_s or 0.0)
            if not is_still or abs(one.at_ms - lag_s * 1_000 - waits_ms) > _FALL_S * 1_000
        )
        return max(usual, default=0.0)

    def _is_stuck(self, at_ms: int, verdict: LagVerdict) -> bool:
        """True unless the lag shrinks."""
        if verdict.status in {LagStatus.STOP, LagStatus.STALL, LagStatus.REWIND}:
            return True
        before = self._before(at_ms)
        if before is None:
            return False
        if before.verdict.lag_s is not None and verdict.lag_s is not None:
            return verdict.lag_s > before.verdict.lag_s
        return (verdict.lag_messages or 0) > (before.verdict.lag_messages or 0)

    def _before(self, at_ms: int) -> _Seen | None:
        """The newest moment that the lag is compared with."""
        since_ms = at_ms - self._policy.growth_s * 1_000
        return next((one for one in reversed(self._seen) if one.at_ms <= since_ms), None)

    def _newly_lost(self, verdict: LagVerdict) -> int:
        """Messages deleted unread since the moment before; a broker that started anew counts from 0."""
        if not self._seen or verdict.messages_lost is None:
            return verdict.lost or 0
        before = self._seen[-1].verdict.messages_lost or 0
        is_counter = verdict.lost is not None  # else those that the position has not passed yet
        return counted(before, verdict.messages_lost, same=not is_counter or verdict.messages_lost >= before)

    def _is_losing(self, verdict: LagVerdict) -> bool:
        return bool(verdict.lost) or self._newly_lost(verdict) > 0

    def _was_active(self) -> bool:
        """True if something arrived or waited before the silence."""
        return any((one.verdict.arrived or 0) > 0 or (one.verdict.lag_messages or 0) > 0 for one in self._seen)

    def _cause(self, at_ms: int, verdict: LagVerdict) -> IncidentCause:
        named = {
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
        if verdict.cause is LagCause.NOBODY_READS or not verdict.consumers:
            return IncidentCause.CONSUMER_GONE
        if verdict.cause is LagCause.POISON:
            still = verdict.status is LagStatus.STALL
            return IncidentCause.POISON_MESSAGE if still else IncidentCause.REDELIVERY_STORM
        if verdict.cause is LagCause.DATA_LOSS and verdict.acknowledged == 0:
            return IncidentCause.CONSUMER_STUCK if verdict.in_flight else IncidentCause.NOT_SENT
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
        found.add(at_ms, verdict, cause, self._policy.lasting_s)
        if verdict.blocked:
            found.follow(IncidentCause.BLOCKED)
        if self._is_losing(verdict):
            found.follow(IncidentCause.DATA_LOSS)
        found.lost = self._lost
        if verdict.lag_messages is not None:
            found.most = max(found.most or 0, verdict.lag_messages)
        if found.worst is None or (verdict.lag_s or 0.0) > (found.worst.lag_s or 0.0):
            found.worst, found.worst_ms = verdict, at_ms
            found.deadline_s = self._deadline_s(at_ms, verdict)

    def _deadline_s(self, at_ms: int, verdict: LagVerdict) -> float | None:
        """Time until the start of what is kept reaches the position, at the rates of the last minutes."""
        if verdict.lost is not None:
            return verdict.retention_deadline_s
        before = self._before(at_ms)
        if before is None or verdict.start_offset is None or before.verdict.start_offset is None:
            return None
        trimmed = (verdict.start_offset - before.verdict.start_offset) * 1_000 / (at_ms - before.at_ms)
        net = trimmed - (verdict.consume_rate or 0.0)
        margin = verdict.retention_margin or 0
        return max(0.0, margin / net) if net > 0 else None

    def _closed(self, ended_ms: int | None) -> Incident:
        found = self._open
        assert found is not None  # noqa: S101 - both callers have looked
        chain, worst = found.chain, found.worst
        first_ms, verdict = found.first[chain[0]]
        return Incident(
            cause=chain[0],
            chain=" -> ".join(chain),
            began_ms=found.began_ms,
            ended_ms=ended_ms,
            peak_lag_s=worst.lag_s if worst else None,
            peak_lag_messages=found.most,
            peak_ms=found.worst_ms,
            messages_lost=found.lost,
            retention_deadline_s=found.deadline_s,
            offset=_offset(verdict, chain[0]),
            consumer=_consumer(verdict) if chain[0] is IncidentCause.CONSUMER_STUCK else None,
            evidence=_evidence(first_ms, verdict),
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


def _evidence(at_ms: int, verdict: LagVerdict) -> str:
    """The rule and its numbers at the first moment of the cause, and how much waits."""
    parts = [evidence_of(verdict, LagPolicy(), at_ms)]
    if verdict.rule is not LagRule.SILENT and verdict.lag_s is not None:
        parts.append(f"the oldest is {span_text(verdict.lag_s)} old")
    if verdict.arrival_rate is not None and verdict.consume_rate is not None:
        parts.append(f"{verdict.arrival_rate:.1f}/s arrive and {verdict.consume_rate:.1f}/s are acknowledged")
    return "; ".join(parts)


def _offset(verdict: LagVerdict, cause: IncidentCause) -> int | None:
    """The first message that the consumer has, or that failed; else the first unread one."""
    failing = {IncidentCause.POISON_MESSAGE, IncidentCause.BLOCKED, IncidentCause.REDELIVERY_STORM}
    told = {IncidentCause.CONSUMER_STUCK: verdict.silent_offset}
    found = told.get(cause, verdict.failed_offset if cause in failing else None)
    return verdict.position if found is None else found


def _consumer(verdict: LagVerdict) -> str | None:
    host = f" at {verdict.silent_host}" if verdict.silent_host else ""
    others = f" and {verdict.silent_others}" if verdict.silent_others else ""
    return None if verdict.silent_consumer is None else f"{verdict.silent_consumer}{host}{others}"
