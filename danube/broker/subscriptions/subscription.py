"""Subscriptions of a topic, reliable and non-reliable, and their consumers.

A consumer is its name: the same name gets the same id, and a second stream for an id replaces the first.
"""

import logging
import shlex
from abc import ABC, abstractmethod
from collections import deque
from dataclasses import dataclass, field

from danube.broker.dispatch.driver import DeliveryCounts, DispatchDriver, DispatchSettings
from danube.broker.dispatch.engine import DispatchEngine
from danube.broker.dispatch.events import Acknowledged, Appended, Nacked, SkipRange, SkipReason
from danube.broker.dispatch.outlets import BatchStream
from danube.broker.dispatch.selection.non_reliable import NonReliableSelection
from danube.broker.rates.rates import TokenBucket
from danube.broker.subscriptions.consumer import Consumer
from danube.metadata.records.catalog import ConsumerRecord, SubscriptionRecord
from danube.model.calls.consume import ConsumeUpdate
from danube.model.errors import (
    ConsumerReplacedError,
    DanubeError,
    LimitReachedError,
    StorageUnavailableError,
    SubscriptionBusyError,
    UnavailableError,
)
from danube.model.limits.broker import (
    CONSUMERS_PER_SUBSCRIPTION_MAX,
    NAME_CONFLICT_WAIT_MAX_S,
    NON_RELIABLE_QUEUE_BYTES_MAX,
    NON_RELIABLE_QUEUE_MESSAGES_MAX,
)
from danube.model.limits.stream import CONSUME_MESSAGES_MAX
from danube.model.subscription import Cursor, SubscriptionType
from danube.rpc.carrier import ServerStream
from danube.runtime.clock import Clock
from danube.runtime.tasks import TaskScope
from danube.storage.log.topic_log import TopicLog

_log = logging.getLogger(__name__)


class Subscription(ABC):
    """Consumers of one subscription; subclasses decide which of them gets a message."""

    def __init__(self, record: SubscriptionRecord, clock: Clock) -> None:
        self.record = record
        self.consumers: dict[str, Consumer] = {}
        self.counts = DeliveryCounts()
        self.idle_since_s = clock.monotonic_s()
        self._clock = clock
        self._pace = TokenBucket(0, 0.0)

    def pace(self, rate: int, now_s: float) -> TokenBucket:
        """Messages that its streams may get at this dispatch rate, which is that of now."""
        if rate != self._pace.rate:
            self._pace = TokenBucket(rate, now_s)
        return self._pace

    def restore(self, record: ConsumerRecord) -> Consumer:
        """Restore a consumer after a restart: it may open its stream again without subscribing."""
        consumer = Consumer(
            record.name, record.consumer_id, self._clock.monotonic_s(), record.key_filters, attached_before=True
        )
        self.consumers[consumer.name] = consumer
        return consumer

    def subscribe(self, name: str, consumer_id: int, filters: tuple[str, ...] = ()) -> Consumer:
        """Add a consumer; one of the same name is replaced, with the current filters.

        Raises:
            SubscriptionBusyError: the subscription is exclusive and another consumer is connected.
            LimitReachedError: it has its maximum of consumers.
        """
        now_s = self._clock.monotonic_s()
        if self.record.type is SubscriptionType.EXCLUSIVE:
            self._refuse_while_busy(name, now_s)
        consumer = self.consumers.get(name)
        if consumer is None:
            if len(self.consumers) >= CONSUMERS_PER_SUBSCRIPTION_MAX:
                raise LimitReachedError(
                    f"subscription {self.record.name!r} has {CONSUMERS_PER_SUBSCRIPTION_MAX} consumers, the most it may"
                )
            consumer = self.consumers[name] = Consumer(name, consumer_id, now_s)
        consumer.subscribed(now_s, filters)
        return consumer

    def hold_off_s(self, consumer: Consumer, address: str) -> float:
        """Seconds that a client at this address waits before it may `attach`; 0 unless clients share a name."""
        now_s = self._clock.monotonic_s()
        if consumer.stream is None:
            return 0.0
        wait_s = consumer.conflict.wait_s(now_s, is_new=not consumer.attached_before)
        if wait_s:
            consumer.conflict.hold_off(now_s, address)
        if 0 < wait_s < NAME_CONFLICT_WAIT_MAX_S:
            _log.warning(
                "%s: a client at %s wants the place of the one at %s and waits %.1f s: give each a name of its own, or "
                "stop one of them",
                self._name_of(consumer),
                address,
                consumer.stream.caller.address,
                wait_s,
            )
        return wait_s

    def attach(self, consumer: Consumer, stream: ServerStream) -> None:
        """Open a consumer's stream; an older one of the same consumer is replaced.

        Raises:
            SubscriptionBusyError.
            ConsumerReplacedError: another client replaced the consumer a short while ago, and is still connected.
        """
        now_s = self._clock.monotonic_s()
        if self.record.type is SubscriptionType.EXCLUSIVE:
            self._refuse_while_busy(consumer.name, now_s)
        if consumer.stream is not None:
            self._take_over(consumer, consumer.stream, stream.caller.address, now_s)
        consumer.stream = stream
        consumer.attached_before = True
        stream.open()
        self._opened(consumer, stream)

    def detach(self, consumer: Consumer, stream: ServerStream, *, is_lost: bool = False) -> ServerStream:
        """End the consumer's stream, `is_lost` if nobody ended it on purpose. Answers the stream.

        A stream that is not the consumer's current one changes nothing.
        """
        if consumer.stream is stream:
            consumer.stream = None
            consumer.seen_s = self.idle_since_s = self._clock.monotonic_s()
            self._closed(consumer, is_lost=is_lost)
        return stream

    def forget(self, consumer: Consumer) -> None:
        """Remove a consumer without a stream."""
        self.consumers.pop(consumer.name, None)

    @property
    def is_blocked(self) -> bool:
        """True if exhausted messages block later ones."""
        return False

    def connected(self) -> int:
        """The number of consumers with an open stream."""
        return sum(consumer.stream is not None for consumer in self.consumers.values())

    def is_idle(self, now_s: float, idle_s: float) -> bool:
        """True if no consumer has been connected for `idle_s` seconds."""
        return now_s >= self.idle_since_s + idle_s and not any(
            consumer.is_connected(now_s) for consumer in self.consumers.values()
        )

    def _take_over(self, consumer: Consumer, older: ServerStream, address: str, now_s: float) -> None:
        if consumer.attached_before and consumer.conflict.is_on(now_s):
            raise self._replaced(consumer, older.caller.address)
        loser = older.caller.address
        consumer.conflict.taken_over(now_s, loser)
        _log.warning("%s: a client at %s took the place of the one at %s", self._name_of(consumer), address, loser)
        self.detach(consumer, older).fail(self._replaced(consumer, address))

    def _replaced(self, consumer: Consumer, address: str) -> ConsumerReplacedError:
        return ConsumerReplacedError(
            f"{self._name_of(consumer)} is attached from {address} now: give each consumer a name of its own"
        )

    def _name_of(self, consumer: Consumer) -> str:
        return f"consumer {consumer.name!r} of subscription {self.record.name!r} on {self.record.topic}"

    def _refuse_while_busy(self, name: str, now_s: float) -> None:
        for other in self.consumers.values():
            if other.name != name and other.is_connected(now_s):
                raise SubscriptionBusyError(
                    f"subscription {self.record.name!r} on {self.record.topic} is exclusive and consumer "
                    f"{other.name!r} is connected: stop it, or subscribe under another subscription name"
                )

    @abstractmethod
    def acknowledge(self, offset: int) -> None:
        """Acknowledge one message; unknown and late ones change nothing."""

    @abstractmethod
    def nack(self, offset: int, delay_s: float | None, reason: str) -> None:
        """Negatively acknowledge one message, which is then sent again."""

    @abstractmethod
    def ready(self, consumer: Consumer) -> None:
        """Continue: a consumer's stream has room again."""

    @abstractmethod
    def close(self) -> None:
        """Stop delivery. The caller ends the streams."""

    @abstractmethod
    def _opened(self, consumer: Consumer, stream: ServerStream) -> None: ...

    @abstractmethod
    def _closed(self, consumer: Consumer, *, is_lost: bool = False) -> None: ...


class _UnreadTime:
    """The append time of the oldest unread message, kept while the position stays; only segments cost a read."""

    def __init__(self, log: TopicLog) -> None:
        self._log = log
        self._offset: int | None = None
        self._append_ms: int | None = None

    def at_hand(self, offset: int) -> int | None:
        """The append time of the record at this offset; None if there is none, or it must be read."""
        if offset != self._offset:
            found = self._log.append_time_at_hand(offset)
            if found is None:
                return None
            self._offset, self._append_ms = offset, found
        return self._append_ms

    def is_unknown(self, offset: int) -> bool:
        """True if the record exists and must be read."""
        return offset < self._log.durable_end and self.at_hand(offset) is None

    async def find(self, offset: int) -> None:
        """Read the append time; it stays unknown if the record cannot be read."""
        try:
            found = await self._log.append_time_ms(offset)
        except DanubeError:
            return
        if found is not None:
            self._offset, self._append_ms = offset, found


class ReliableSubscription(Subscription):
    """A subscription with a cursor over its topic's log."""

    def __init__(
        self,
        record: SubscriptionRecord,
        log: TopicLog,
        cursor: Cursor,
        *,
        clock: Clock,
        tasks: TaskScope,
        dispatch: DispatchSettings,
    ) -> None:
        super().__init__(record, clock)
        self._dispatch = dispatch
        policy, seed = dispatch.policy_of(record), record.subscription_id
        engine = DispatchEngine(
            record.type,
            cursor,
            log.durable_end,
            policy,
            grace_s=dispatch.grace_s,
            seed=seed,
            batch_end=self._batch_end,
        )
        self.driver = DispatchDriver(
            log,
            record.subscription_id,
            engine,
            clock=clock,
            tasks=tasks,
            on_unreadable=self._unreadable,
            on_blocked=self._log_blocked,
            on_silent=self._silent,
            windows=dispatch.windows,
        )
        self.counts = self.driver.counts
        self.nacked = 0
        self._unread_time = _UnreadTime(log)

    @property
    def is_blocked(self) -> bool:
        return self.driver.engine.is_blocked

    @property
    def oldest_unread_ms(self) -> int | None:
        """The append time of the message at the position; None if there is none, or it must be read."""
        return self._unread_time.at_hand(self.driver.engine.position)

    @property
    def must_read_unread_time(self) -> bool:
        """True if `oldest_unread_ms` needs `read_unread_time` first."""
        return self._unread_time.is_unknown(self.driver.engine.position)

    async def read_unread_time(self) -> None:
        """Read `oldest_unread_ms`, which holds until the position changes."""
        await self._unread_time.find(self.driver.engine.position)

    def wall_ms(self, monotonic_s: float) -> int:
        """A monotonic time on the clock of today."""
        return self._clock.now_ms() - round((self._clock.monotonic_s() - monotonic_s) * 1_000)

    def appended(self, durable_end: int) -> None:
        """Deliver messages below this durable end."""
        self.driver.handle(Appended(durable_end))

    def acknowledge(self, offset: int) -> None:
        self.driver.handle(Acknowledged(offset, offset + 1))

    def nack(self, offset: int, delay_s: float | None, reason: str) -> None:
        self.nacked += 1
        self.driver.handle(Nacked(offset, delay_s, reason))

    def answer(self, consumer: Consumer, update: ConsumeUpdate) -> None:
        """Apply a streaming consumer's answers."""
        self.nacked += self.driver.answer(consumer.consumer_id, update)

    def forget(self, consumer: Consumer) -> None:
        super().forget(consumer)
        self.driver.forget(consumer.consumer_id)

    def pass_over(self, end: int, reason: SkipReason) -> int:
        """Continue at `end` if the position is below; answers the number of unacknowledged messages passed over."""
        engine = self.driver.engine
        lag = engine.lag
        if engine.position < end:
            self.driver.handle(SkipRange(engine.position, end, reason))
        return lag - engine.lag

    def ready(self, consumer: Consumer) -> None:
        self.driver.ready(consumer.consumer_id)

    def close(self) -> None:
        self.driver.close()

    def _opened(self, consumer: Consumer, stream: ServerStream) -> None:
        window = self._dispatch.window_of(self.record)
        is_keyed = self.record.type is SubscriptionType.KEY_SHARED
        if isinstance(stream, BatchStream) and self.record.window is None and not is_keyed:
            window = CONSUME_MESSAGES_MAX  # what it has is bounded by its credit
        if isinstance(stream, BatchStream) and (not self._is_one_at_a_time or not self.driver.engine.consumers):
            stream.assign()
        self.driver.attach(consumer.consumer_id, stream, window, consumer.filters)

    def _closed(self, consumer: Consumer, *, is_lost: bool = False) -> None:
        if self._is_one_at_a_time:
            self.driver.assign_next(consumer.consumer_id)
        self.driver.detach(consumer.consumer_id, is_lost=is_lost)

    @property
    def _is_one_at_a_time(self) -> bool:
        return self.record.type in {SubscriptionType.EXCLUSIVE, SubscriptionType.FAILOVER}

    def _batch_end(self, offset: int) -> int | None:
        return self.driver.batch_end(offset)

    def _log_blocked(self) -> None:
        """Log once, however many messages block."""
        name, topic, blocked = self.record.name, self.record.topic, self.driver.engine.blocked
        if not blocked:
            _log.info("subscription %r on %s is not blocked any more", name, topic)
            return
        followers = "what follows with its key" if self.record.type is SubscriptionType.KEY_SHARED else "what follows"
        _log.warning(
            "subscription %r on %s is blocked: the message at offset %d failed as often as it may, and %s waits; have "
            "it sent again with `danube-admin topics retry-blocked %s`, or give it up with `danube-admin topics skip"
            " %s`",
            *(name, topic, blocked[0].start, followers),
            *(f"{topic} -s {shlex.quote(name)}",) * 2,
        )

    def _unreadable(self, consumer_id: int) -> None:
        error = StorageUnavailableError("stored messages cannot be read; the broker's log says why")
        self._end(consumer_id, error, is_lost=False)

    def _silent(self, consumer_id: int) -> None:
        error = UnavailableError("the client did not say in time what its application has: it stood still")
        self._end(consumer_id, error, is_lost=True)

    def _end(self, consumer_id: int, error: DanubeError, *, is_lost: bool) -> None:
        for consumer in self.consumers.values():
            if consumer.consumer_id == consumer_id and consumer.stream is not None:
                self.detach(consumer, consumer.stream, is_lost=is_lost).fail(error)


@dataclass(slots=True)
class _Queue:
    """Messages that wait for one consumer of a non-reliable subscription."""

    messages: deque[bytes] = field(default_factory=deque)
    size: int = 0
    """Bytes."""

    def has_room(self) -> bool:
        return len(self.messages) < NON_RELIABLE_QUEUE_MESSAGES_MAX and self.size < NON_RELIABLE_QUEUE_BYTES_MAX


class NonReliableSubscription(Subscription):
    """A subscription without a cursor: each message goes to one consumer with room, or is dropped."""

    def __init__(self, record: SubscriptionRecord, *, clock: Clock) -> None:
        super().__init__(record, clock)
        self._selection = NonReliableSelection(record.type)
        self._queues: dict[int, _Queue] = {}
        self._streams: dict[int, ServerStream] = {}
        self.dropped = 0

    def subscribe(self, name: str, consumer_id: int, filters: tuple[str, ...] = ()) -> Consumer:
        consumer = super().subscribe(name, consumer_id, filters)
        self._join(consumer)
        return consumer

    def publish(self, message: bytes) -> None:
        """Give the message to a consumer, or drop it."""
        consumer_id = self._selection.choose(message)
        if consumer_id is None:
            self.dropped += 1
            return
        stream = self._streams.get(consumer_id)
        queue = self._queues[consumer_id]
        if stream is not None and stream.room > 0 and not queue.messages:
            self._write(stream, message)
        else:
            queue.messages.append(message)
            queue.size += len(message)
            if not queue.has_room():
                self._selection.pause(consumer_id)

    def acknowledge(self, offset: int) -> None:
        """Do nothing: no message is kept."""

    def nack(self, offset: int, delay_s: float | None, reason: str) -> None:
        """Do nothing: no message is kept."""

    def ready(self, consumer: Consumer) -> None:
        queue, stream = self._queues.get(consumer.consumer_id), self._streams.get(consumer.consumer_id)
        if queue is None or stream is None:
            return
        while queue.messages and stream.room > 0:
            message = queue.messages.popleft()
            queue.size -= len(message)
            self._write(stream, message)
        if queue.has_room():
            self._selection.resume(consumer.consumer_id)

    def forget(self, consumer: Consumer) -> None:
        super().forget(consumer)
        self._closed(consumer)

    def release(self, consumer: Consumer) -> None:
        """Drop the messages of a consumer that never opened its stream."""
        self._closed(consumer)

    def close(self) -> None:
        for consumer in self.consumers.values():
            self._closed(consumer)

    def _opened(self, consumer: Consumer, stream: ServerStream) -> None:
        self._streams[consumer.consumer_id] = stream
        self._join(consumer)
        self.ready(consumer)

    def _join(self, consumer: Consumer) -> None:
        """Queue messages for a consumer from now on."""
        self._queues.setdefault(consumer.consumer_id, _Queue())
        self._selection.add(consumer.consumer_id, consumer.filters)

    def _closed(self, consumer: Consumer, *, is_lost: bool = False) -> None:  # noqa: ARG002 - nothing is redelivered
        self._streams.pop(consumer.consumer_id, None)
        if self._queues.pop(consumer.consumer_id, None) is not None:
            self._selection.remove(consumer.consumer_id)

    def _write(self, stream: ServerStream, message: bytes) -> None:
        stream.write(message)
        self.counts.messages += 1
        self.counts.bytes += len(message)


AnySubscription = ReliableSubscription | NonReliableSubscription
