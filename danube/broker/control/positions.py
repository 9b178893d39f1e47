"""Positions of subscriptions: create at an offset, seek, skip, unblock."""

import asyncio
import logging

from danube.broker.control.topics import served_topic
from danube.broker.dispatch.events import RetryBlocked, Seek, SkipBlocked, SkipRange
from danube.broker.subscriptions.subscription import ReliableSubscription
from danube.broker.telemetry.system_topics import refuse_creating
from danube.broker.topics.local_topics import Topics
from danube.broker.topics.subscription_creation import NewSubscriptions, offset_of, save_cursor
from danube.broker.topics.topic import AnyTopic, ReliableTopic
from danube.metadata.records.catalog import ExtraWrites, Records
from danube.model.calls.positions import (
    AddPartitions,
    CreateSubscription,
    SeekPreview,
    SeekSubscription,
    SkipMessages,
    SubscriptionPosition,
)
from danube.model.errors import (
    AlreadyExistsError,
    DanubeError,
    LimitReachedError,
    PreconditionFailedError,
)
from danube.model.limits.broker import (
    SUBSCRIPTIONS_PER_TOPIC_MAX,
)
from danube.model.policies import SubscriptionName
from danube.model.text import count_text
from danube.model.topic import TopicName
from danube.runtime.clock import Clock
from danube.runtime.rng import Rng

_log = logging.getLogger(__name__)

_NOTHING_KEPT = SubscriptionPosition(position=0, lag=0)
_TOPICS_PER_TURN = 100


class PositionControl:
    """Positions of subscriptions in this broker's topics."""

    def __init__(self, topics: Topics, records: Records, *, clock: Clock, rng: Rng) -> None:
        self._topics = topics
        self._records = records
        self._new = NewSubscriptions(topics, records, clock=clock, rng=rng)

    async def open(self) -> None:
        """Finish interrupted seeks, as `sweep` does; failures are logged, and `sweep` tries again."""
        try:
            await self.sweep()
        except DanubeError as error:
            _log.error("not every subscription stands durably where it was put: %s", error)

    async def sweep(self) -> None:
        """Finish seeks that a crash or a fault interrupted: make the new positions durable.

        Until then retention keeps all messages from the new position on, and a restart seeks again. Raises the last
        failure.
        """
        failures: list[DanubeError] = []
        for number, topic in enumerate(list(self._topics)):
            if number % _TOPICS_PER_TURN == 0:
                await asyncio.sleep(0)  # there may be very many of them, and others are served meanwhile
            if isinstance(topic, ReliableTopic) and not topic.is_lost:
                failures += await self._finish_all(topic)
        if failures:
            raise failures[-1]

    async def create(self, wanted: CreateSubscription) -> SubscriptionPosition:
        """Create a subscription before its first consumer; returns once its position is durable.

        Raises:
            TopicNotFoundError, AlreadyExistsError, LimitReachedError, StorageUnavailableError.
            InvalidRequestError: the topic does not have the offset.
        """
        topic = served_topic(self._topics, wanted.name.topic)
        async with topic.changing:
            topic.check_open()
            name = wanted.name.subscription
            if name in topic.subscriptions:
                raise AlreadyExistsError(
                    f"{topic.name} already has a subscription {name!r}: seek in it, or choose a name"
                )
            refuse_more_subscriptions(topic)
            offset = await offset_of(wanted.start, topic.log) if isinstance(topic, ReliableTopic) else 0
            subscription = await self._new.create(topic, name, wanted.type, offset)
        return _position(subscription) if isinstance(subscription, ReliableSubscription) else _NOTHING_KEPT

    def find(self, name: SubscriptionName) -> tuple[ReliableTopic, ReliableSubscription]:
        """A subscription with a position.

        Raises TopicNotFoundError, SubscriptionNotFoundError, and PreconditionFailedError on a non-reliable topic.
        """
        topic = served_topic(self._topics, name.topic)
        if not isinstance(topic, ReliableTopic):
            raise PreconditionFailedError(f"{name.topic} is not reliable: it keeps no messages, and no places in them")
        return topic, topic.subscription(name.subscription)

    async def preview(self, wanted: SeekSubscription) -> SeekPreview:
        """A seek of a subscription in one of this broker's topics. Raises as `find`, and for an unknown offset."""
        topic, subscription = self.find(wanted.name)
        target = await offset_of(wanted.to, topic.log)
        return SeekPreview(
            topic_id=topic.record.topic_id,
            subscription_id=subscription.record.subscription_id,
            position=subscription.driver.engine.position,
            target=target,
            unread=unread_before(subscription, target),
            producers=len(topic.producers),
            consumers=subscription.connected(),
        )

    async def seek(self, wanted: SeekSubscription) -> SubscriptionPosition:
        """Change the position of a subscription if that passes over no unread message. Raises as `jump`.

        Raises PreconditionFailedError otherwise: a plan is needed.
        """

        async def check(_: object) -> None:
            if lost := (await self.preview(wanted)).unread:
                raise PreconditionFailedError(
                    f"{count_text(lost, 'unread message')} of {wanted.name.subscription!r} would be passed over: "
                    "plan seek_subscription, look at the plan, and apply it"
                )

        return await self.jump(wanted, extra_writes=check)

    async def jump(self, wanted: SeekSubscription, *, extra_writes: ExtraWrites | None = None) -> SubscriptionPosition:
        """Change the position of a subscription, with `extra_writes` in the same transaction. It survives a crash.

        Raises:
            What `extra_writes` raises.
            TopicNotFoundError, SubscriptionNotFoundError, PreconditionFailedError.
            InvalidRequestError: the topic does not have the offset.
        """
        topic, _ = self.find(wanted.name)
        async with topic.changing:
            topic.check_open()
            topic, subscription = self.find(wanted.name)
            target = await offset_of(wanted.to, topic.log)
            with topic.claim(target):
                subscription.record = await self._records.set_jump(
                    wanted.name.topic, wanted.name.subscription, target, extra_writes=extra_writes
                )
                subscription.driver.handle(Seek(max(target, topic.log.start_offset)))  # retention may drop unread ones
            await self._settle(topic, subscription)
        return _position(subscription)

    async def skip(self, wanted: SkipMessages, *, extra_writes: ExtraWrites | None = None) -> SubscriptionPosition:
        """Acknowledge messages on behalf of the consumers, `extra_writes` in the same transaction. Raises as `jump`.

        Blocking messages that were skipped may block again after a crash before that is durable.
        """
        topic, _ = self.find(wanted.name)
        async with topic.changing:
            topic.check_open()
            topic, subscription = self.find(wanted.name)
            end = skip_end(subscription, wanted.count) if wanted.count else None
            subscription.record = await self._records.set_jump(
                wanted.name.topic, wanted.name.subscription, end, extra_writes=extra_writes
            )
            if end is None:
                subscription.driver.handle(SkipBlocked())
            else:
                subscription.driver.handle(SkipRange(subscription.driver.engine.position, end))
            await self._settle(topic, subscription)
        return _position(subscription)

    def retry_blocked(self, name: SubscriptionName) -> SubscriptionPosition:
        """Deliver the messages that block a subscription again, if any. Raises as `find`."""
        _, subscription = self.find(name)
        subscription.driver.handle(RetryBlocked())
        return _position(subscription)

    async def add_partitions(self, wanted: AddPartitions) -> list[TopicName]:
        """Add partitions to a partitioned topic; answers all it has. Raises as `Topics.add_partitions`."""
        refuse_creating(wanted.base)
        await self._topics.add_partitions(wanted.base, wanted.count)
        return self._topics.matching(wanted.base)

    async def _finish_all(self, topic: ReliableTopic) -> list[DanubeError]:
        """Finish the interrupted seeks of one topic; answers the failures."""
        failures: list[DanubeError] = []
        for subscription in [each for each in topic.subscriptions.values() if each.record.jump is not None]:
            async with topic.changing:
                try:
                    if subscription.record.jump is not None and topic.serves(subscription):
                        await self._finish(topic, subscription)
                except DanubeError as error:
                    failures.append(error)
        return failures

    async def _settle(self, topic: ReliableTopic, subscription: ReliableSubscription) -> None:
        """Finish a seek, or leave it to a later `sweep`: it is decided in any case."""
        try:
            await self._finish(topic, subscription)
        except DanubeError as error:
            name = subscription.record.name
            _log.error("subscription %r on %s is put elsewhere, not durably yet: %s", name, topic.name, error)

    async def _finish(self, topic: ReliableTopic, subscription: ReliableSubscription) -> None:
        """Make the cursor durable, and only then remove the seek from the metadata."""
        record = subscription.record
        await save_cursor(topic.log, record.subscription_id, subscription.driver.engine.cursor)
        if record.jump is not None:
            subscription.record = await self._records.set_jump(record.topic, record.name, None)


def unread_before(subscription: ReliableSubscription, offset: int) -> int:
    """The number of messages below this offset that the subscription has not acknowledged."""
    cursor = subscription.driver.engine.cursor
    beyond = sum(max(0, min(end, offset) - start) for start, end in cursor.beyond if start < offset)
    return max(0, offset - cursor.position) - beyond


def skip_end(subscription: ReliableSubscription, count: int) -> int:
    """The offset after the next `count` unacknowledged messages; the durable end when there are fewer."""
    engine = subscription.driver.engine
    at, left = engine.position, count
    for start, end in engine.cursor.beyond:
        if start - at >= left:
            break
        left -= start - at
        at = end
    return min(at + left, engine.durable_end)


def refuse_more_subscriptions(topic: AnyTopic) -> None:
    """Raise LimitReachedError when the topic has its maximum of subscriptions."""
    most = topic.limits.max_subscriptions_per_topic or SUBSCRIPTIONS_PER_TOPIC_MAX
    if len(topic.subscriptions) >= min(most, SUBSCRIPTIONS_PER_TOPIC_MAX):
        raise LimitReachedError(
            f"{topic.name} has {len(topic.subscriptions)} subscriptions, and {most} is the most it may"
        )


def _position(subscription: ReliableSubscription) -> SubscriptionPosition:
    engine = subscription.driver.engine
    return SubscriptionPosition(position=engine.position, lag=engine.lag)
