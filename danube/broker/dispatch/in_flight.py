"""Deliveries: every message that a subscription has taken up and that is not acknowledged, as ranges of offsets.

    send_new -> IN_FLIGHT - back_off (nack, timeout) > WAITING
                | |   ^                                  | come_due
                | |   '---------- send_again --------- READY <-- park
                | '-- release, take_back ---------------^ ^
                '---- exhaust (too many failures) > EXHAUSTED -' revive

`remove` takes a message out of any of these. A range is split where a part of it goes another way, so costs follow
the number of ranges, not of messages. What is due is found through a heap whose entries may be out of date: one counts
only while its range is still timed for that moment.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from heapq import heapify, heappop, heappush
from itertools import pairwise

from danube.broker.dispatch.attached import AttachedConsumer
from danube.model.ranges import OffsetRange

_STALE_ENTRIES = 64
"""Out-of-date heap entries tolerated beside one for each range, so that small heaps are not rebuilt all the time."""


class DeliveryState(Enum):
    """The state of a range of messages."""

    IN_FLIGHT = "in flight"
    """Sent to a consumer that has not answered yet."""
    WAITING = "waiting"
    """In back-off."""
    READY = "ready"
    """To be sent as soon as a consumer has room."""
    EXHAUSTED = "exhausted"
    """Its redeliveries are used up."""
    GONE = "gone"
    """No longer here: acknowledged, or joined to another range."""


@dataclass(slots=True, eq=False)
class Delivery:
    """A range of messages with the same history; changed in place."""

    start: int
    end: int
    attempt: int
    """How often they have been sent."""
    state: DeliveryState
    holder: AttachedConsumer | None = None
    """The consumer that has them while they are in flight."""
    number: int = 0
    """Of the send, counted for the whole subscription: what a consumer was sent first it works on first."""
    at_s: float = 0.0
    """Monotonic time: in flight, when they time out; waiting, when they are ready."""

    @property
    def is_timed(self) -> bool:
        """Tell whether it has a deadline."""
        return self.state is DeliveryState.IN_FLIGHT or self.state is DeliveryState.WAITING


class Deliveries:
    """The ranges of one subscription that are on their way, in the order of their offsets."""

    def __init__(
        self,
        on_room: Callable[[AttachedConsumer], None],
        on_ready: Callable[[int, int], None] | None = None,
    ) -> None:
        """`on_room` is called with a consumer whose window has room again, `on_ready` with what became ready."""
        self._on_room = on_room
        self._on_ready = on_ready
        self.has_unsent = False
        """True if there may be messages that were taken back before anybody was sent them."""
        self._starts: list[int] = []
        self._ranges: list[Delivery] = []
        self._ready: list[int] = []
        """Starts of the READY ranges, in order."""
        self._waiting = 0
        """How many ranges are WAITING."""
        self._heap: list[tuple[float, int, Delivery]] = []
        self._pushed = 0
        self._sends = 0
        self.now_s = 0.0
        """Monotonic time of what is applied."""

    @property
    def redelivery_ranges(self) -> int:
        """The number of ranges that are waiting or ready."""
        return self._waiting + len(self._ready)

    def messages(self, state: DeliveryState) -> int:
        """The number of messages in this state; costs O(ranges)."""
        return sum(each.end - each.start for each in self._ranges if each.state is state)

    def next_ready(self, offset: int) -> OffsetRange | None:
        """The lowest messages from `offset` on that are ready: they all have been sent equally often."""
        ready = self._ready
        if not ready:
            return None
        index = bisect_right(ready, offset)
        if index:
            end = self._ranges[bisect_left(self._starts, ready[index - 1])].end
            if offset < end:
                return OffsetRange(offset, end)
        if index == len(ready):
            return None
        return OffsetRange(ready[index], self._ranges[bisect_left(self._starts, ready[index])].end)

    def attempt(self, offset: int, state: DeliveryState) -> int | None:
        """The number of sends of a message that is in this state, else None."""
        index = self._index(offset)
        if index == len(self._ranges) or self._starts[index] > offset:
            return None
        found = self._ranges[index]
        return found.attempt if found.state is state else None

    def sent_spans(self, start: int, end: int) -> list[OffsetRange]:
        """The ranges within `[start, end)` that have been sent at least once."""
        found = self._ranges[self._index(start) : bisect_left(self._starts, end)] if start < end else ()
        return [OffsetRange(max(start, each.start), min(end, each.end)) for each in found if each.attempt]

    def in_flight_spans(self, start: int, end: int) -> list[OffsetRange]:
        """The parts of the ranges within `[start, end)` that are in flight."""
        found = self._ranges[self._index(start) : bisect_left(self._starts, end)] if start < end else ()
        in_flight = (each for each in found if each.state is DeliveryState.IN_FLIGHT)
        return [OffsetRange(max(start, each.start), min(end, each.end)) for each in in_flight]

    def attempts(self, start: int, end: int) -> list[tuple[OffsetRange, int]]:
        """The ranges within `[start, end)` and how often each has been sent."""
        found = self._ranges[self._index(start) : bisect_left(self._starts, end)] if start < end else ()
        return [(OffsetRange(max(start, each.start), min(end, each.end)), each.attempt) for each in found]

    def holder(self, offset: int) -> AttachedConsumer | None:
        """The consumer that has this message."""
        index = self._index(offset)
        found = self._ranges[index] if index < len(self._ranges) and self._starts[index] <= offset else None
        return None if found is None else found.holder

    def held_by(self, consumer: AttachedConsumer, start: int, end: int) -> Iterator["Delivery"]:
        """The ranges that overlap `[start, end)` and are in flight to this consumer."""
        for index in range(self._index(start), bisect_left(self._starts, end)):
            if self._ranges[index].holder is consumer:
                yield self._ranges[index]

    def send_new(self, start: int, end: int, consumer: AttachedConsumer, deadline_s: float) -> None:
        """Messages above all others here go out for the first time."""
        sent = Delivery(start, end, 1, DeliveryState.IN_FLIGHT, consumer, at_s=deadline_s)
        self._starts.append(start)
        self._ranges.append(sent)
        self._assign(sent, consumer)

    def park(self, start: int, end: int) -> None:
        """Messages above all others here are ready, but were never sent."""
        self._starts.append(start)
        self._ranges.append(Delivery(start, end, 0, DeliveryState.READY))
        self._ready.append(start)

    def send_again(self, start: int, end: int, consumer: AttachedConsumer, deadline_s: float) -> int:
        """Ready messages go out; answers which attempt this is."""
        sent = self._cut(start, end)
        self._unready(start)
        sent.state = DeliveryState.IN_FLIGHT
        sent.attempt += 1
        sent.holder = consumer
        sent.at_s = deadline_s
        self._assign(sent, consumer)
        return sent.attempt

    def remove(self, start: int, end: int) -> bool:
        """Remove `[start, end)`, as far as it is here; answers whether there was anything."""
        if start >= end:
            return False
        first = self._index(start)
        last = bisect_left(self._starts, end, first)
        if first >= last:
            return False
        if self._starts[first] < start:
            self._split(first, start)
            first += 1
            last += 1
        if self._ranges[last - 1].end > end:
            last -= 1
            self._trim(last, end)
        for done in self._ranges[first:last]:
            self._drop(done)
        del self._ranges[first:last], self._starts[first:last]
        self.has_unsent = self.has_unsent and bool(self._ranges)
        if len(self._heap) > _STALE_ENTRIES:
            self._tidy()
        return True

    def back_off(self, start: int, end: int, until_s: float) -> None:
        """Messages of one range in flight failed: they wait until then."""
        failed = self._cut(start, end)
        self._unassign(failed)
        failed.state = DeliveryState.WAITING
        failed.at_s = until_s
        self._waiting += 1
        self._schedule(failed)

    def take_back(self, start: int, end: int) -> None:
        """Messages of one range in flight never left: they are ready, and this attempt was none."""
        unsent = self._cut(start, end)
        if unsent.holder is not None and unsent.holder.in_flight == end - start:
            unsent.holder.owes = False
        self._unassign(unsent)
        unsent.attempt -= 1
        self.has_unsent = self.has_unsent or not unsent.attempt
        self._make_ready(unsent)

    def exhaust(self, start: int, end: int) -> None:
        """Messages of one range in flight failed too often."""
        failed = self._cut(start, end)
        self._unassign(failed)
        failed.state = DeliveryState.EXHAUSTED

    def revive(self, start: int, end: int) -> None:
        """Exhausted messages, of one range or several, are ready again."""
        for span, _ in self.attempts(start, end):
            self._make_ready(self._cut(*span))

    def clear(self) -> None:
        """Nothing is on its way any more; the consumers stay."""
        for each in self._ranges:
            each.state = DeliveryState.GONE
            if each.holder is not None:
                self._unassign(each)
        for index in (self._starts, self._ranges, self._ready, self._heap):
            index.clear()
        self._waiting = 0
        self.has_unsent = False

    def come_due(self, now_s: float, overdue: Callable[[Delivery], None]) -> None:
        """Apply the passing of time: back-offs end, and `overdue` gets what timed out.

        It must postpone, back off, exhaust or remove exactly that.
        """
        heap = self._heap
        while heap and heap[0][0] <= now_s:
            at_s, _, due = heappop(heap)
            if due.at_s != at_s or not due.is_timed:
                continue
            if due.state is DeliveryState.WAITING:
                self._waiting -= 1
                self._make_ready(due)
            else:
                overdue(due)
        self._tidy()

    def postpone(self, delivery: Delivery, until_s: float) -> None:
        """Messages in flight have time until then."""
        delivery.at_s = until_s
        self._schedule(delivery)

    def held_spans(self, consumer: AttachedConsumer, start: int, end: int) -> list[OffsetRange]:
        """The parts of `[start, end)` that are in flight to this consumer, each of one range."""
        return [OffsetRange(max(start, each.start), min(end, each.end)) for each in self.held_by(consumer, start, end)]

    def postpone_span(self, start: int, end: int, until_s: float) -> None:
        """As `postpone`, for messages of one range."""
        self.postpone(self._cut(start, end), until_s)

    def answered(self, delivery: Delivery, end: int) -> None:
        """The consumer answered messages of a range, up to `end`: it got as far as that."""
        if delivery.holder is not None:
            delivery.holder.answered_s = delivery.holder.sign_s = self.now_s
            delivery.holder.owes = False
            delivery.holder.front = max(delivery.holder.front, (delivery.number, end))

    def nacked(self, start: int, end: int) -> None:
        """The consumer refused messages of one range in flight."""
        self.answered(self._ranges[self._index(start)], end)

    def release(self, consumer: AttachedConsumer) -> None:
        """The consumer left: what it had is ready at once."""
        held = sorted(consumer.held, key=_start)
        consumer.held.clear()
        consumer.in_flight = 0
        for each in held:
            self._make_ready(each)
        self._tidy()

    def due_before(self, limit_s: float) -> float | None:
        """The next time at which `come_due` has something to do, if it is before this."""
        heap = self._heap
        while heap and heap[0][0] < limit_s:
            at_s, _, due = heap[0]
            if due.at_s == at_s and due.is_timed:
                return at_s
            heappop(heap)
        return None

    def spans(self, state: DeliveryState | None = None) -> list[OffsetRange]:
        """The ranges here, in one state or in any."""
        return [OffsetRange(each.start, each.end) for each in self._ranges if state is None or each.state is state]

    def problems(self) -> Iterator[str]:
        """Violated invariants."""
        if self._starts != [each.start for each in self._ranges]:
            yield "the index of starts is wrong"
        if any(low.end > high.start for low, high in pairwise(self._ranges)):
            yield "ranges overlap or are out of order"
        if self._ready != [each.start for each in self._ranges if each.state is DeliveryState.READY]:
            yield "the index of ready ranges is wrong"
        if self._waiting != sum(each.state is DeliveryState.WAITING for each in self._ranges):
            yield "the count of waiting ranges is wrong"
        if len(self._heap) > 2 * len(self._ranges) + _STALE_ENTRIES:
            yield f"the heap has {len(self._heap)} entries for {len(self._ranges)} ranges"
        entries = {(at_s, id(each)) for at_s, _, each in self._heap}
        for each in self._ranges:
            yield from self._problems_of(each, entries)

    @staticmethod
    def _problems_of(each: Delivery, entries: set[tuple[float, int]]) -> Iterator[str]:
        if each.start >= each.end or each.state is DeliveryState.GONE:
            yield f"{each} should not be here"
        if each.is_timed and (each.at_s, id(each)) not in entries:
            yield f"{each} would never be due"
        if (each.holder is not None) is not (each.state is DeliveryState.IN_FLIGHT):
            yield f"{each} has a holder and should not, or the other way round"
        if each.holder is not None and each not in each.holder.held:
            yield f"{each} is not held by its holder"

    def _index(self, offset: int) -> int:
        """The first range that ends above `offset`."""
        index = bisect_right(self._starts, offset)
        if index and self._ranges[index - 1].end > offset:
            return index - 1
        return index

    def _cut(self, start: int, end: int) -> Delivery:
        """Make `[start, end)`, which lies within one range, a range of its own."""
        index = self._index(start)
        if self._starts[index] < start:
            self._split(index, start)
            index += 1
        if self._ranges[index].end > end:
            self._split(index, end)
        return self._ranges[index]

    def _split(self, index: int, at: int) -> None:
        left = self._ranges[index]
        right = Delivery(at, left.end, left.attempt, left.state, left.holder, left.number, left.at_s)
        left.end = at
        self._starts.insert(index + 1, at)
        self._ranges.insert(index + 1, right)
        if left.state is DeliveryState.READY:
            insort(self._ready, at)
            return
        if left.state is DeliveryState.EXHAUSTED:
            return
        if left.state is DeliveryState.WAITING:
            self._waiting += 1
        elif left.holder is not None:
            left.holder.held.add(right)
        self._schedule(right)

    def _trim(self, index: int, at: int) -> None:
        """Acknowledge a range below `at`, which lies within it."""
        trimmed = self._ranges[index]
        self.answered(trimmed, at)
        if trimmed.holder is not None:
            self._free_window(trimmed.holder, at - trimmed.start)
        elif trimmed.state is DeliveryState.READY:
            self._ready[bisect_left(self._ready, trimmed.start)] = at
        trimmed.start = self._starts[index] = at

    def _drop(self, done: Delivery) -> None:
        """Acknowledge a whole range; the caller takes it out of the lists."""
        self.answered(done, done.end)
        if done.holder is not None:
            done.holder.held.discard(done)
            self._free_window(done.holder, done.end - done.start)
        elif done.state is DeliveryState.READY:
            self._unready(done.start)
        elif done.state is DeliveryState.WAITING:
            self._waiting -= 1
        done.state = DeliveryState.GONE
        done.holder = None

    def _unassign(self, delivery: Delivery) -> None:
        if delivery.holder is not None:
            delivery.holder.held.discard(delivery)
            self._free_window(delivery.holder, delivery.end - delivery.start)
            delivery.holder = None

    def _make_ready(self, delivery: Delivery) -> None:
        """Make a range ready, joined to ready neighbours that have been sent equally often."""
        delivery.holder = None
        delivery.state = DeliveryState.READY
        insort(self._ready, delivery.start)
        if self._on_ready is not None:
            self._on_ready(delivery.start, delivery.end)
        index = bisect_left(self._starts, delivery.start)
        self._join(index)
        if index:
            self._join(index - 1)

    def _join(self, index: int) -> None:
        """Make a range and the one after it one range, if they are both ready and alike."""
        if index + 1 == len(self._ranges):
            return
        low, high = self._ranges[index], self._ranges[index + 1]
        if low.state is not DeliveryState.READY or high.state is not DeliveryState.READY:
            return
        if low.end != high.start or low.attempt != high.attempt:
            return
        low.end = high.end
        high.state = DeliveryState.GONE
        del self._starts[index + 1], self._ranges[index + 1]
        self._unready(high.start)

    def _unready(self, start: int) -> None:
        """Take the range that starts here out of the ready ones."""
        del self._ready[bisect_left(self._ready, start)]

    def _assign(self, sent: Delivery, consumer: AttachedConsumer) -> None:
        self._sends += 1
        sent.number = self._sends
        if not consumer.owes:
            consumer.owes = True
            consumer.sign_s = consumer.sign_s if consumer.in_flight else self.now_s
        consumer.in_flight += sent.end - sent.start
        consumer.held.add(sent)
        self._schedule(sent)

    def _free_window(self, consumer: AttachedConsumer, count: int) -> None:
        consumer.in_flight -= count
        self._on_room(consumer)

    def _schedule(self, delivery: Delivery) -> None:
        self._pushed += 1
        heappush(self._heap, (delivery.at_s, self._pushed, delivery))
        if len(self._heap) > _STALE_ENTRIES:
            self._tidy()

    def _tidy(self) -> None:
        """Build the heap anew when most of it is out of date; each call pays a constant share of that."""
        if len(self._heap) <= 2 * len(self._ranges) + _STALE_ENTRIES:
            return
        timed = [each for each in self._ranges if each.is_timed]
        self._heap[:] = [(each.at_s, number, each) for number, each in enumerate(timed, self._pushed + 1)]
        self._pushed += len(timed)
        heapify(self._heap)


def _start(delivery: Delivery) -> int:
    return delivery.start
