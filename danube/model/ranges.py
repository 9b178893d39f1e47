"""Sets of offsets, kept as ranges: what is acknowledged, what must be sent again."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from typing import NamedTuple


class OffsetRange(NamedTuple):
    """Offsets `start` to `end`, `end` not included."""

    start: int
    end: int


class RangeSet:
    """A set of offsets as sorted, disjoint ranges that do not touch. Each call costs O(log n + ranges it merges)."""

    def __init__(self, ranges: Iterable[OffsetRange] = ()) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._ranges: list[OffsetRange] = []
        for start, end in ranges:
            self.add(start, end)

    def __iter__(self) -> Iterator[OffsetRange]:
        return iter(self._ranges)

    def __len__(self) -> int:
        """Number of ranges (not offsets)."""
        return len(self._ranges)

    def __contains__(self, offset: int) -> bool:
        index = bisect_right(self._starts, offset) - 1
        return index >= 0 and offset < self._ends[index]

    def __repr__(self) -> str:
        return f"RangeSet({', '.join(f'{start}:{end}' for start, end in self._ranges)})"

    def count(self) -> int:
        """Number of offsets; costs O(ranges)."""
        return sum(self._ends) - sum(self._starts)

    def add(self, start: int, end: int) -> None:
        """Add `[start, end)`; an empty range adds nothing."""
        if start >= end:
            return
        first = bisect_left(self._ends, start)
        last = bisect_right(self._starts, end)
        if first < last:
            start = min(start, self._starts[first])
            end = max(end, self._ends[last - 1])
        self._replace(first, last, [OffsetRange(start, end)])

    def remove(self, start: int, end: int) -> None:
        """Take out whatever of `[start, end)` is there."""
        if start >= end:
            return
        first = bisect_right(self._ends, start)
        last = bisect_left(self._starts, end)
        if first >= last:
            return
        kept = []
        if self._starts[first] < start:
            kept.append(OffsetRange(self._starts[first], start))
        if self._ends[last - 1] > end:
            kept.append(OffsetRange(end, self._ends[last - 1]))
        self._replace(first, last, kept)

    def overlap(self, start: int, end: int) -> list[OffsetRange]:
        """The parts of the set within `[start, end)`."""
        if start >= end:
            return []
        first = bisect_right(self._ends, start)
        last = bisect_left(self._starts, end)
        return [OffsetRange(max(start, low), min(end, high)) for low, high in self._ranges[first:last]]

    def gaps(self, start: int, end: int) -> list[OffsetRange]:
        """The parts of `[start, end)` that are not in the set."""
        missing = []
        for taken in self.overlap(start, end):
            if start < taken.start:
                missing.append(OffsetRange(start, taken.start))
            start = taken.end
        if start < end:
            missing.append(OffsetRange(start, end))
        return missing

    def first(self) -> OffsetRange | None:
        """The lowest range, or None when the set is empty."""
        return self._ranges[0] if self._ranges else None

    def lowest(self, ranges_max: int) -> tuple[OffsetRange, ...]:
        """The lowest `ranges_max` ranges, or all there are; a plain copy, cheap even for thousands."""
        return tuple(self._ranges[:ranges_max])

    def _replace(self, first: int, last: int, ranges: list[OffsetRange]) -> None:
        self._ranges[first:last] = ranges
        self._starts[first:last] = [start for start, _ in ranges]
        self._ends[first:last] = [end for _, end in ranges]
