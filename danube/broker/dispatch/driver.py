"""Dispatch driver: passes events to the engine and carries out its instructions, the only part that waits.

Messages leave in the order in which the engine sent them to a consumer. A consumer whose stream has no room is paused
in the engine; what it was sent already waits here, bounded by its window. Batches that are not in memory are read in
the background, one read at a time for the subscription, so that a replay delays no other subscription.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from danube.broker.dispatch.engine import DispatchEngine
from danube.broker.dispatch.events import (
    Acknowledged,
    AskReport,
    ConsumerAttached,
    ConsumerDetached,
    ConsumerPaused,
    ConsumerResumed,
    DeadLetter,
    DeadLetterFailed,
    EndSilent,
    Event,
    Instruction,
    KeysRead,
    Nacked,
    ReadKeys,
    Reported,
    SaveCursor,
    Seek,
    Send,
    SetTimer,
    SkipRange,
    SkipReason,
    TimerFired,
)
from danube.broker.dispatch.outlets import BatchOutlet, BatchStream, BatchWindow, BatchWindows, MessageOutlet, Outlet
from danube.broker.dispatch.redelivery import RedeliveryPolicy
from danube.metadata.records.catalog import SubscriptionRecord
from danube.model.calls.consume import ConsumeUpdate
from danube.model.errors import DanubeError, OffsetTrimmedError
from danube.model.limits.broker import KEY_SHARED_GRACE_S, READ_BYTES_MAX, RECEIVE_FAILURE_DELAY_S
from danube.model.ranges import OffsetRange, RangeSet
from danube.model.subscription import Cursor
from danube.rpc.carrier import ServerStream
from danube.runtime.clock import Clock, TimerHandle
from danube.runtime.tasks import TaskScope
from danube.storage.batches.placeholder import is_placeholder
from danube.storage.batches.stored_batch import StoredBatch
from danube.storage.log.topic_log import TopicLog

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatchSettings:
    """Dispatch of all subscriptions of a broker, where they set nothing themselves."""

    window: int
    """The most messages that one consumer may have unacknowledged."""
    policy: RedeliveryPolicy
    grace_s: float = KEY_SHARED_GRACE_S
    """Seconds for which a disconnected Key-Shared consumer keeps its keys."""
    windows: BatchWindows = field(default_factory=BatchWindows)
    """Messages of all of them that were read and not sent."""

    def window_of(self, record: SubscriptionRecord) -> int:
        """The window of a subscription's consumers."""
        return self.window if record.window is None else record.window

    def policy_of(self, record: SubscriptionRecord) -> RedeliveryPolicy:
        """The redelivery policy of a subscription."""
        policy = record.failure_policy
        return self.policy.with_policy(policy) if policy else self.policy


@dataclass(slots=True)
class DeliveryCounts:
    """Messages written to consumers, redeliveries included."""

    messages: int = 0
    bytes: int = 0
    redelivered: int = 0


class DispatchDriver:
    """Dispatch of one reliable subscription."""

    def __init__(
        self,
        log: TopicLog,
        subscription_id: int,
        engine: DispatchEngine,
        *,
        clock: Clock,
        tasks: TaskScope,
        on_unreadable: Callable[[int], None],
        on_dead_letter: Callable[[DeadLetter], None] | None = None,
        on_blocked: Callable[[], None] | None = None,
        on_silent: Callable[[int], None] | None = None,
        windows: BatchWindows | None = None,
    ) -> None:
        """`on_unreadable` gets the id of a consumer whose messages cannot be read: its stream is to be ended.

        `on_silent` gets the id of a consumer that does not report: it is lost.
        `on_blocked` is called whenever the subscription becomes blocked, and when it is not blocked any more.
        """
        self.engine = engine
        self.on_dead_letter = on_dead_letter
        """Copies a message, and calls `handle` with DeadLettered or DeadLetterFailed later; without it all fail."""
        self._on_unreadable = on_unreadable
        self._on_blocked = on_blocked
        self._on_silent = on_silent
        self._was_blocked = False
        self._logged_unreadable: str | None = None
        self.counts = DeliveryCounts()
        self._topic_log = log
        self._subscription_id = subscription_id
        self._clock = clock
        self._tasks = tasks
        self._outlets: dict[int, Outlet] = {}
        self._left: dict[int, RangeSet] = {}
        """Messages that streaming consumers without a stream have seen and not answered."""
        self._written: deque[int] = deque()
        """Streaming consumers to whom everything was written, and who have room."""
        self._collecting: set[BatchOutlet] = set()
        self._is_settling = False
        windows = windows or BatchWindows()
        self._window = BatchWindow(windows)
        self._key_window = BatchWindow(windows)
        """Keys are read ahead of what is sent, so the two would push each other's batches out."""
        self._keys_wanted: ReadKeys | None = None
        self._is_reporting = False
        self._reading = False
        self._timer: TimerHandle | None = None
        self._closed = False

    def attach(self, consumer_id: int, stream: ServerStream, window: int, filters: tuple[str, ...] = ()) -> None:
        """A consumer's stream opened; a former stream of the same consumer must have been detached."""
        left = self._left.pop(consumer_id, None)
        by_batch = isinstance(stream, BatchStream)
        outlet: Outlet
        if isinstance(stream, BatchStream):
            outlet = BatchOutlet(stream, lambda: self.engine.generation, left)
            outlet.paused = outlet.room <= 0
        else:
            outlet = MessageOutlet(stream, self._window)
        self._outlets[consumer_id] = outlet
        attached = ConsumerAttached(
            consumer_id,
            window,
            filters=filters,
            by_batch=by_batch,
            is_paused=outlet.paused,
            turn_max=outlet.messages_max,
            reports=isinstance(stream, BatchStream) and stream.reports,
        )
        self.handle(attached)

    def answer(self, consumer_id: int, update: ConsumeUpdate) -> int:
        """A streaming consumer answers messages that it has seen; answers how many it refused."""
        outlet, refused = self._outlets.get(consumer_id), 0
        if not isinstance(outlet, BatchOutlet):
            return refused
        outlet.saw(update.answers_seen)
        if update.generation == self.engine.generation:
            below = [] if update.acknowledged_below is None else [OffsetRange(0, update.acknowledged_below)]
            for span in outlet.answered([*below, *update.acknowledged]):
                self.handle(Acknowledged(*span))
            for nacked in update.nacked:
                for start, end in outlet.answered([OffsetRange(nacked.start, nacked.end)]):
                    refused += end - start
                    self.handle(Nacked(start, nacked.delay_s, nacked.reason, end=end))
            if update.report is not None:
                returned = tuple(outlet.answered(update.report.returned))
                self.handle(Reported(consumer_id, replace(update.report, returned=returned)))
        self.ready(consumer_id)
        return refused

    def assign_next(self, leaving_id: int) -> None:
        """Tell a streaming consumer that it gets messages, being the first when this one has left."""
        for each in [each for each in self.engine.consumers if each.consumer_id != leaving_id][:1]:
            outlet = self._outlets.get(each.consumer_id)
            if isinstance(outlet, BatchOutlet):
                outlet.assign()

    def forget(self, consumer_id: int) -> None:
        """A consumer without a stream will not come back."""
        self._left.pop(consumer_id, None)

    def detach(self, consumer_id: int, *, is_lost: bool = False) -> None:
        """A consumer's stream ended, `is_lost` without anybody's wish: what it had not acknowledged is sent again."""
        outlet = self._outlets.pop(consumer_id, None)
        if outlet is None:
            return
        if isinstance(outlet, BatchOutlet) and (left := outlet.left()):
            self._left[consumer_id] = left
        if not self._outlets:
            self._clear_windows()
        self.handle(ConsumerDetached(consumer_id, is_lost=is_lost, unsent=tuple(outlet.waiting) if is_lost else ()))

    def ready(self, consumer_id: int) -> None:
        """A consumer's stream has room again."""
        outlet = self._outlets.get(consumer_id)
        if outlet is None:
            return
        self._pump(consumer_id, outlet)
        if outlet.paused and outlet.room > 0 and not (outlet.waiting and isinstance(outlet, BatchOutlet)):
            outlet.paused = False
            self.handle(ConsumerResumed(consumer_id, outlet.messages_max))
        self._settle()

    def handle(self, event: Event) -> None:
        """Handle an event and carry out the engine's instructions; nothing after `close()`."""
        if self._closed:
            return
        instructions = self.engine.handle(event, self._clock.monotonic_s())
        if self.engine.is_blocked is not self._was_blocked:
            self._was_blocked = not self._was_blocked
            if self._on_blocked is not None:
                self._on_blocked()
        if isinstance(event, Seek):
            self._clear_waiting()
        self._follow(instructions)
        self._settle()

    def _settle(self) -> None:
        """Continue where everything was written, in one level of calls, and send what was collected."""
        if self._is_settling:
            return
        self._is_settling = True
        try:
            while self._written:
                consumer_id = self._written.popleft()
                outlet = self._outlets.get(consumer_id)
                if outlet is not None and outlet.paused and not outlet.waiting and outlet.room > 0:
                    outlet.paused = False
                    self.handle(ConsumerResumed(consumer_id, outlet.messages_max))
        finally:
            self._is_settling = False
            collecting, self._collecting = self._collecting, set()
            for each in collecting:
                each.flush()

    def _skip_placeholders(self, batches: Sequence[StoredBatch]) -> None:
        """Skip placeholder records of a repair, all of them before anything is written: sends may span several."""
        lost = [SkipRange(batch.base_offset, batch.end_offset) for batch in batches if is_placeholder(batch.body)]
        if not lost or self._closed:
            return
        now_s = self._clock.monotonic_s()
        instructions = [each for event in lost for each in self.engine.handle(event, now_s)]
        for outlet in self._outlets.values():
            outlet.delayed = True
        self._follow(instructions)

    def _follow(self, instructions: Iterable[Instruction]) -> None:
        touched: dict[int, Outlet] = {}
        later: list[Instruction] = []
        for instruction in instructions:
            match instruction:
                case Send():
                    outlet = self._outlets[instruction.consumer_id]
                    outlet.waiting.append(instruction)
                    outlet.paused = outlet.paused or isinstance(outlet, BatchOutlet)
                    touched[instruction.consumer_id] = outlet
                case SaveCursor():
                    self._save(instruction.cursor)
                case SetTimer():
                    self._set_timer(instruction.at_s)
                case _:
                    later.append(instruction)
        for consumer_id, outlet in touched.items():
            self._pump(consumer_id, outlet)
        for instruction in later:
            self._carry_out(instruction)

    def close(self) -> None:
        """Stop: no timer fires and nothing is written any more. Streams are the caller's to end."""
        self._closed = True
        self._set_timer(None)
        self._outlets.clear()
        self._clear_windows()

    def _carry_out(self, instruction: Instruction) -> None:
        """Instructions that cause new events; they come after all others."""
        if isinstance(instruction, ReadKeys):
            self._keys_wanted = instruction
            self._report_keys()
        elif isinstance(instruction, AskReport):
            outlet = self._outlets.get(instruction.consumer_id)
            if isinstance(outlet, BatchOutlet):
                outlet.ask(give_back=instruction.give_back)
        elif isinstance(instruction, EndSilent):
            if self._on_silent is not None:
                self._on_silent(instruction.consumer_id)
        elif isinstance(instruction, DeadLetter) and self.on_dead_letter is not None:
            self.on_dead_letter(instruction)
        elif isinstance(instruction, DeadLetter):
            self.handle(DeadLetterFailed(instruction.offset))

    def _report_keys(self) -> None:
        """Report keys while the engine wants some and they are in memory, in one level of calls."""
        if self._is_reporting:
            return
        self._is_reporting = True
        while (wanted := self._keys_wanted) is not None and not self._closed:
            batch = self._batch_at(wanted.start, self._key_window)
            if batch is None:
                break
            self._keys_wanted = None
            self.handle(KeysRead(self._key_window.keys(batch, wanted.start, min(wanted.end, batch.end_offset))))
        self._is_reporting = False

    def _clear_waiting(self) -> None:
        """Drop what was sent before a seek."""
        for outlet in self._outlets.values():
            outlet.waiting.clear()
            if isinstance(outlet, BatchOutlet):
                outlet.forget()
        self._left.clear()
        self._written.extend(self._outlets)
        self._clear_windows()  # lost messages are passed over when they are read, and count as unread again

    def _clear_windows(self) -> None:
        self._window.clear()
        self._key_window.clear()

    def _save(self, cursor: Cursor) -> None:
        self._topic_log.save_cursor(self._subscription_id, cursor)
        if cursor.position >= self._topic_log.durable_end:
            self._clear_windows()  # nothing is left to send: an idle subscription keeps no batches in memory

    def _set_timer(self, at_s: float | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if at_s is None else self._clock.call_at(at_s, self._timer_fired)

    def _timer_fired(self) -> None:
        self._timer = None
        self.handle(TimerFired(tuple(self._take_back_overdue())))

    def _take_back_overdue(self) -> Iterator[Send]:
        """Sends that wait for longer than the timeout: a consumer cannot acknowledge what it was never sent.

        Everything that waits for that consumer is included, which keeps the order.
        """
        now_s = self._clock.monotonic_s()
        for consumer_id, outlet in self._outlets.items():
            if self.engine.is_overdue(outlet.waiting, now_s):
                yield from outlet.waiting
                outlet.waiting.clear()
                self._written.append(consumer_id)

    def _pump(self, consumer_id: int, outlet: Outlet) -> None:
        """Write what waits for one consumer, as far as its stream has room and the batches are at hand."""
        if outlet.delayed:
            wanted = [part for send in outlet.waiting for part in self.engine.still_wanted(send)]
            outlet.waiting = deque(wanted)
        outlet.delayed = True
        while outlet.waiting:
            if outlet.room <= 0:
                self._pause(consumer_id, outlet)
                return
            send = outlet.waiting[0]
            batch = self._batch_at(send.start, self._window)
            if batch is None:
                return
            written = self._write(outlet, batch, send)
            if written == send.end:
                outlet.waiting.popleft()
            else:
                outlet.waiting[0] = Send(consumer_id, written, send.end, send.attempt)
        outlet.delayed = False
        if outlet.paused and isinstance(outlet, BatchOutlet):
            self._written.append(consumer_id)

    def _write(self, outlet: Outlet, batch: StoredBatch, send: Send) -> int:
        """Write what this batch has of `send` while there is room; answers the offset after the last one written."""
        offset, size = outlet.write(batch, send)
        if isinstance(outlet, BatchOutlet):
            self._collecting.add(outlet)
        self.counts.messages += offset - send.start
        self.counts.bytes += size
        if send.attempt > 1:
            self.counts.redelivered += offset - send.start
        return offset

    def _pause(self, consumer_id: int, outlet: Outlet) -> None:
        if not outlet.paused:
            outlet.paused = True
            self.handle(ConsumerPaused(consumer_id))

    def batch_end(self, offset: int) -> int | None:
        """The end of the batch with this offset, as far as memory knows it."""
        batch = self._window.batch_at(offset)
        if batch is None and not self._reading and (hot := self._topic_log.read_hot(offset, READ_BYTES_MAX)):
            self._window.put(hot)
            batch = self._window.batch_at(offset)
        return None if batch is None else batch.end_offset

    def _batch_at(self, offset: int, window: BatchWindow) -> StoredBatch | None:
        """The batch with this offset if it is at hand; otherwise it is on its way."""
        batch = window.batch_at(offset)
        if batch is not None or self._reading:
            return batch
        hot = self._topic_log.read_hot(offset, READ_BYTES_MAX)
        if hot is None and self._tasks.closed:  # the broker stops: nothing more is sent
            return None
        if hot is None:
            self._reading = True
            self._tasks.spawn(self._read(offset, window), f"read from {offset}")
            return None
        window.put(hot)
        return window.batch_at(offset)

    async def _read(self, offset: int, window: BatchWindow) -> None:
        try:
            batches = await self._topic_log.read(offset, READ_BYTES_MAX)
        except OffsetTrimmedError as error:
            self._reading = False
            self._continue_from(error.start_offset)
            return
        except DanubeError as error:
            self._log_unreadable(offset, error)
            self._clock.call_at(self._clock.monotonic_s() + RECEIVE_FAILURE_DELAY_S, self._fail_waiting)
            return
        self._reading = False
        window.put(batches)
        self._skip_placeholders(batches)
        self._pump_all()

    def _log_unreadable(self, offset: int, error: DanubeError) -> None:
        """Once, however often consumers ask for it."""
        what = f"offset {offset} of topic id {self._topic_log.topic_id} cannot be read: {error}"
        if what != self._logged_unreadable:
            _log.error("%s", what)
        self._logged_unreadable = what

    def _continue_from(self, start_offset: int) -> None:
        """Retention has trimmed what was to be read."""
        self.handle(SkipRange(0, start_offset, SkipReason.TRIMMED))
        if self._keys_wanted is not None and self._keys_wanted.start < start_offset:
            self._keys_wanted = None
            self.handle(KeysRead(()))  # ask again, from where it stands now
        self._pump_all()

    def _pump_all(self) -> None:
        for consumer_id, outlet in list(self._outlets.items()):
            if self._outlets.get(consumer_id) is outlet:
                self._pump(consumer_id, outlet)
        self._settle()
        self._report_keys()

    def _fail_waiting(self) -> None:
        """End the streams that wait for unreadable messages; late, since clients open them again at once."""
        self._reading = False
        is_keyless = self._keys_wanted is not None
        for consumer_id in [each for each, outlet in self._outlets.items() if outlet.waiting or is_keyless]:
            self._on_unreadable(consumer_id)
