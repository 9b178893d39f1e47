"""Progress of a subscription: acknowledged offsets, offsets taken up to be sent, and failed deliveries. Pure."""

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from operator import attrgetter

from danube.broker.dispatch.events import Send
from danube.broker.dispatch.redelivery import RedeliveryPolicy, Verdict, verdict
from danube.model.limits.broker import CURSOR_FAILURES_MAX, CURSOR_RANGES_MAX
from danube.model.ranges import OffsetRange, RangeSet
from danube.model.subscription import Cursor, FailedRange

FAILED_ON_MAX = 16
"""Consumers on which the oldest open message failed that are told apart; more count as so many."""


@dataclass(slots=True)
class PassedOver:
    """Messages that count as acknowledged though nobody acknowledged them, since the engine began."""

    dropped: int = 0
    """By the poison policy."""
    dead_lettered: int = 0
    skipped: int = 0
    """By an operator."""
    expired: int = 0
    trimmed: int = 0

    @property
    def total(self) -> int:
        """All of them."""
        return self.dropped + self.dead_lettered + self.skipped + self.expired + self.trimmed


@dataclass(slots=True)
class FailureCauses:
    """Messages whose delivery failed but by a nack, since the engine began, and whom the oldest open one failed on."""

    timed_out: int = 0
    disconnected: int = 0
    """In flight to consumers whose stream ended."""
    offset: int = -1
    consumers: set[int] = field(default_factory=set)
    """The first FAILED_ON_MAX of them: one that comes back has a new id each time."""

    def blame(self, offset: int, consumer_id: int) -> None:
        """The oldest open message failed on this consumer."""
        if offset != self.offset:
            self.offset = offset
            self.consumers.clear()
        if len(self.consumers) < FAILED_ON_MAX:
            self.consumers.add(consumer_id)


class FailureCounts:
    """Failed deliveries of each open message, as ranges that failed equally often; what never failed is not here.

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

    @property
    def worst(self) -> FailedRange | None:
        """The lowest of the ranges that failed most often; costs O(ranges)."""
        return max(self._ranges, key=attrgetter("failures"), default=None)

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


class Progress:
    """A front below which everything is acknowledged, ranges beyond it, and the offset from which on all is untouched.

    `position` never goes back but by `seek`.
    """

    def __init__(self, cursor: Cursor, durable_end: int) -> None:
        """Continue from a saved cursor; what it says of offsets that are not written yet is ignored."""
        self.durable_end = durable_end
        """The offset after the last message that may be sent."""
        cursor = cursor.within(durable_end)
        self.position = cursor.position
        self.beyond = RangeSet()
        self._has_beyond = False
        """True if `beyond` has any: asked once for each acknowledgement."""
        self.changed = False
        """True if the cursor is another one than when this was last set to False."""
        self.failed = FailureCounts(cursor.failed)
        """How often deliveries of open messages failed, restarts of the broker included."""
        self.recalled = RangeSet(OffsetRange(start, end) for start, end, _ in cursor.failed)
        """What failed before a restart and was not sent since."""
        for start, end in cursor.beyond:
            self.add(start, end)
        self.changed = False
        self.next_offset = self.position
        """The lowest offset that was not taken up yet."""
        self.ahead: deque[OffsetRange] = deque(self.beyond)
        """Acknowledged above `next_offset`: to be passed over."""

    @property
    def cursor(self) -> Cursor:
        """To save; of more ranges than a cursor keeps, the lowest."""
        beyond = self.beyond.lowest(CURSOR_RANGES_MAX) if self._has_beyond else ()
        return Cursor(self.position, beyond, self.failed.lowest if self.failed else ())

    @property
    def lag(self) -> int:
        """Durable messages that are not acknowledged."""
        return self.durable_end - self.position - self.beyond.count()

    @property
    def is_scattered(self) -> bool:
        """Tell whether there are as many acknowledged ranges as a cursor keeps.

        Those that are ahead do not count: they are from before a restart, and what is sent now closes the gaps there.
        """
        return len(self.beyond) - len(self.ahead) >= CURSOR_RANGES_MAX

    @property
    def untouched_end(self) -> int:
        """`[next_offset, untouched_end)` can be taken up at once; empty when there is nothing."""
        return self.ahead[0].start if self.ahead else self.durable_end

    @property
    def send_end(self) -> int:
        """Up to here messages go out in one step: what failed before a restart is judged before more follows."""
        first = self.recalled.first() if self.recalled else None
        return self.durable_end if first is None else self.failed.of(*first)[0].end

    def add(self, start: int, end: int) -> None:
        """`[start, end)` is acknowledged."""
        self.changed = True
        if self.failed:
            self.failed.remove(start, end)
            self.recalled.remove(start, end)
        if start > self.position:
            self.beyond.add(start, end)
            self._has_beyond = bool(self.beyond)
            return
        self.position = max(self.position, end)
        while (lowest := self.beyond.first()) is not None and lowest.start <= self.position:
            self.position = max(self.position, lowest.end)
            self.beyond.remove(*lowest)
        self._has_beyond = lowest is not None

    def fail(self, start: int, end: int) -> list[FailedRange]:
        """Deliveries of `[start, end)` failed; answers how often each did by now."""
        self.changed = True
        return self.failed.add(start, end)

    def take_up(self, end: int) -> None:
        """Everything below `end`, which is at most `untouched_end`, is taken up."""
        self.next_offset = end
        ahead = self.ahead
        while ahead and ahead[0].start <= self.next_offset:
            self.next_offset = max(self.next_offset, ahead.popleft().end)

    def skip(self, start: int, end: int) -> None:
        """`[start, end)`, taken up or not, is acknowledged; costs O(ranges)."""
        if start >= end:
            return
        self.add(start, end)
        if start <= self.next_offset < end:
            self.next_offset = end
        self.ahead = deque(self.beyond.overlap(self.next_offset, self.durable_end))
        self.take_up(max(self.next_offset, self.position))

    def seek(self, position: int) -> None:
        """Nothing at or above `position` is acknowledged or taken up, everything below it is."""
        self.position = self.next_offset = position
        self.beyond = RangeSet()
        self._has_beyond = False
        self.ahead.clear()
        self.failed = FailureCounts()
        self.recalled = RangeSet()
        self.changed = True

    def problems(self) -> Iterator[str]:
        """Violated invariants."""
        acknowledged = RangeSet([OffsetRange(0, self.position), *self.beyond])
        if any(acknowledged.overlap(start, end) for start, end, _ in self.failed.lowest):
            yield f"failures of {self.failed.lowest} are counted, but {acknowledged} is acknowledged"
        lowest = self.beyond.first()
        if self._has_beyond is (lowest is None):
            yield f"whether there is anything in {self.beyond} is wrong"
        if lowest is not None and lowest.start <= self.position:
            yield f"{self.beyond} begins at or below the front {self.position}"
        if not self.position <= self.next_offset <= self.durable_end:
            yield f"{self.position}, {self.next_offset} and {self.durable_end} are out of order"
        if list(self.ahead) != self.beyond.overlap(self.next_offset, self.durable_end):
            yield f"{list(self.ahead)} would be passed over, but {self.beyond} is acknowledged"


def judge_recalled(
    send: Send, progress: Progress, policy: RedeliveryPolicy
) -> tuple[list[Send], list[tuple[OffsetRange, Verdict]]]:
    """Judge what failed before a restart, when it would be sent for the first time after it.

    Answers what of `send` goes out, and what failed too often; neither is recalled any more.
    """
    kept: list[Send] = []
    exhausted: list[tuple[OffsetRange, Verdict]] = []
    start = send.start
    for recalled in progress.recalled.overlap(send.start, send.end):
        progress.recalled.remove(*recalled)
        for low, high, failures in progress.failed.of(*recalled):
            decision = verdict(failures, policy)
            if decision is Verdict.RETRY:
                continue
            exhausted.append((OffsetRange(low, high), decision))
            if start < low:
                kept.append(Send(send.consumer_id, start, low, send.attempt))
            start = high
    if start < send.end:
        kept.append(Send(send.consumer_id, start, send.end, send.attempt))
    return kept, exhausted
