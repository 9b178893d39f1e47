"""One topic that this broker serves: publishes, and delivery to its subscriptions."""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, Protocol, TypeVar

from danube.broker.dispatch.events import SkipReason
from danube.broker.rates.throttle import Published, PublishRate, Throttle
from danube.broker.schemas.gate import SchemaGate
from danube.broker.subscriptions.subscription import NonReliableSubscription, ReliableSubscription, Subscription
from danube.broker.telemetry.system_topics import payload_check
from danube.broker.topics.deduplication import Sequences
from danube.broker.topics.drain import ClientDrain
from danube.metadata.records.catalog import TopicRecord
from danube.model.errors import DanubeError, MessageTooLargeError, SubscriptionNotFoundError, UnavailableError
from danube.model.limits.broker import MESSAGE_BYTES_MAX, UNLOAD_TIMEOUT_S
from danube.model.policies import NO_LIMITS, Limits
from danube.runtime.clock import Clock
from danube.storage.batches.batch import RecordKind, RecordView, read_header
from danube.storage.batches.compression import BatchCodec
from danube.storage.batches.stored_batch import AppendDone
from danube.storage.log.topic_log import TopicLog
from danube.wire.decode import received_message

_log = logging.getLogger(__name__)

S = TypeVar("S", bound=Subscription)


class TopicStream(Protocol):
    """A stream of batches from or to a topic."""

    def stop(self, error: DanubeError) -> None:
        """End it: the topic is not served any more."""


class Topic(ABC, Generic[S]):
    """A topic with subscriptions of its kind."""

    def __init__(self, record: TopicRecord) -> None:
        self.record = record
        self.name = str(record.name)
        self.subscriptions: dict[str, S] = {}
        self.producers: set[int] = set()
        """Ids of connected producers: the only ones that count."""
        self.disconnected_producers: dict[int, None] = {}
        """Ids of known producers that are not connected, in the order in which they disconnected."""
        self.changing = asyncio.Lock()
        """Held while a subscription is created or removed, and while the topic is deleted or unloaded."""
        self.drain: ClientDrain | None = None
        """The reason for which publishes are refused."""
        self.is_closed = False
        self.messages_in = 0
        self.bytes_in = 0
        self.limits = NO_LIMITS
        """The current limits; only `apply_limits` changes them."""
        self.message_bytes_max = MESSAGE_BYTES_MAX
        """The largest payload that is accepted now."""
        self.dispatch_rate = 0
        """Messages a second that one subscription may send; 0 is no limit."""
        self.gate: SchemaGate | None = None
        """The check of messages against the topic's schema; None where nothing is checked."""
        self._check_payload = payload_check(record.name)
        self._throttle: Throttle | None = None

    def apply_limits(self, limits: Limits, clock: Clock) -> None:
        """Apply these limits from now on; connected clients stay."""
        if limits == self.limits:
            return
        self.limits = limits
        self.message_bytes_max = limits.message_bytes_max
        self.dispatch_rate = limits.max_subscription_dispatch_rate
        if self._throttle is not None:
            self._throttle.release()
        self._throttle = None
        if limits.max_publish_rate or limits.max_publish_rate_bytes:
            rate = PublishRate(limits.max_publish_rate, limits.max_publish_rate_bytes, clock.monotonic_s())
            self._throttle = Throttle(self.name, rate, clock, self._publish)

    def publish(self, message: bytes, published: Published) -> None:
        """Publish an encoded StreamMessage.

        Raises UnavailableError if the topic cannot accept it now, TopicDeletedError for a deleted topic, and
        InvalidRequestError for one that accepts other messages only.
        """
        if self.drain is not None:
            raise self.drain.publish_refusal()
        if self._check_payload is not None:
            self._check_payload(received_message(message).payload)
        if self._throttle is None:
            self._publish(message, published)
        else:
            self._throttle.publish(message, published)

    def check_size(self, payload_size: int) -> None:
        """Raise MessageTooLargeError for a payload that the topic's policies do not allow."""
        if payload_size > self.message_bytes_max:
            raise MessageTooLargeError(
                f"a message of {payload_size} bytes is larger than {self.name} takes ({self.message_bytes_max} bytes): "
                "send it in parts, or raise max_message_size of the topic"
            )

    def subscription(self, name: str) -> S:
        """The subscription of this name. Raises SubscriptionNotFoundError."""
        found = self.subscriptions.get(name)
        if found is None:
            raise SubscriptionNotFoundError(f"there is no subscription {name!r} on {self.name}: subscribe first")
        return found

    def serves(self, subscription: S) -> bool:
        """True if topic and subscription still exist here."""
        return not self.is_closed and self.subscriptions.get(subscription.record.name) is subscription

    @abstractmethod
    def _publish(self, message: bytes, published: Published) -> None:
        """Publish a message that passed the throttle. Raises as `publish`."""

    def acknowledge(self, subscription: str, offset: int) -> None:
        """Acknowledge one message. Raises SubscriptionNotFoundError."""
        self.subscription(subscription).acknowledge(offset)

    def nack(self, subscription: str, offset: int, delay_s: float | None, reason: str) -> None:
        """Negatively acknowledge one message. Raises SubscriptionNotFoundError."""
        self.subscription(subscription).nack(offset, delay_s, reason)

    def check_open(self) -> None:
        """Raise the drain's error if the topic was closed while the caller waited for `changing`."""
        if self.is_closed and self.drain is not None:
            raise self.drain.subscribe_refusal()

    def refuse_publishes(self, drain: ClientDrain) -> None:
        """Refuse publishes from now on, also those that a rate delays; accepted ones are stored."""
        self.drain = drain
        if self._throttle is not None:
            self._throttle.close(drain.publish_refusal())

    async def settled(self) -> None:
        """Return once all accepted publishes are stored or failed, and answered. Raises UnavailableError."""

    async def save_cursors(self) -> None:
        """Return once the cursors are durable; messages above a cursor that cannot be saved are delivered again."""

    def forget_deleted(self) -> None:
        """Delete cursors of deleted subscriptions, which the journal still has."""

    def accept_publishes(self) -> None:
        """Accept publishes again: the topic stays."""
        self.drain = None

    def close(self, drain: ClientDrain) -> None:
        """Stop publishes and delivery. The caller ends the consumers' open streams."""
        self.is_closed = True
        self.refuse_publishes(drain)
        for subscription in self.subscriptions.values():
            subscription.close()


class ReliableTopic(Topic[ReliableSubscription]):
    """A topic that keeps its messages in a log."""

    def __init__(self, record: TopicRecord, log: TopicLog) -> None:
        super().__init__(record)
        self.log = log
        self.streams: set[TopicStream] = set()
        """Open streams; each removes itself when it ends."""
        self.messages_expired = 0
        """Unread messages that subscriptions passed over because of their age or of retention."""
        self.followers: set[Callable[[], None]] = set()
        """Called once a round in which the log grew."""
        self.claimed: list[int] = []
        """Offsets at which subscriptions are about to begin or to continue."""
        self._unsettled = 0
        """Publishes that the log has and has not answered."""
        self._on_settled: asyncio.Future[None] | None = None
        self.sequences = Sequences(log, self.publish_batch)
        log.on_durable(self._durable)
        log.on_trimmed(self._trimmed)

    @property
    def is_lost(self) -> bool:
        """True if its log cannot be read: it accepts and delivers nothing until that is repaired."""
        return self.log.fault is not None

    @property
    def lost_reason(self) -> str:
        """Cause why its log cannot be read; empty while it can."""
        return self.log.fault or ""

    def check_open(self) -> None:
        super().check_open()
        self.check_readable()

    def check_readable(self) -> None:
        """Raise StorageUnavailableError if the log cannot be read."""
        if self.log.fault is not None:
            raise self.log.refusal()

    @contextmanager
    def claim(self, offset: int) -> Iterator[None]:
        """Hold retention back from `offset` on until the subscription there exists."""
        self.claimed.append(offset)
        try:
            yield
        finally:
            self.claimed.remove(offset)

    def skip_trimmed(self, subscription: ReliableSubscription) -> None:
        """Continue a subscription at the first stored message."""
        self._count_trimmed(subscription.pass_over(self.log.start_offset, SkipReason.TRIMMED))

    def _publish(self, message: bytes, published: Published) -> None:
        def done(result: int | DanubeError) -> None:
            if isinstance(result, int):
                self.messages_in += 1
                self.bytes_in += len(message)
                published(None)
            else:
                published(result)
            self._settle()

        self.log.append_record(message, done)
        self._unsettled += 1

    def publish_batch(self, body: bytes, count: int, published: AppendDone) -> None:
        """Publish a batch of `count` payloads.

        Raises as `TopicLog.append_batch` and `publish`, OverloadedError too while the topic is above its publish rate,
        and MessageTooLargeError.
        """
        if self.drain is not None:
            raise self.drain.publish_refusal()
        if len(body) > self.message_bytes_max or read_header(body).codec is not BatchCodec.NONE:
            self.check_size(RecordView(body).longest)
        if self._check_payload is not None:
            view = RecordView(body)
            is_whole = view.header.kind is RecordKind.MESSAGES
            for record in view.slice(0, count):
                self._check_payload(received_message(record).payload if is_whole else record)
        if self._throttle is not None:
            self._throttle.check_batch()

        def done(result: int | DanubeError) -> None:
            if isinstance(result, int):
                self.messages_in += count
                self.bytes_in += len(body)
            published(result)
            self._settle()

        self.log.append_batch(body, done)
        self._unsettled += 1
        if self._throttle is not None:
            self._throttle.batch_passed(count, len(body))

    async def settled(self) -> None:
        if not self._unsettled:
            return
        self._on_settled = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(UNLOAD_TIMEOUT_S):
                await self._on_settled
        except TimeoutError:
            raise UnavailableError(
                f"{self.name} has {self._unsettled} publishes that the journal has not answered in "
                f"{UNLOAD_TIMEOUT_S:g} s: try again when its disk is faster"
            ) from None

    def forget_deleted(self) -> None:
        self.log.forget_other_cursors({one.record.subscription_id for one in self.subscriptions.values()})

    def close(self, drain: ClientDrain) -> None:
        super().close(drain)
        for stream in tuple(self.streams):
            stream.stop(drain.publish_refusal())
        self.log.close()

    async def save_cursors(self) -> None:
        waiting = len(self.subscriptions)
        all_saved: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def saved(error: DanubeError | None) -> None:
            nonlocal waiting
            waiting -= 1
            if error is not None:
                _log.warning("a cursor of %s is not saved, messages are delivered again: %s", self.name, error)
            if not waiting and not all_saved.done():
                all_saved.set_result(None)

        for subscription in self.subscriptions.values():
            self.log.save_cursor(subscription.record.subscription_id, subscription.driver.engine.cursor, saved)
        if not waiting:
            return
        try:
            async with asyncio.timeout(UNLOAD_TIMEOUT_S):
                await all_saved
        except TimeoutError:
            _log.warning("%d cursors of %s are not saved in time, messages are delivered again", waiting, self.name)

    def _settle(self) -> None:
        self._unsettled -= 1
        if not self._unsettled and self._on_settled is not None and not self._on_settled.done():
            self._on_settled.set_result(None)

    def _trimmed(self, start_offset: int) -> None:
        trimmed = (each.pass_over(start_offset, SkipReason.TRIMMED) for each in self.subscriptions.values())
        self._count_trimmed(sum(trimmed))

    def _count_trimmed(self, messages: int) -> None:
        if messages:
            self.messages_expired += messages
            _log.warning("%s: subscriptions pass over %d messages that retention trimmed", self.name, messages)

    def _durable(self, durable_end: int) -> None:
        for subscription in self.subscriptions.values():
            subscription.appended(durable_end)
        for follower in tuple(self.followers):
            follower()


class NonReliableTopic(Topic[NonReliableSubscription]):
    """A topic that delivers messages and stores none."""

    def _publish(self, message: bytes, published: Published) -> None:
        self.messages_in += 1
        self.bytes_in += len(message)
        for subscription in self.subscriptions.values():
            subscription.publish(message)
        published(None)


AnyTopic = ReliableTopic | NonReliableTopic
