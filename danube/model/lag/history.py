"""Lag over time: the verdicts on one subscription at many moments, from its records. Pure."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from danube.model.lag.rules import in_order, judge_ordered
from danube.model.lag.verdict import LagPolicy, LagVerdict, Observation

OLD_LAG_S = 60.0
"""Lag that is younger is never an incident."""
_CLOSE_S = 300
"""So long after a turn is looked at closely: an incident has its name by then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """Moments to judge: from the first to the last, both included, in steps; milliseconds by the brokers' clocks."""

    first_ms: int
    last_ms: int
    step_ms: int = 60_000
    close_ms: int | None = None
    """Between moments where trouble turns, so that what is found of it does not depend on `step_ms`."""

    @classmethod
    def at(cls, at_ms: int) -> "Times":
        """One moment."""
        return cls(first_ms=at_ms, last_ms=at_ms)

    def between(self, first_ms: int, last_ms: int) -> range:
        """The moments within these bounds, both included."""
        skipped = max(0, -(-(first_ms - self.first_ms) // self.step_ms))
        return range(self.first_ms + skipped * self.step_ms, min(self.last_ms, last_ms) + 1, self.step_ms)


def judge_history(
    observations: Sequence[Observation], times: Times, policy: LagPolicy, within: tuple[int, int] | None = None
) -> Iterator[tuple[int, LagVerdict]]:
    """Verdict at each moment at which the subscription was there and anything recent was known of it.

    `within` are the first and the last moment that are wanted.
    """
    ordered = in_order(observations)
    if not ordered:
        return
    stamps = [one.at_ms for one in ordered]
    memory_ms = round(policy.history_s * 1_000)
    low_ms, high_ms = within or (times.first_ms, times.last_ms)
    moments: Sequence[int] = times.between(max(low_ms, stamps[0]), min(high_ms, stamps[-1] + memory_ms - 1))
    if times.close_ms is not None:
        close = _close(ordered, times, times.close_ms, policy)
        moments = sorted({*moments, *(at_ms for at_ms in close if max(low_ms, times.first_ms) <= at_ms <= high_ms)})
    for at_ms in moments:
        end = bisect_right(stamps, at_ms)
        recent = ordered[bisect_right(stamps, at_ms - memory_ms, 0, end) : end]
        verdict = judge_ordered(recent, at_ms, policy) if recent else None
        if verdict is not None and verdict.observed_ms is not None:
            yield at_ms, verdict


def _close(ordered: Sequence[Observation], times: Times, close_ms: int, policy: LagPolicy) -> Iterator[int]:
    """Moments beside those of the step: after each turn of trouble, and while a broker is silent."""
    memory_ms, silent_ms = round(policy.history_s * 1_000), round(policy.silent_after_s * 1_000)
    until_ms, before = 0, _trouble(ordered[0]._replace(oldest_unread_append_ms=None, blocked=None))
    for one, following in zip(ordered, [*ordered[1:], None], strict=True):
        state = _trouble(one)
        if state != before:
            until_ms = one.at_ms + _CLOSE_S * 1_000
        before = state
        end_ms = min(one.at_ms + memory_ms, times.last_ms + 1 if following is None else following.at_ms)
        yield from _grid(one.at_ms, min(end_ms, until_ms), times.first_ms, close_ms)
        if end_ms > one.at_ms + silent_ms:
            yield from _grid(one.at_ms + silent_ms, end_ms, times.first_ms, close_ms)
            until_ms = max(until_ms, end_ms + 2 * close_ms)


def _grid(first_ms: int, end_ms: int, phase_ms: int, step_ms: int) -> range:
    """Moments from the first and before the end."""
    return range(first_ms + (phase_ms - first_ms) % step_ms, end_ms, step_ms)


def _trouble(one: Observation) -> Sequence[object]:
    """State of a subscription, as far as it is in trouble; equal while nothing turns."""
    oldest_ms = one.oldest_unread_append_ms
    is_old = oldest_ms is not None and one.at_ms - oldest_ms >= OLD_LAG_S * 1_000
    return is_old, bool(one.blocked), one.trimmed, is_old and one.consumers > 0, is_old and one.broker_id
