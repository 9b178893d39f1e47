"""One topic that this broker serves: publish into it, fan out to its subscriptions."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from danube.broker.rate_limits import PublishRate
from danube.broker.sequences import Sequences
from danube.broker.subscription import NonReliableSubscription, ReliableSubscription, Subscription
from danube.broker.throttle import Published, Throttle
from danube.metadata.records import TopicRecord
from danube.model.errors import DanubeError, MessageTooLargeError, SubscriptionNotFoundError, TopicNotServedError
from danube.model.limits import MESSAGE_BYTES_MAX
from danube.model.policies import NO_LIMITS, Limits
from danube.runtime.clock import Clock
from danube.storage.batch import RecordView
from danube.storage.log import AppendDone, TopicLog

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
        """Ids of the producers that are attached."""
        self.changing = asyncio.Lock()
        """Held while a subscription is created or removed."""
        self.is_closed = False
        self.messages_in = 0
        self.bytes_in = 0
        self.limits = NO_LIMITS
        """What holds now; only `hold` changes it."""
        self.message_bytes_max = MESSAGE_BYTES_MAX
        """The largest payload that is taken now."""
        self.dispatch_rate = 0
        """Messages a second that one subscription may send; 0 is no limit."""
        self._throttle: Throttle | None = None

    def hold(self, limits: Limits, clock: Clock) -> None:
        """From now on these limits hold; who is here already stays."""
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
            self._throttle = Throttle(self.name, rate, clock, self._take)

    def publish(self, message: bytes, published: Published) -> None:
        """Take an encoded StreamMessage. Raises UnavailableError where it cannot be taken now."""
        if self._throttle is None:
            self._take(message, published)
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

    @abstractmethod
    def _take(self, message: bytes, published: Published) -> None:
        """Publish what may pass. Raises as `publish`."""

    @abstractmethod
    def acknowledge(self, subscription: str, offset: int) -> None:
        """One message is done with. Raises SubscriptionNotFoundError."""

    @abstractmethod
    def nack(self, subscription: str, offset: int, delay_s: float | None, reason: str) -> None:
        """One message could not be used. Raises SubscriptionNotFoundError."""

    def stop_dispatch(self) -> None:
        """Deliver nothing any more, and hold up no publish."""
        for subscription in self.subscriptions.values():
            subscription.close()
        if self._throttle is not None:
            self._throttle.close(_not_served(self.name))

    def close(self) -> None:
        """The topic is gone: deliver nothing, take nothing."""
        self.is_closed = True
        self.stop_dispatch()


class ReliableTopic(Topic[ReliableSubscription]):
    """A topic that keeps its messages in a log."""

    def __init__(self, record: TopicRecord, log: TopicLog) -> None:
        super().__init__(record)
        self.log = log
        self.streams: set[TopicStream] = set()
        """Open ones; each takes itself out when it ends."""
        self.messages_expired = 0
        """That subscriptions were led past because they were too old, each counted once for each subscription."""
        self.followers: set[Callable[[], None]] = set()
        """Called once a round in which the log grew."""
        self.sequences = Sequences(log, self.publish_batch)
        log.on_durable(self._durable)

    def _take(self, message: bytes, published: Published) -> None:
        def done(result: int | DanubeError) -> None:
            if isinstance(result, int):
                self.messages_in += 1
                self.bytes_in += len(message)
                published(None)
            else:
                published(result)

        self.log.append_record(message, done)

    def publish_batch(self, body: bytes, count: int, published: AppendDone) -> None:
        """Take a client's batch of `count` records.

        Raises as `TopicLog.append_batch`, OverloadedError too while the topic is above its publish rate, and
        MessageTooLargeError.
        """
        if len(body) > self.message_bytes_max:
            self.check_size(RecordView(body).longest)
        if self._throttle is not None:
            self._throttle.check_batch()

        def done(result: int | DanubeError) -> None:
            if isinstance(result, int):
                self.messages_in += count
                self.bytes_in += len(body)
            published(result)

        self.log.append_batch(body, done)
        if self._throttle is not None:
            self._throttle.batch_passed(count, len(body))

    def acknowledge(self, subscription: str, offset: int) -> None:
        self.subscription(subscription).acknowledge(offset)

    def nack(self, subscription: str, offset: int, delay_s: float | None, reason: str) -> None:
        self.subscription(subscription).nack(offset, delay_s, reason)

    def stop_dispatch(self) -> None:
        super().stop_dispatch()
        error = _not_served(self.name)
        for stream in tuple(self.streams):
            stream.stop(error)

    def close(self) -> None:
        super().close()
        self.log.close()

    def _durable(self, durable_end: int) -> None:
        for subscription in self.subscriptions.values():
            subscription.appended(durable_end)
        for follower in tuple(self.followers):
            follower()


class NonReliableTopic(Topic[NonReliableSubscription]):
    """A topic that hands messages on and keeps none."""

    def _take(self, message: bytes, published: Published) -> None:
        self.messages_in += 1
        self.bytes_in += len(message)
        for subscription in self.subscriptions.values():
            subscription.publish(message)
        published(None)

    def acknowledge(self, subscription: str, offset: int) -> None:  # noqa: ARG002 - nothing is kept, nothing is owed
        self.subscription(subscription)

    def nack(self, subscription: str, offset: int, delay_s: float | None, reason: str) -> None:  # noqa: ARG002 - as above
        self.subscription(subscription)


AnyTopic = ReliableTopic | NonReliableTopic


def _not_served(name: str) -> TopicNotServedError:
    return TopicNotServedError(f"{name} is not served here any more: look it up again")
