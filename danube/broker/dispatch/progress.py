"""How far a subscription is: what it has acknowledged, and what it has taken up to be sent."""

from collections import deque
from collections.abc import Iterator

from danube.broker.dispatch.failure_counts import FailureCounts
from danube.model.limits.broker import CURSOR_RANGES_MAX
from danube.model.ranges import OffsetRange, RangeSet
from danube.model.subscription import Cursor, FailedRange


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
        """Whether `beyond` has any: asked once for each acknowledgement."""
        self.changed = False
        """Whether the cursor is another one than when this was last set to False."""
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
        """Whether acknowledged ranges are as many as a cursor keeps.

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
        """What is not as it must be; nothing, unless there is a fault in here."""
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
