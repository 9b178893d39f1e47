"""One figure, and how a benchmark prints it."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured value."""

    name: str
    value: float
    unit: str
    note: str = ""

    def __str__(self) -> str:
        note = f"   {self.note}" if self.note else ""
        return f"  {self.name:<58} {self.value:>12,.1f} {self.unit}{note}"


def median(values: Sequence[float]) -> float:
    """The middle one: single runs are noisy."""
    return statistics.median(values)


def percentile_ms(latencies_s: Sequence[float], percent: float) -> float:
    """The latency, in milliseconds, that `percent` of the calls stayed within."""
    ordered = sorted(latencies_s)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))] * 1e3
