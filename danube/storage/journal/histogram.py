"""How often something took how long: counts in fixed buckets, cheap enough for every round of the journal."""

from bisect import bisect_left
from dataclasses import dataclass, field

LATENCY_BOUNDS_S = (
    *(0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05),
    *(0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0),
)
"""Upper bounds of the buckets, included: from a fast NVMe's sync to a disk that is about to fail."""


@dataclass(slots=True)
class LatencyHistogram:
    """Counts since it was made."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(LATENCY_BOUNDS_S) + 1))
    """Of each bucket, not cumulative; the last one is of what took longer than all bounds."""
    total_s: float = 0.0

    def note(self, seconds: float) -> None:
        """One more."""
        self.counts[bisect_left(LATENCY_BOUNDS_S, seconds)] += 1
        self.total_s += seconds

    def cumulative(self) -> list[tuple[float, int]]:
        """How many took at most each bound; the last bound is infinity."""
        found: list[tuple[float, int]] = []
        seen = 0
        for bound_s, count in zip((*LATENCY_BOUNDS_S, float("inf")), self.counts, strict=True):
            seen += count
            found.append((bound_s, seen))
        return found
