"""Messages whose redeliveries are used up: blocked until an operator acts, or on their way to the dead letter topic.

They stay in `Deliveries` (EXHAUSTED). A dead letter that failed keeps its place among DEAD_LETTERS_AT_ONCE_MAX while it
waits, so that an unavailable dead letter topic is not flooded.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterator
from typing import NamedTuple

from danube.broker.dispatch.events import DeadLetter
from danube.broker.dispatch.in_flight import Deliveries, DeliveryState
from danube.broker.dispatch.redelivery import ACK_TIMEOUT_REASON
from danube.model.limits.broker import DEAD_LETTERS_AT_ONCE_MAX, FAILURE_REASON_BYTES_MAX, REDELIVERY_RANGES_MAX
from danube.model.ranges import OffsetRange, RangeSet

_NEVER_S = float("inf")


class _Reason(NamedTuple):
    """Reason of the refusal of messages `start` to `end`, `end` not included."""

    start: int
    end: int
    reason: str


class ExhaustedDeliveries:
    """The exhausted messages of one subscription: blocked, or to be dead-lettered."""

    def __init__(self) -> None:
        self.has_any = False
        """False when empty; a plain value, since every event reads it."""
        self.blocked = RangeSet()
        self._queued = RangeSet()
        """To be dead-lettered, not asked for yet."""
        self._asked: set[int] = set()
        """Dead letters under way."""
        self._failed: dict[int, float] = {}
        """Dead letters that failed, and the monotonic time at which they are asked for again."""
        self._failures: dict[int, int] = {}
        """How often those under way, or failed, did so before."""
        self._reasons: list[_Reason] = []
        """Of refused messages, ascending, disjoint; what has none timed out."""

    @property
    def dead_letters(self) -> int:
        """Messages that are to be dead-lettered; costs O(ranges)."""
        return self._queued.count() + len(self._asked) + len(self._failed)

    @property
    def is_at_bound(self) -> bool:
        """Tell whether so much waits for the dead letter topic that nothing new may be sent."""
        return len(self._queued) >= REDELIVERY_RANGES_MAX

    @property
    def due_s(self) -> float:
        """The time at which a failed dead letter is requested again; infinity when there is none."""
        return min(self._failed.values(), default=_NEVER_S)

    def block(self, start: int, end: int, reason: str = "") -> None:
        """These wait for an operator."""
        self.has_any = True
        self.blocked.add(start, end)
        self._keep_reason(start, end, reason)

    def queue_dead_letter(self, start: int, end: int, reason: str = "") -> None:
        """These are to be dead-lettered."""
        self.has_any = True
        self._queued.add(start, end)
        self._keep_reason(start, end, reason)

    def move(self, start: int, end: int, *, is_blocked: bool) -> None:
        """These wait for an operator now, or are to be dead-lettered, whatever it was before; why they failed stays."""
        for offset in _within(self._asked | self._failed.keys(), start, end):
            self._end_dead_letter(offset)
        self.blocked.remove(start, end)
        self._queued.remove(start, end)
        (self.blocked if is_blocked else self._queued).add(start, end)

    def remove(self, start: int, end: int) -> None:
        """These are acknowledged, or sent again. A dead letter under way is not waited for any more."""
        self.blocked.remove(start, end)
        self._queued.remove(start, end)
        self._replace_reasons(start, end, [])
        for offset in _within(self._asked | self._failed.keys(), start, end):
            self._end_dead_letter(offset)
        self.has_any = bool(self.blocked or self._queued or self._asked or self._failed)

    def is_under_way(self, offset: int) -> bool:
        """Tell whether a dead letter is under way."""
        return offset in self._asked

    def failures(self, offset: int) -> int:
        """The number of failures of a dead letter, this one included."""
        return self._failures.get(offset, 0) + 1

    def ask_again(self, offset: int, at_s: float) -> None:
        """A dead letter under way failed; another is requested at that time."""
        self._asked.discard(offset)
        self._failed[offset] = at_s
        self._failures[offset] = self.failures(offset)

    def undecided(self) -> list[OffsetRange]:
        """Blocked messages, and queued ones not under way: to be judged by a new policy."""
        waiting = RangeSet([*self.blocked, *self._queued, *(OffsetRange(each, each + 1) for each in self._failed)])
        return list(waiting)

    def reason(self, offset: int) -> str:
        """The reason of the last failure."""
        first = self._first_reason(offset)
        kept = self._reasons[first] if first < len(self._reasons) else None
        return kept.reason if kept is not None and kept.start <= offset else ACK_TIMEOUT_REASON

    def ask(self, now_s: float, attempts: Callable[[int], int], topic: str) -> Iterator[DeadLetter]:
        """The dead letters to make now; `attempts` answers how often a message was sent."""
        for offset in [each for each, at_s in self._failed.items() if at_s <= now_s]:
            del self._failed[offset]
            yield self._dead_letter(offset, attempts(offset), topic)
        while (lowest := self._queued.first()) is not None and self._places > 0:
            self._queued.remove(lowest.start, lowest.start + 1)
            yield self._dead_letter(lowest.start, attempts(lowest.start), topic)

    def problems(self, deliveries: Deliveries) -> Iterator[str]:
        """Violated invariants."""
        known = RangeSet([*self.undecided(), *(OffsetRange(each, each + 1) for each in self._asked)])
        if list(known) != list(RangeSet(deliveries.spans(DeliveryState.EXHAUSTED))):
            yield f"{known} is exhausted here, but not in flight"
        if self.has_any is not bool(known):
            yield f"whether {known} is anything is wrong"
        if len(self._asked) + len(self._failed) > DEAD_LETTERS_AT_ONCE_MAX:
            yield f"{len(self._asked)} dead letters are under way and {len(self._failed)} wait"
        if not (self._failures.keys() <= self._asked | self._failed.keys()):
            yield f"failures of {sorted(self._failures)} are remembered for nothing"
        if any(known.gaps(each.start, each.end) for each in self._reasons):
            yield "reasons are kept of messages that are not here"

    @property
    def _places(self) -> int:
        return DEAD_LETTERS_AT_ONCE_MAX - len(self._asked) - len(self._failed)

    def _dead_letter(self, offset: int, attempt: int, topic: str) -> DeadLetter:
        self._asked.add(offset)
        return DeadLetter(offset, attempt, self.reason(offset), topic)

    def _keep_reason(self, start: int, end: int, reason: str) -> None:
        if reason:
            kept = reason.encode()[:FAILURE_REASON_BYTES_MAX].decode(errors="ignore")  # without half a character
            self._replace_reasons(start, end, [_Reason(start, end, kept)])

    def _replace_reasons(self, start: int, end: int, reasons: list[_Reason]) -> None:
        if start < end:
            first, last = self._first_reason(start), bisect_left(self._reasons, end, key=lambda each: each.start)
            around = self._reasons[first:last]
            before = [each._replace(end=start) for each in around[:1] if each.start < start]
            after = [each._replace(start=end) for each in around[-1:] if each.end > end]
            self._reasons[first:last] = [*before, *reasons, *after]

    def _first_reason(self, offset: int) -> int:
        """The first that ends above `offset`."""
        return bisect_right(self._reasons, offset, key=lambda each: each.end)

    def _end_dead_letter(self, offset: int) -> None:
        """Stop waiting for a dead letter."""
        self._asked.discard(offset)
        self._failed.pop(offset, None)
        self._failures.pop(offset, None)


def _within(offsets: Collection[int], start: int, end: int) -> list[int]:
    """The offsets within `[start, end)`, found the cheaper way."""
    if end - start < len(offsets):
        return [offset for offset in range(start, end) if offset in offsets]
    return [offset for offset in offsets if start <= offset < end]
