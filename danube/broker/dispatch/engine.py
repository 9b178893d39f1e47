"""The state of one reliable subscription: events in, instructions out; no waiting, no clock, no I/O.

Each offset below `next_offset` is in exactly one place: acknowledged, in flight, waiting or ready. What is ready goes
out before what is new, lowest offset first. Instructions come in this order: sends, at most one SaveCursor, at most one
SetTimer.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import assert_never

from danube.broker.dispatch.events import (
    Acknowledged,
    Appended,
    ConsumerAttached,
    ConsumerDetached,
    ConsumerPaused,
    ConsumerResumed,
    Event,
    Nacked,
    TimerFired,
)
from danube.broker.dispatch.in_flight import AttachedConsumer, Deliveries, DeliveryState
from danube.broker.dispatch.instructions import Instruction, SaveCursor, Send, SetTimer
from danube.broker.dispatch.progress import Progress
from danube.broker.dispatch.redelivery import RedeliveryPolicy, delay_s
from danube.broker.dispatch.selection import selection_for
from danube.model.errors import InternalError, InvalidRequestError
from danube.model.limits import CURSOR_RANGES_MAX, REDELIVERY_RANGES_MAX
from danube.model.ranges import RangeSet
from danube.model.subscription import Cursor, SubscriptionType

_NEVER_S = float("inf")


@dataclass(frozen=True, slots=True)
class ConsumerView:
    """What an observer sees of an attached consumer."""

    consumer_id: int
    window: int
    in_flight: int
    """Messages it has and has not acknowledged."""
    is_paused: bool


class DispatchEngine:
    """Decides who of a subscription's consumers gets what, and when again.

    Promises: every message is sent until it is acknowledged, and never again once it is; nobody gets more than its
    window, anything while paused, or anything that is not durable; first sends are in the order of offsets. The cursor
    is never ahead of what was acknowledged.

    The timer is lazy: SetTimer is given only when the engine must be woken earlier than it asked for last. An early
    TimerFired does no harm, and so acknowledgements cost no timer.
    """

    def __init__(
        self, subscription_type: SubscriptionType, cursor: Cursor, durable_end: int, policy: RedeliveryPolicy
    ) -> None:
        """Continue from `cursor` on a topic that is durable up to `durable_end` (not included).

        Raises UnsupportedError for a subscription type that is not there yet.
        """
        self.policy = policy
        """May be replaced at any time; holds for what is sent or fails from then on."""
        self._selection = selection_for(subscription_type)
        self._deliveries = Deliveries(self._selection.refresh)
        self._progress = Progress(cursor, durable_end)
        self._consumers: dict[int, AttachedConsumer] = {}
        self._durable_end = durable_end
        self._ahead = deque(self._progress.beyond)
        """Acknowledged before a restart, above `next_offset`: to be skipped."""
        self._next = self._progress.position
        self._timer_s = _NEVER_S

    @property
    def cursor(self) -> Cursor:
        """Where the subscription stands."""
        return self._progress.cursor

    @property
    def position(self) -> int:
        """Everything below it is acknowledged; the cursor's, at less cost."""
        return self._progress.position

    @property
    def next_offset(self) -> int:
        """The lowest offset that was not taken up yet."""
        return self._next

    @property
    def durable_end(self) -> int:
        """The offset after the last message that may be sent."""
        return self._durable_end

    @property
    def lag(self) -> int:
        """Durable messages that are not acknowledged."""
        return self._durable_end - self._progress.position - self._progress.beyond.count()

    @property
    def in_flight(self) -> int:
        """Messages sent and not yet answered; costs O(consumers)."""
        return sum(consumer.in_flight for consumer in self._consumers.values())

    @property
    def waiting(self) -> int:
        """Messages in back-off; costs O(ranges)."""
        return self._deliveries.messages(DeliveryState.WAITING)

    @property
    def ready(self) -> int:
        """Messages to be sent again as soon as a consumer has room; costs O(ranges)."""
        return self._deliveries.messages(DeliveryState.READY)

    @property
    def consumers(self) -> tuple[ConsumerView, ...]:
        """The attached consumers, as they came."""
        return tuple(
            ConsumerView(each.consumer_id, each.window, each.in_flight, each.is_paused)
            for each in self._consumers.values()
        )

    def handle(self, event: Event, now_s: float) -> list[Instruction]:
        """Take in what happened at this monotonic time and answer what to do, in this order.

        Raises InvalidRequestError when a consumer attaches with a window or quantum below 1.
        """
        cursor_moved = self._apply(event, now_s)
        instructions: list[Instruction] = []
        if self._send_ready(now_s, instructions):
            self._send_new(now_s, instructions)
        if cursor_moved:
            instructions.append(SaveCursor(self._progress.cursor))
        due_s = self._deliveries.due_before(self._timer_s)
        if due_s is not None:
            self._timer_s = due_s
            instructions.append(SetTimer(due_s))
        return instructions

    def still_wanted(self, send: Send) -> list[Send]:
        """What of an earlier instruction still holds: neither answered since, nor taken back, nor sent again."""
        consumer = self._consumers.get(send.consumer_id)
        if consumer is None:
            return []
        return [
            Send(send.consumer_id, max(send.start, each.start), min(send.end, each.end), send.attempt)
            for each in self._deliveries.held_by(consumer, send.start, send.end)
            if each.attempt == send.attempt
        ]

    def validate(self) -> None:
        """Check every invariant, in O(everything); raises InternalError that names those that do not hold."""
        problems = list(self._problems())
        if problems:
            raise InternalError("dispatch is in a wrong state: " + "; ".join(problems))

    def _apply(self, event: Event, now_s: float) -> bool:
        """Take an event in; says whether the cursor changed. What names something unknown changes nothing."""
        match event:
            case Acknowledged():
                return self._acknowledge(event.start, event.end)
            case Appended():
                self._durable_end = max(self._durable_end, event.durable_end)
            case Nacked():
                self._nack(event, now_s)
            case TimerFired():
                self._timer_s = _NEVER_S
                self._deliveries.come_due(now_s, lambda attempt: now_s + delay_s(attempt, self.policy))
            case ConsumerPaused():
                self._set_paused(event.consumer_id, is_paused=True)
            case ConsumerResumed():
                self._set_paused(event.consumer_id, is_paused=False)
            case ConsumerAttached():
                self._attach(event)
            case ConsumerDetached():
                self._detach(event.consumer_id)
            case _:
                assert_never(event)
        return False

    def _acknowledge(self, start: int, end: int) -> bool:
        """What was not sent since this engine began does not count: nobody can be done with it."""
        if not self._deliveries.acknowledge(start, end):
            return False
        self._progress.add(start, min(end, self._next))
        return True

    def _nack(self, event: Nacked, now_s: float) -> None:
        """A late one, for a message that is not in flight (any more), does not change when it is sent again."""
        attempt = self._deliveries.in_flight_attempt(event.offset)
        if attempt is not None:
            until_s = now_s + delay_s(attempt, self.policy, event.delay_s)
            self._deliveries.hold(event.offset, event.offset + 1, until_s)

    def _attach(self, event: ConsumerAttached) -> None:
        """A consumer that is attached already starts over: its former stream is gone, and so is what was on it."""
        if event.window < 1 or event.quantum < 1:
            raise InvalidRequestError(f"{event} would never be served: window and quantum must be at least 1")
        self._detach(event.consumer_id)
        consumer = AttachedConsumer(event.consumer_id, event.window, event.quantum, event.quantum)
        self._consumers[event.consumer_id] = consumer
        self._selection.attach(consumer)

    def _detach(self, consumer_id: int) -> None:
        consumer = self._consumers.pop(consumer_id, None)
        if consumer is not None:
            self._selection.detach(consumer)
            self._deliveries.release(consumer)

    def _set_paused(self, consumer_id: int, *, is_paused: bool) -> None:
        consumer = self._consumers.get(consumer_id)
        if consumer is not None:
            consumer.is_paused = is_paused
            self._selection.refresh(consumer)

    def _send_ready(self, now_s: float, instructions: list[Instruction]) -> bool:
        """Send what is ready as far as consumers have room; says whether some may be left."""
        offset = 0
        while (span := self._deliveries.next_ready(offset)) is not None:
            turn = self._selection.take(span.start, span.end)
            if turn is None:
                return False
            consumer, count = turn
            offset = span.start + count
            if consumer is not None:
                deadline_s = now_s + self.policy.ack_timeout_s
                attempt = self._deliveries.send_again(span.start, offset, consumer, deadline_s)
                instructions.append(Send(consumer.consumer_id, span.start, offset, attempt))
        return True

    def _send_new(self, now_s: float, instructions: list[Instruction]) -> None:
        """Send what was never sent, as far as consumers have room and the bounds allow."""
        while self._next < self._durable_end and not self._is_at_bound():
            start = self._next
            turn = self._selection.take(start, self._ahead[0].start if self._ahead else self._durable_end)
            if turn is None:
                return
            consumer, count = turn
            if consumer is None:
                self._deliveries.park(start, start + count)
            else:
                self._deliveries.send_new(start, start + count, consumer, now_s + self.policy.ack_timeout_s)
                instructions.append(Send(consumer.consumer_id, start, start + count))
            self._next = start + count
            if self._ahead:
                self._skip_ahead()

    def _skip_ahead(self) -> None:
        while self._ahead and self._ahead[0].start <= self._next:
            self._next = self._ahead.popleft().end

    def _is_at_bound(self) -> bool:
        """Whether enough is open; ranges from before a restart do not count: what is sent now closes the gaps there."""
        scattered = len(self._progress.beyond) - len(self._ahead)
        return scattered >= CURSOR_RANGES_MAX or self._deliveries.redelivery_ranges >= REDELIVERY_RANGES_MAX

    def _problems(self) -> Iterator[str]:
        yield from self._deliveries.problems()
        yield from self._progress.problems()
        yield from self._selection.problems()
        yield from self._offset_problems()
        for consumer in self._consumers.values():
            held = sum(each.end - each.start for each in consumer.held)
            if consumer.in_flight != held or held > consumer.window:
                yield f"consumer {consumer.consumer_id} has {held} of {consumer.window}, counted {consumer.in_flight}"
        if self.in_flight != self._deliveries.messages(DeliveryState.IN_FLIGHT):
            yield "messages are in flight to a consumer that is not attached"
        if self._deliveries.due_before(self._timer_s) is not None:
            yield f"something is due before the timer at {self._timer_s}"

    def _offset_problems(self) -> Iterator[str]:
        position, beyond = self._progress.position, self._progress.beyond
        open_spans = RangeSet(self._deliveries.spans())
        if list(open_spans) != beyond.gaps(position, self._next):
            yield f"{open_spans} is open, but {position} and {beyond} are acknowledged of {self._next}"
        if not position <= self._next <= self._durable_end:
            yield f"{position}, {self._next} and {self._durable_end} are out of order"
        if list(self._ahead) != beyond.overlap(self._next, self._durable_end):
            yield f"{list(self._ahead)} would be skipped, but {beyond} is acknowledged"
