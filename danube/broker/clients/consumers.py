"""Consumers by id: subscribing, opening streams, and forgetting disconnected ones.

Consumers are kept in the metadata, since opening a stream names only the id: after a restart running consumers continue
without subscribing again.
"""

from contextlib import suppress
from dataclasses import dataclass

from danube.broker.dispatch.selection.key_filter import check_filters, check_filters_together
from danube.broker.subscriptions.consumer import Consumer, NameConflict
from danube.broker.subscriptions.subscription import (
    AnySubscription,
    NonReliableSubscription,
    Subscription,
)
from danube.broker.topics.drain import Cause, ClientDrain, DisconnectedClients
from danube.broker.topics.local_topics import Topics
from danube.broker.topics.subscription_creation import NewSubscriptions, offset_of
from danube.broker.topics.subscription_policies import change_pending, has_pending, nothing_pending
from danube.broker.topics.topic import AnyTopic, NonReliableTopic, ReliableTopic
from danube.metadata.records.catalog import ConsumerRecord, ExtraWrites, Records
from danube.model.calls.client import ClientKind, Subscribe
from danube.model.calls.stream import FetchFrom, FetchStart
from danube.model.errors import (
    AlreadyExistsError,
    LimitReachedError,
    PreconditionFailedError,
    SubscriptionNotFoundError,
    TopicNotFoundError,
)
from danube.model.limits.broker import NON_RELIABLE_IDLE_S, SESSION_FORGET_S, SUBSCRIPTIONS_PER_TOPIC_MAX
from danube.model.message import consumer_id
from danube.model.subscription import SubscriptionType
from danube.model.topic import TopicName
from danube.rpc.carrier import ServerStream
from danube.runtime.clock import Clock
from danube.runtime.rng import Rng


@dataclass(frozen=True, slots=True)
class Membership:
    """A consumer with its topic and subscription."""

    topic: AnyTopic
    subscription: AnySubscription
    consumer: Consumer


class Consumers:
    """The consumers of this broker."""

    def __init__(
        self, topics: Topics, records: Records, disconnected_clients: DisconnectedClients, *, clock: Clock, rng: Rng
    ) -> None:
        self._topics = topics
        self._records = records
        self._disconnected_clients = disconnected_clients
        self._clock = clock
        self._new = NewSubscriptions(topics, records, clock=clock, rng=rng)
        self._members: dict[int, Membership] = {}

    async def load(self) -> None:
        """Restore the consumers of before a restart."""
        for record in await self._records.all_consumers():
            topic = self._topics.find(str(record.topic))
            if topic is not None:
                self._restore(topic, record)

    async def load_topic(self, topic: AnyTopic) -> None:
        """As `load`, for a topic that was opened again; consumers that subscribed meanwhile are known already."""
        for name in list(topic.subscriptions):
            for record in await self._records.consumers(topic.record.name, name):
                if not topic.is_closed:
                    self._restore(topic, record)

    async def subscribe(self, request: Subscribe, start: FetchStart = FetchFrom.LATEST) -> int:
        """Join a subscription, created at `start` if need be; answers the id, the same for the same name.

        Raises:
            TopicNotFoundError, SubscriptionBusyError, LimitReachedError, UnavailableError.
            InvalidRequestError: too many key filters, or too long ones; the topic does not have the offset.
        """
        try:
            topic = self._topics.get(request.topic)
        except TopicNotFoundError:
            identity = consumer_id(request.topic, request.subscription, request.consumer_name)
            self._disconnected_clients.refuse_deleted(ClientKind.CONSUMER, identity)
            raise
        filters = check_filters(request.key_filters)
        async with topic.changing:
            topic.check_open()
            subscription = topic.subscriptions.get(request.subscription) or await self._create(topic, request, start)
            try:
                return await self._join(topic, subscription, request, filters)
            except SubscriptionNotFoundError:  # it was deleted, and the answer to that was lost
                self._remove(topic, subscription)
                return await self._join(topic, await self._create(topic, request, start), request, filters)

    async def unsubscribe(
        self, name: TopicName, subscription_name: str, *, extra_writes: ExtraWrites | None = None
    ) -> None:
        """Delete a subscription with its consumers and its cursor, or the pending policies of one that does not exist.

        No subscription of the topic is created or deleted meanwhile; `extra_writes` go with it. A consumer that
        connects meanwhile loses its stream.

        Raises:
            What `extra_writes` raises.
            TopicNotFoundError, SubscriptionNotFoundError.
            PreconditionFailedError: a consumer is connected.
        """
        topic = self._topics.get(name)
        async with topic.changing:
            topic.check_open()
            if has_pending(topic, subscription_name):
                await change_pending(
                    topic, self._records, subscription_name, nothing_pending, extra_writes=extra_writes
                )
                return
            subscription = self.unused_subscription(topic, subscription_name)
            await self._delete(topic, subscription, extra_writes)

    def unused_subscription(self, topic: AnyTopic, name: str) -> AnySubscription:
        """The subscription, which has no connected consumer.

        Raises SubscriptionNotFoundError, and PreconditionFailedError while a consumer is connected.
        """
        subscription = topic.subscription(name)
        _refuse_while_connected(subscription, self._clock.monotonic_s())
        return subscription

    def get(self, identity: int) -> Membership:
        """The consumer of this id. Raises ConsumerNotFoundError, or TopicNotServedError where its topic has moved."""
        member = self._members.get(identity)
        if member is None:
            raise self._disconnected_clients.receive_refusal(identity)
        return member

    def attach(self, member: Membership, stream: ServerStream) -> None:
        """Open a consumer's stream, in place of an older one of the same consumer.

        Raises as `Subscription.attach`, and StorageUnavailableError of a topic that is lost.
        """
        if isinstance(member.topic, ReliableTopic):
            member.topic.check_readable()
        member.subscription.attach(member.consumer, stream)
        self._disconnected_clients.reattached(ClientKind.CONSUMER, member.consumer.consumer_id)

    def close(self, identity: int, address: str) -> None:
        """End a consumer's stream, if it is open on a connection from this address; no delivery counts as failed."""
        member = self._members.get(identity)
        stream = member.consumer.stream if member is not None else None
        if member is not None and stream is not None and stream.caller.address == address:
            member.subscription.detach(member.consumer, stream).finish()

    def conflict_of(self, consumer: Consumer) -> NameConflict:
        """The recent conflict of clients under the consumer's name."""
        return consumer.conflict if consumer.conflict.is_on(self._clock.monotonic_s()) else NameConflict()

    def topic_name_of(self, identity: int) -> str | None:
        """The topic of a consumer; None for an unknown id."""
        member = self._members.get(identity)
        return None if member is None else member.topic.name

    def is_known(self, identity: int) -> bool:
        """Tell whether there is a consumer of this id."""
        return identity in self._members

    def drain_topic(self, topic: AnyTopic, drain: ClientDrain) -> None:
        """Forget the consumers of a closed topic, and drain them."""
        for subscription in topic.subscriptions.values():
            self._forget_all(subscription, drain)

    def disconnect(self, subscription: Subscription, consumer: Consumer, drain: ClientDrain) -> None:
        """Drain a consumer; what it had not acknowledged goes to the others."""
        stream = consumer.stream
        if stream is not None:
            subscription.detach(consumer, stream)
        self._disconnected_clients.drain_consumer(consumer.consumer_id, drain, stream)

    def _forget_all(self, subscription: Subscription, drain: ClientDrain) -> None:
        for consumer in subscription.consumers.values():
            self._members.pop(consumer.consumer_id, None)
            self.disconnect(subscription, consumer, drain)

    def _restore(self, topic: AnyTopic, record: ConsumerRecord) -> None:
        subscription = topic.subscriptions.get(record.subscription)
        if subscription is not None and record.name not in subscription.consumers:  # not one that is just joining
            self._members[record.consumer_id] = Membership(topic, subscription, subscription.restore(record))

    async def _delete(
        self,
        topic: AnyTopic,
        subscription: AnySubscription,
        extra_writes: ExtraWrites | None = None,
    ) -> None:
        """Delete a subscription. Raises SubscriptionNotFoundError for one that was deleted before and is still here."""
        try:
            await self._records.delete_subscription(
                topic.record.name, subscription.record.name, extra_writes=extra_writes
            )
        except SubscriptionNotFoundError:
            self._remove(topic, subscription)
            raise
        self._remove(topic, subscription)

    def _remove(self, topic: AnyTopic, subscription: AnySubscription) -> None:
        """Forget a subscription that is not in the metadata any more."""
        name = subscription.record.name
        topic.subscriptions.pop(name, None)
        self._forget_all(subscription, ClientDrain(Cause.DELETED, f"subscription {name!r} of {topic.name}"))
        subscription.close()
        if isinstance(topic, ReliableTopic):
            topic.log.forget_cursor(subscription.record.subscription_id)

    async def sweep(self) -> None:
        """Forget disconnected consumers, and unused subscriptions of non-reliable topics."""
        now_s = self._clock.monotonic_s()
        for member in list(self._members.values()):
            consumer = member.consumer
            if consumer.is_connected(now_s):
                continue
            if isinstance(member.subscription, NonReliableSubscription):
                member.subscription.release(consumer)
            if now_s >= consumer.seen_s + SESSION_FORGET_S:
                await self._forget(member)
        for topic in list(self._topics):
            if isinstance(topic, NonReliableTopic):
                await self._sweep_subscriptions(topic, now_s)

    async def _sweep_subscriptions(self, topic: NonReliableTopic, now_s: float) -> None:
        for name in [n for n, s in topic.subscriptions.items() if s.is_idle(now_s, NON_RELIABLE_IDLE_S)]:
            async with topic.changing:
                subscription = topic.subscriptions.get(name)
                if subscription is None or not subscription.is_idle(now_s, NON_RELIABLE_IDLE_S) or topic.is_closed:
                    continue
                with suppress(SubscriptionNotFoundError):  # deleted already
                    await self._delete(topic, subscription)

    async def _forget(self, member: Membership) -> None:
        async with member.topic.changing:
            if member.topic.is_closed or member.consumer.is_connected(self._clock.monotonic_s()):
                return
            record = member.subscription.record
            await self._records.delete_consumer(record.topic, record.name, member.consumer.name)
            member.subscription.forget(member.consumer)
            self._members.pop(member.consumer.consumer_id, None)

    async def _join(
        self,
        topic: AnyTopic,
        subscription: AnySubscription,
        request: Subscribe,
        filters: tuple[str, ...],
    ) -> int:
        if subscription.record.type is not SubscriptionType.KEY_SHARED:
            filters = ()  # other types have no filters
        former = subscription.consumers.get(request.consumer_name)
        is_known = former is not None and former.filters == filters
        if filters and not is_known:
            others = (each.filters for each in subscription.consumers.values() if each is not former)
            check_filters_together(request.subscription, (filters, *others))
        identity = consumer_id(request.topic, request.subscription, request.consumer_name)
        consumer = subscription.subscribe(request.consumer_name, identity, filters)
        if not is_known:
            await self._remember(topic, subscription, consumer, request)
        self._disconnected_clients.reattached(ClientKind.CONSUMER, identity)
        return identity

    async def _create(self, topic: AnyTopic, request: Subscribe, start: FetchStart) -> AnySubscription:
        if len(topic.subscriptions) >= SUBSCRIPTIONS_PER_TOPIC_MAX:
            raise LimitReachedError(f"{topic.name} has {SUBSCRIPTIONS_PER_TOPIC_MAX} subscriptions, the most it may")
        offset = await offset_of(start, topic.log) if isinstance(topic, ReliableTopic) else 0
        try:
            return await self._new.create(topic, request.subscription, request.type, offset)
        except AlreadyExistsError:  # it is served now
            return topic.subscription(request.subscription)

    async def _remember(
        self,
        topic: AnyTopic,
        subscription: AnySubscription,
        consumer: Consumer,
        request: Subscribe,
    ) -> None:
        record = ConsumerRecord(
            request.topic,
            request.subscription,
            consumer.name,
            consumer.consumer_id,
            consumer.filters,
            self._clock.now_ms(),
        )
        try:
            await self._records.put_consumer(record)
        except BaseException:
            if consumer.consumer_id not in self._members:
                subscription.forget(consumer)
            raise
        self._members[consumer.consumer_id] = Membership(topic, subscription, consumer)


def _refuse_while_connected(subscription: Subscription, now_s: float) -> None:
    for consumer in subscription.consumers.values():
        if consumer.is_connected(now_s):
            raise PreconditionFailedError(
                f"subscription {subscription.record.name!r} on {subscription.record.topic} is in use, consumer "
                f"{consumer.name!r} is connected: stop its consumers first"
            )
