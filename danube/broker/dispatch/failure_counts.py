"""Failed deliveries of each open message, as ranges of offsets that failed equally often."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable

from danube.model.limits.broker import CURSOR_FAILURES_MAX
from danube.model.subscription import FailedRange


class FailureCounts:
    """How often messages failed that are neither acknowledged nor passed over; those that never did are not here.

    Each call costs O(log n + ranges it changes).
    """

    def __init__(self, ranges: Iterable[FailedRange] = ()) -> None:
        """`ranges` as a cursor keeps them: ascending, disjoint."""
        self._ranges = list(ranges)
        self._starts = [each.start for each in self._ranges]

    def __bool__(self) -> bool:
        return bool(self._ranges)

    @property
    def lowest(self) -> tuple[FailedRange, ...]:
        """The lowest ranges, as many as a cursor keeps."""
        return tuple(self._ranges[:CURSOR_FAILURES_MAX])

    def of(self, start: int, end: int) -> list[FailedRange]:
        """All of `[start, end)`, which is not empty, cut where counts differ; 0 is what never failed."""
        found: list[FailedRange] = []
        for low, high, failures in self._ranges[self._first(start) : bisect_left(self._starts, end)]:
            if start < low:
                found.append(FailedRange(start, low, 0))
                start = low
            found.append(FailedRange(start, min(high, end), failures))
            start = min(high, end)
        if start < end:
            found.append(FailedRange(start, end, 0))
        return found

    def add(self, start: int, end: int) -> list[FailedRange]:
        """All of `[start, end)` failed once more; answers how often it has by now."""
        counted = [FailedRange(low, high, failures + 1) for low, high, failures in self.of(start, end)]
        self._replace(start, end, counted)
        return counted

    def remove(self, start: int, end: int) -> None:
        """Nothing of `[start, end)` is open any more."""
        if start < end:
            self._replace(start, end, [])

    def _first(self, offset: int) -> int:
        """The first range that ends above `offset`."""
        index = bisect_right(self._starts, offset) - 1
        return index if index >= 0 and self._ranges[index].end > offset else index + 1

    def _replace(self, start: int, end: int, ranges: list[FailedRange]) -> None:
        """Put `ranges` in place of what is within `[start, end)`; neighbours with the same count become one."""
        first, last = self._first(start - 1), bisect_right(self._starts, end)
        around = self._ranges[first:last]
        before = [FailedRange(low, min(high, start), failures) for low, high, failures in around if low < start]
        after = [FailedRange(max(low, end), high, failures) for low, high, failures in around if high > end]
        joined: list[FailedRange] = []
        for each in (*before, *ranges, *after):
            if joined and (joined[-1].end, joined[-1].failures) == (each.start, each.failures):
                joined[-1] = FailedRange(joined[-1].start, each.end, each.failures)
            else:
                joined.append(each)
        self._ranges[first:last] = joined
        self._starts[first:last] = [each.start for each in joined]
