"""Lag over time: the verdicts on one subscription at many moments, from its records. Pure."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from danube.model.lag.rules import in_order, judge_ordered
from danube.model.lag.verdict import LagPolicy, LagVerdict, Observation


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """Moments to judge: from the first to the last, both included, in steps; milliseconds by the brokers' clocks."""

    first_ms: int
    last_ms: int
    step_ms: int = 60_000

    @classmethod
    def at(cls, at_ms: int) -> "Times":
        """One moment."""
        return cls(first_ms=at_ms, last_ms=at_ms)

    def within(self, first_ms: int, last_ms: int) -> "Times":
        """The moments within these bounds, both included."""
        found = self.between(first_ms, last_ms)
        return Times(first_ms=found.start, last_ms=found.stop - 1, step_ms=self.step_ms)

    def between(self, first_ms: int, last_ms: int) -> range:
        """The moments within these bounds, both included."""
        skipped = max(0, -(-(first_ms - self.first_ms) // self.step_ms))
        return range(self.first_ms + skipped * self.step_ms, min(self.last_ms, last_ms) + 1, self.step_ms)


def judge_history(
    observations: Sequence[Observation], times: Times, policy: LagPolicy
) -> Iterator[tuple[int, LagVerdict]]:
    """Verdict at each moment at which the subscription was there and anything recent was known of it."""
    ordered = in_order(observations)
    if not ordered:
        return
    stamps = [one.at_ms for one in ordered]
    memory_ms = round(policy.history_s * 1_000)
    for at_ms in times.between(stamps[0], stamps[-1] + memory_ms - 1):
        end = bisect_right(stamps, at_ms)
        recent = ordered[bisect_right(stamps, at_ms - memory_ms, 0, end) : end]
        verdict = judge_ordered(recent, at_ms, policy) if recent else None
        if verdict is not None and verdict.observed_ms is not None:
            yield at_ms, verdict
