"""Dispatch engine: the state of one reliable subscription. Events in, instructions out; no clock, no I/O.

Each offset below `next_offset` is in exactly one state: acknowledged, in flight, waiting, ready or exhausted. Ready
messages are sent before new ones, lowest offset first (`ordered.py`), or key by key (`key_shared.py`). Instructions
come in this order: sends, at most one ReadKeys, DeadLetters, at most one SaveCursor, reports, at most one SetTimer.
"""

from collections.abc import Iterable, Iterator

from danube.broker.dispatch.attached import AttachedConsumer
from danube.broker.dispatch.events import (
    Acknowledged,
    Appended,
    ConsumerAttached,
    ConsumerDetached,
    ConsumerPaused,
    ConsumerResumed,
    DeadLettered,
    DeadLetterFailed,
    Event,
    Instruction,
    KeysRead,
    Nacked,
    PolicyChanged,
    Reported,
    RetryBlocked,
    SaveCursor,
    Seek,
    Send,
    SetTimer,
    SkipBlocked,
    SkipRange,
    SkipReason,
    TimerFired,
    WindowChanged,
    add_send,
)
from danube.broker.dispatch.exhausted import ExhaustedDeliveries
from danube.broker.dispatch.flow import NEVER_S, Flow
from danube.broker.dispatch.in_flight import Delivery, DeliveryState
from danube.broker.dispatch.progress import FailureCauses, PassedOver, Progress, judge_recalled
from danube.broker.dispatch.redelivery import (
    DISCONNECT_REASON,
    NACK_REASON,
    RECALLED_REASON,
    RedeliveryPolicy,
    Verdict,
    delay_s,
    verdict,
)
from danube.broker.dispatch.reports import Reports
from danube.broker.dispatch.selection.key_filter import check_filters
from danube.broker.dispatch.selection.key_shared import KeySharedFlow
from danube.broker.dispatch.selection.ordered import OrderedFlow
from danube.broker.dispatch.selection.selection import BatchEnd, unknown_end
from danube.broker.dispatch.view import DispatchView
from danube.model.errors import InternalError, InvalidRequestError
from danube.model.limits.broker import DEAD_LETTER_RETRY_S, KEY_SHARED_GRACE_S
from danube.model.policies import PoisonPolicy
from danube.model.ranges import OffsetRange, RangeSet
from danube.model.subscription import Cursor, SubscriptionType

_Governing = (
    PolicyChanged
    | WindowChanged
    | SkipBlocked
    | RetryBlocked
    | DeadLettered
    | DeadLetterFailed
    | Seek
    | SkipRange
    | Reported
)

_SPREAD = 0x9E3779B97F4A7C15  # 2**64 over the golden ratio: multiples of it fall evenly on 64 bits


class DispatchEngine(DispatchView):
    """Decides which consumer of a subscription gets a message, and when again.

    Promises: every message is sent until it is acknowledged, or passed over by a rule that counts it, and never again
    after that; nobody gets more than its window, anything while paused, or anything that is not durable; first sends
    are in the order of offsets, in Key-Shared within each key. The cursor is never ahead of what was acknowledged or
    passed over.

    The timer is lazy: SetTimer is given only when the engine must be woken earlier than it asked for last. An early
    TimerFired does no harm, and so acknowledgements cost no timer.
    """

    def __init__(
        self,
        subscription_type: SubscriptionType,
        cursor: Cursor,
        durable_end: int,
        policy: RedeliveryPolicy,
        *,
        grace_s: float = KEY_SHARED_GRACE_S,
        seed: int = 0,
        batch_end: BatchEnd = unknown_end,
    ) -> None:
        """Continue from `cursor` on a topic that is durable up to `durable_end` (not included).

        `grace_s` is how long a Key-Shared consumer that is away keeps its keys; jitter is reckoned from `seed`.
        """
        self.generation = 0
        """How many seeks there were."""
        self.passed_over = PassedOver()
        self.acknowledged_s: float | None = None
        """Monotonic time of the last acknowledgement."""
        self._policy = policy
        self._seed = seed
        self._progress = Progress(cursor, durable_end)
        self._counted_from = durable_end - self._progress.lag
        self.failures = FailureCauses()
        self._goes_in_order = subscription_type in {SubscriptionType.EXCLUSIVE, SubscriptionType.FAILOVER}
        self._flow = _flow_for(subscription_type, self._progress, grace_s, batch_end)
        self._deliveries = self._flow.deliveries
        self._reports = Reports(self._deliveries, is_shared=subscription_type is SubscriptionType.SHARED)
        self._exhausted = ExhaustedDeliveries()
        self._consumers: dict[int, AttachedConsumer] = {}
        self._timer_s = NEVER_S

    def handle(self, event: Event, now_s: float) -> list[Instruction]:
        """Handle an event at this monotonic time; answers the instructions, in this order.

        Raises InvalidRequestError when a consumer attaches with a window or quantum below 1, or with wrong filters.
        """
        self._deliveries.now_s = now_s
        self._apply(event, now_s)
        instructions = self._send(now_s + self._policy.ack_timeout_s)
        progress, exhausted = self._progress, self._exhausted
        if exhausted.has_any and self._policy.dead_letter_topic is not None:
            instructions += exhausted.ask(now_s, self._attempts, self._policy.dead_letter_topic)
        if progress.changed:
            progress.changed = False
            instructions.append(SaveCursor(progress.cursor))
        if self._reports.asks:
            instructions += self._reports.asks
            self._reports.asks.clear()
        due_s = self._deliveries.due_before(self._timer_s)
        if exhausted.has_any or self._flow.due_s < self._timer_s:
            due_s = self._due_before_timer()
        if due_s is not None:
            self._timer_s = due_s
            instructions.append(SetTimer(due_s))
        return instructions

    def still_wanted(self, send: Send) -> list[Send]:
        """The valid rest of an earlier instruction: neither answered, nor taken back, nor sent again.

        Instructions from before a Seek are not known to be such: forget them when it is handled.
        """
        consumer = self._consumers.get(send.consumer_id)
        if consumer is None:
            return []
        return [
            Send(send.consumer_id, max(send.start, each.start), min(send.end, each.end), send.attempt)
            for each in self._deliveries.held_by(consumer, send.start, send.end)
            if each.attempt == send.attempt
        ]

    def is_overdue(self, sends: Iterable[Send], now_s: float) -> bool:
        """Tell whether the acknowledgement of any of these, as far as still valid, is overdue."""
        return any(
            each.at_s <= now_s and each.attempt == send.attempt
            for send in sends
            if (consumer := self._consumers.get(send.consumer_id)) is not None
            for each in self._deliveries.held_by(consumer, send.start, send.end)
        )

    def validate(self) -> None:
        """Check every invariant, in O(everything); raises InternalError that names those that do not hold."""
        problems = list(self._problems())
        if problems:
            raise InternalError("dispatch is in a wrong state: " + "; ".join(problems))

    def _send(self, deadline_s: float) -> list[Instruction]:
        """Hand out what can be handed out, a step at a time while there is something that failed before a restart."""
        sends: list[Instruction] = []
        others: list[Instruction] = []
        while True:
            exhausted, recalled = self._exhausted, self._progress.recalled
            is_stopped = exhausted.has_any and (bool(exhausted.blocked) or exhausted.is_at_bound)
            handed_out = self._flow.send(deadline_s, is_stopped=is_stopped)
            left = recalled.count() if recalled else 0
            if not (left or sends or others):
                return handed_out
            for each in handed_out:
                if not isinstance(each, Send):
                    others.append(each)
                    continue
                kept, refused = judge_recalled(each, self._progress, self._policy)
                for send in kept:
                    add_send(sends, send)
                for span, decision in refused:
                    for part, _ in self._deliveries.attempts(*span):
                        self._exhaust(part.start, part.end, decision, RECALLED_REASON)
            if left == recalled.count():
                return sends + others

    def _attempts(self, offset: int) -> int:
        """The number of sends of an exhausted message, as far as known after a restart."""
        sent = self._deliveries.attempt(offset, DeliveryState.EXHAUSTED) or 0
        return max(sent, self._progress.failed.of(offset, offset + 1)[0].failures)

    def _apply(self, event: Event, now_s: float) -> None:
        """Apply an event; one about something unknown changes nothing."""
        match event:
            case Acknowledged():
                if event.generation is None or event.generation == self.generation:
                    self.acknowledged_s = now_s
                    self._flow.acknowledge(event.start, event.end)
                    if self._exhausted.has_any:
                        self._exhausted.remove(event.start, event.end)
            case Appended():
                self._progress.durable_end = max(self._progress.durable_end, event.durable_end)
            case Nacked():
                self._nack(event, now_s)
            case TimerFired():
                self._let_time_pass(event, now_s)
            case ConsumerPaused():
                self._set_paused(event.consumer_id, is_paused=True)
            case ConsumerResumed():
                self._set_paused(event.consumer_id, is_paused=False, turn_max=event.turn_max)
            case ConsumerAttached():
                self._attach(event, now_s)
            case ConsumerDetached():
                self._blame_oldest(event, now_s)
                self._detach(event.consumer_id, now_s)
            case KeysRead():
                self._flow.keys_read(event.runs)
            case _:
                self._govern(event, now_s)

    def _govern(self, event: _Governing, now_s: float) -> None:
        """Apply decisions of administrators and policies, and what consumers report."""
        match event:
            case Reported():
                self._reported(event, now_s)
            case PolicyChanged():
                self._policy = event.policy
                for span in self._exhausted.undecided():
                    self._judge_anew(*span)
            case WindowChanged():
                self._change_window(event.window)
            case Seek():
                self._seek(event.position)
            case SkipRange():
                self._skip(event)
            case SkipBlocked():
                for span in self._blocked(event.offset):
                    self.passed_over.skipped += span.end - span.start
                    self._finish(*span)
            case RetryBlocked():
                for span in self._blocked(event.offset):
                    self._revive(*span)
            case _:
                self._dead_letter_answered(event, now_s)

    def _dead_letter_answered(self, event: DeadLettered | DeadLetterFailed, now_s: float) -> None:
        if not self._exhausted.is_under_way(event.offset):
            return
        if isinstance(event, DeadLettered):
            self.passed_over.dead_lettered += 1
            self._finish(event.offset, event.offset + 1)
        else:
            self._dead_letter_failed(event.offset, now_s)

    def _let_time_pass(self, fired: TimerFired, now_s: float) -> None:
        self._timer_s = NEVER_S
        for unsent in [part for send in fired.taken_back for part in self.still_wanted(send)]:
            self._deliveries.take_back(unsent.start, unsent.end)
        self._deliveries.come_due(now_s, lambda due: self._overdue(due, now_s))
        self._flow.expire(now_s)

    def _overdue(self, due: Delivery, now_s: float) -> None:
        if not self._reports.has_time(due, self._consumers.values(), self._policy.ack_timeout_s, now_s):
            self._time_out(due.start, due.end, now_s)

    def _reported(self, event: Reported, now_s: float) -> None:
        consumer = self._consumers.get(event.consumer_id)
        if consumer is not None:
            for span in self._reports.apply(consumer, event.report, self._policy.ack_timeout_s, now_s):
                self._time_out(*span, now_s)

    def _time_out(self, start: int, end: int, now_s: float) -> None:
        self.failures.timed_out += end - start
        self._blame(start, end)
        self._fail(start, end, now_s)

    def _blame(self, start: int, end: int) -> None:
        """Note the consumer if the message at the position failed there."""
        position = self._progress.position
        if start <= position < end and (holder := self._deliveries.holder(position)) is not None:
            self.failures.blame(position, holder.consumer_id)

    def _nack(self, event: Nacked, now_s: float) -> None:
        """A late one, for a message that is not in flight (any more), does not change when it is sent again."""
        if event.generation is not None and event.generation != self.generation:
            return
        end = event.offset + 1 if event.end is None else event.end
        for span in self._deliveries.in_flight_spans(event.offset, end):
            self._blame(*span)
            self._deliveries.nacked(*span)
            self._fail(*span, now_s, event)

    def _blame_oldest(self, lost: ConsumerDetached, now_s: float) -> None:
        """Count a failure of the message that a lost consumer had longest: it may have crashed the consumer.

        It is sent again in order, where all go to one consumer; else at once the first time, since connections break.
        """
        for unsent in [part for send in lost.unsent for part in self.still_wanted(send)]:
            self._deliveries.take_back(unsent.start, unsent.end)
        consumer = self._consumers.get(lost.consumer_id)
        if consumer is not None:
            self.failures.disconnected += consumer.in_flight
        if not (lost.is_lost and self._policy.disconnects_fail and consumer is not None and consumer.held):
            return
        offset = min((each.number, each.start) for each in consumer.held)[1]
        self._blame(offset, offset + 1)
        (failed,) = self._progress.fail(offset, offset + 1)
        decision = verdict(failed.failures, self._policy)
        if decision is not Verdict.RETRY:
            self._exhaust(offset, offset + 1, decision, DISCONNECT_REASON)
        elif failed.failures > 1 and not self._goes_in_order:
            self._back_off(offset, offset + 1, failed.failures - 1, now_s)

    def _fail(self, start: int, end: int, now_s: float, nack: Nacked | None = None) -> None:
        """Messages of one range in flight were refused or timed out."""
        reason = "" if nack is None else nack.reason or NACK_REASON
        for low, high, failures in self._progress.fail(start, end):
            decision = verdict(failures, self._policy)
            if decision is Verdict.RETRY:
                self._back_off(low, high, failures, now_s, None if nack is None else nack.delay_s)
            else:
                self._exhaust(low, high, decision, reason)

    def _back_off(self, start: int, end: int, failures: int, now_s: float, asked_s: float | None = None) -> None:
        chance = self._chance(start, failures) if self._policy.jitter else 0.0
        self._deliveries.back_off(start, end, now_s + delay_s(failures, self._policy, asked_s, chance))

    def _exhaust(self, start: int, end: int, decision: Verdict, reason: str) -> None:
        """Messages of one range in flight failed too often."""
        self._deliveries.exhaust(start, end)
        if decision is Verdict.DROP:
            self._drop(start, end)
        elif decision is Verdict.BLOCK:
            self._exhausted.block(start, end, reason)
        else:
            self._exhausted.queue_dead_letter(start, end, reason)

    def _judge_anew(self, start: int, end: int) -> None:
        """Judge exhausted messages by the current policy."""
        for low, high, failures in self._progress.failed.of(start, end):
            decision = verdict(failures, self._policy)
            if decision is Verdict.RETRY:
                self._revive(low, high)
            elif decision is Verdict.DROP:
                self._drop(low, high)
            else:
                self._exhausted.move(low, high, is_blocked=decision is Verdict.BLOCK)

    def _dead_letter_failed(self, offset: int, now_s: float) -> None:
        """Try again after a back-off of its own, by the policy of now."""
        if self._policy.poison is not PoisonPolicy.DEAD_LETTER:
            self._judge_anew(offset, offset + 1)
            return
        failures = self._exhausted.failures(offset)
        chance = self._chance(offset, failures) if self._policy.jitter else 0.0
        held_back_s = max(DEAD_LETTER_RETRY_S, delay_s(failures, self._policy, None, chance))
        self._exhausted.ask_again(offset, now_s + held_back_s)

    def _chance(self, offset: int, attempt: int) -> float:
        """A number from 0 to 1 that is another one for each message and attempt, and no secret."""
        return (((self._seed ^ offset) * 64 + attempt) * _SPREAD >> 32 & 0xFFFFFFFF) / 2**32

    def _finish(self, start: int, end: int) -> None:
        """Messages that were sent count as acknowledged."""
        self._flow.finish(start, end)
        self._drop_exhausted(start, end)

    def _drop(self, start: int, end: int) -> None:
        self.passed_over.dropped += end - start
        self._finish(start, end)

    def _revive(self, start: int, end: int) -> None:
        self._exhausted.remove(start, end)
        self._deliveries.revive(start, end)

    def _drop_exhausted(self, start: int, end: int) -> None:
        if self._exhausted.has_any:
            self._exhausted.remove(start, end)

    def _blocked(self, offset: int | None) -> list[OffsetRange]:
        if offset is None:
            return list(self._exhausted.blocked)
        return self._exhausted.blocked.overlap(offset, offset + 1)

    def _seek(self, position: int) -> None:
        self.generation += 1
        self._exhausted = ExhaustedDeliveries()
        before = self._progress.lag
        self._flow.seek(max(0, min(position, self._progress.durable_end)))
        self._counted_from += before - self._progress.lag

    def _skip(self, event: SkipRange) -> None:
        start, end = max(event.start, self._progress.position), min(event.end, self._progress.durable_end)
        if start >= end:
            return
        before = self._progress.lag
        self._flow.skip(start, end)
        self._drop_exhausted(start, end)
        count, passed = before - self._progress.lag, self.passed_over
        match event.reason:
            case SkipReason.SKIPPED:
                passed.skipped += count
            case SkipReason.EXPIRED:
                passed.expired += count
            case SkipReason.TRIMMED:
                passed.trimmed += count

    def _attach(self, event: ConsumerAttached, now_s: float) -> None:
        """A consumer that is attached already starts over: its former stream is gone, and so is what was on it."""
        if event.window < 1 or event.quantum < 1:
            raise InvalidRequestError(f"{event} would never be served: window and quantum must be at least 1")
        check_filters(event.filters)
        self._detach(event.consumer_id, now_s)
        window, quantum = event.window, event.quantum
        consumer = AttachedConsumer(
            event.consumer_id, window, quantum, quantum, event.is_paused, allowed=window, by_batch=event.by_batch
        )
        consumer.turn_max, consumer.reports, consumer.sign_s = event.turn_max, event.reports, now_s
        self._consumers[event.consumer_id] = consumer
        self._flow.attach(consumer, event.filters)
        self._flow.refresh(consumer)

    def _detach(self, consumer_id: int, now_s: float) -> None:
        consumer = self._consumers.pop(consumer_id, None)
        if consumer is not None:
            self._flow.detach(consumer, now_s)

    def _set_paused(self, consumer_id: int, *, is_paused: bool, turn_max: int = 0) -> None:
        consumer = self._consumers.get(consumer_id)
        if consumer is not None:
            consumer.is_paused, consumer.turn_max = is_paused, turn_max
            self._flow.refresh(consumer)

    def _change_window(self, window: int) -> None:
        if window < 1:
            raise InvalidRequestError(f"a window of {window} would never be served: it must be at least 1")
        for consumer in self._consumers.values():
            consumer.change_window(window)
            self._flow.refresh(consumer)

    def _due_before_timer(self) -> float | None:
        """The time at which the engine must be woken, if before the timer."""
        due_s = self._deliveries.due_before(self._timer_s)
        other_s = self._flow.due_s
        if self._exhausted.has_any:
            other_s = min(other_s, self._exhausted.due_s)
        if other_s < (self._timer_s if due_s is None else due_s):
            return other_s
        return due_s

    def _problems(self) -> Iterator[str]:
        yield from self._deliveries.problems()
        yield from self._progress.problems()
        yield from self._flow.problems()
        yield from self._exhausted.problems(self._deliveries)
        open_spans = RangeSet(self._deliveries.spans())
        position, beyond = self._progress.position, self._progress.beyond
        if list(open_spans) != beyond.gaps(position, self.next_offset):
            yield f"{open_spans} is open, but {position} and {beyond} are acknowledged of {self.next_offset}"
        for consumer in self._consumers.values():
            held = sum(each.end - each.start for each in consumer.held)
            if consumer.in_flight != held or held > consumer.allowed:
                yield f"consumer {consumer.consumer_id} has {held} of {consumer.allowed}, counted {consumer.in_flight}"
        if self.in_flight != self._deliveries.messages(DeliveryState.IN_FLIGHT):
            yield "messages are in flight to a consumer that is not attached"
        if self._due_before_timer() is not None:
            yield f"something is due before the timer at {self._timer_s}"


def _flow_for(subscription_type: SubscriptionType, progress: Progress, grace_s: float, batch_end: BatchEnd) -> Flow:
    if subscription_type is SubscriptionType.KEY_SHARED:
        return KeySharedFlow(progress, grace_s)
    return OrderedFlow(subscription_type, progress, batch_end)
