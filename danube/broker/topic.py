"""One topic that this broker serves: publish into it, fan out to its subscriptions."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from danube.broker.subscription import NonReliableSubscription, ReliableSubscription, Subscription
from danube.metadata.records import TopicRecord
from danube.model.errors import DanubeError, SubscriptionNotFoundError, TopicNotServedError
from danube.storage.log import AppendDone, TopicLog

Published = Callable[[DanubeError | None], None]
"""Called once: the message is as safe as the topic promises, or why it is not."""

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

    def subscription(self, name: str) -> S:
        """The subscription of this name. Raises SubscriptionNotFoundError."""
        found = self.subscriptions.get(name)
        if found is None:
            raise SubscriptionNotFoundError(f"there is no subscription {name!r} on {self.name}: subscribe first")
        return found

    @abstractmethod
    def publish(self, message: bytes, published: Published) -> None:
        """Take an encoded StreamMessage. Raises UnavailableError where it cannot be taken now."""

    @abstractmethod
    def acknowledge(self, subscription: str, offset: int) -> None:
        """One message is done with. Raises SubscriptionNotFoundError."""

    @abstractmethod
    def nack(self, subscription: str, offset: int, delay_s: float | None, reason: str) -> None:
        """One message could not be used. Raises SubscriptionNotFoundError."""

    def stop_dispatch(self) -> None:
        """Deliver nothing any more."""
        for subscription in self.subscriptions.values():
            subscription.close()

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
        self.followers: set[Callable[[], None]] = set()
        """Called once a round in which the log grew."""
        log.on_durable(self._durable)

    def publish(self, message: bytes, published: Published) -> None:
        def done(result: int | DanubeError) -> None:
            if isinstance(result, int):
                self.messages_in += 1
                self.bytes_in += len(message)
                published(None)
            else:
                published(result)

        self.log.append_record(message, done)

    def publish_batch(self, body: bytes, count: int, published: AppendDone) -> None:
        """Take a client's batch of `count` records. Raises as `TopicLog.append_batch`."""

        def done(result: int | DanubeError) -> None:
            if isinstance(result, int):
                self.messages_in += count
                self.bytes_in += len(body)
            published(result)

        self.log.append_batch(body, done)

    def acknowledge(self, subscription: str, offset: int) -> None:
        self.subscription(subscription).acknowledge(offset)

    def nack(self, subscription: str, offset: int, delay_s: float | None, reason: str) -> None:
        self.subscription(subscription).nack(offset, delay_s, reason)

    def stop_dispatch(self) -> None:
        super().stop_dispatch()
        error = TopicNotServedError(f"{self.name} is not served here any more: look it up again")
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

    def publish(self, message: bytes, published: Published) -> None:
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
