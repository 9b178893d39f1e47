"""What came of killing all members of a metadata cluster again and again: the figures, and the verdict."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

MEDIAN_S_MAX = 5.0
"""The cluster must be back sooner in half of the rounds."""
_SHOWN_MAX = 20


@dataclass(frozen=True, slots=True)
class Revival:
    """One round."""

    open_s: float
    """Until a majority of the processes had started Python, read their log, and listened: no leader can be sooner."""
    served_s: float
    """Until a write was acknowledged. Both count from when all processes were started."""
    lost: Sequence[str]
    """Keys that were acknowledged, in this round or before, and are not there."""


@dataclass(slots=True)
class Writes:
    """What clients were told, over all rounds."""

    acknowledged: dict[str, bytes] = field(default_factory=dict)
    unknown: int = 0
    """Writes that ended in UnknownOutcomeError: there or not, both is right."""

    def missing_in(self, found: Mapping[str, bytes]) -> list[str]:
        """Acknowledged keys that are not there, or hold something else."""
        return [key for key, value in self.acknowledged.items() if found.get(key) != value]


@dataclass(frozen=True, slots=True)
class KillAllReport:
    """All rounds."""

    revivals: Sequence[Revival]
    writes: Writes
    lost: frozenset[str]
    """Keys that were missed in any round, or by any member at the end."""

    @property
    def median_s(self) -> float:
        """Until a write was served."""
        return statistics.median(self._served_s())

    @property
    def is_good(self) -> bool:
        """Whether the promises were kept."""
        return not self.lost and self.median_s < MEDIAN_S_MAX

    def text(self) -> str:
        """For a person."""
        served_s = self._served_s()
        open_s = statistics.median(one.open_s for one in self.revivals)
        times = (
            f"median {self.median_s:.2f} s",
            f"p90 {quantile(served_s, 0.9):.2f} s",
            f"worst {max(served_s):.2f} s",
        )
        lines = [
            f"rounds:        {len(self.revivals)}, all three members killed at once in each",
            f"acknowledged:  {len(self.writes.acknowledged):,} writes, and {self.writes.unknown:,} of unknown outcome",
            f"lost:          {len(self.lost):,}",
            f"until a write: {', '.join(times)}, since all three were started again",
            f"of which:      {open_s:.2f} s (median) until two of them had started Python, read their log and listened",
            *(f"LOST:          {key}" for key in sorted(self.lost)[:_SHOWN_MAX]),
        ]
        return "\n".join([*lines, self._verdict()])

    def _verdict(self) -> str:
        if self.lost:
            return "ACKNOWLEDGED WRITES WERE LOST. Their keys are above, the folders and logs of the members were kept."
        if not self.is_good:
            return f"TOO SLOW: half of the rounds must take less than {MEDIAN_S_MAX:g} s."
        return f"Nothing acknowledged was lost, and half of the rounds took less than {MEDIAN_S_MAX:g} s."

    def _served_s(self) -> list[float]:
        return [one.served_s for one in self.revivals]


def quantile(values: Sequence[float], part: float) -> float:
    """The smallest of the values that so many of them are not above."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(part * len(ordered)) - 1)]
