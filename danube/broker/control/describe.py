"""Descriptions of topics, a page at a time, sorted by name."""

from collections.abc import Iterable
from dataclasses import replace
from heapq import nsmallest

from danube.broker.control.brokers import BrokerControl
from danube.broker.subscriptions.consumer import Consumer
from danube.broker.subscriptions.subscription import NonReliableSubscription, ReliableSubscription
from danube.broker.subscriptions.unread_times import UnreadTimes
from danube.broker.topics.local_topics import Topics
from danube.broker.topics.topic import AnyTopic, ReliableTopic
from danube.broker.topics.topic_states import TopicStates
from danube.metadata.records.catalog import TopicRecord
from danube.model.calls.admin import (
    ConsumerDescription,
    DescribeCursor,
    DescribeTopics,
    ReliableState,
    SubscriptionDescription,
    TopicDescription,
    TopicsPage,
    TopicState,
)
from danube.model.calls.object_use import TopicStorageDescription
from danube.model.errors import TopicNotFoundError
from danube.model.limits.broker import DESCRIBE_BYTES_MAX, DESCRIBE_CONSUMERS_MAX, DESCRIBE_LOOKS_MAX
from danube.model.plans.durability import durability_of
from danube.model.policies import Limits
from danube.model.topic import TopicName
from danube.objects.bill import RequestKind, projected_month
from danube.objects.use import TopicObjects
from danube.runtime.clock import Clock
from danube.storage.log.topic_log import TopicStorageStats

_ENTRY_BYTES = 100  # what a topic, a subscription or a consumer takes on the wire besides its name, roughly

AnySubscription = ReliableSubscription | NonReliableSubscription
Shown = AnyTopic | TopicRecord
"""A topic of this broker, or one that nobody serves."""


class Descriptions:
    """Descriptions of this broker's topics at this moment, and of topics that nobody serves."""

    def __init__(
        self, topics: Topics, brokers: BrokerControl, states: TopicStates, times: UnreadTimes, clock: Clock
    ) -> None:
        self._clock = clock
        self._topics = topics
        self._brokers = brokers
        self._states = states
        self._times = times

    async def topics(self, wanted: DescribeTopics) -> TopicsPage:
        """One page of topics; each is listed once. One created or deleted between two pages may be missed.

        Raises TopicNotFoundError for a named topic that does not exist, TopicNotServedError for one that another
        broker serves.
        """
        await self._look_for_oldest(self._next_topics(wanted)[: wanted.page_size])
        page = _Page(self._brokers.own_id, self._states, self._times.silence() or "").fill(
            self._next_topics(wanted), wanted
        )
        now_ms = self._clock.now_ms()
        return replace(page, topics=tuple(replace(each, described_ms=now_ms) for each in page.topics))

    async def _look_for_oldest(self, topics: Iterable[Shown]) -> None:
        """Read the times of the oldest unread messages of subscriptions that do not have them in memory."""
        left = DESCRIBE_LOOKS_MAX
        for topic in topics:
            for subscription in () if isinstance(topic, TopicRecord) else list(topic.subscriptions.values()):
                if isinstance(subscription, ReliableSubscription) and subscription.must_read_unread_time and left:
                    left -= 1
                    if not await self._times.read(subscription):
                        return

    def _next_topics(self, wanted: DescribeTopics) -> list[Shown]:
        """The topics that fit a page, and one more, which shows that another page follows."""
        topics = self._named(wanted.topics) if wanted.topics else (*self._topics, *self._states.unserved())
        found = (topic for topic in topics if _is_wanted(topic, wanted))
        return nsmallest(wanted.page_size + 1, found, key=lambda topic: str(_name(topic)))

    def _named(self, names: Iterable[TopicName]) -> Iterable[Shown]:
        """Topics with these names or base names, each once; those of other brokers only where this one has none."""
        exact: dict[TopicName, Shown] = {name: one for name in names if (one := self._find(name)) is not None}
        bases = set(names) - exact.keys()
        partitions: list[Shown] = [topic for topic in self._topics if topic.record.base in bases] if bases else []
        if bases:
            partitions += [record for record in self._states.unserved() if record.base in bases]
        missing = bases - {_record(topic).base for topic in partitions}
        for name in missing:
            for each in self._topics.matching(name):
                self._topics.refuse_remote(each)
        if missing:
            raise TopicNotFoundError(
                f"there is no topic {min(missing)}: list the topics of its namespace to see their names"
            )
        return {_name(topic): topic for topic in (*exact.values(), *partitions)}.values()

    def _find(self, name: TopicName) -> Shown | None:
        record = self._topics.find_remote(name)
        if record is not None and self._states.is_unserved(record):
            return record
        return self._topics.find(str(name))


def _record(topic: Shown) -> TopicRecord:
    return topic if isinstance(topic, TopicRecord) else topic.record


def _name(topic: Shown) -> TopicName:
    return _record(topic).name


def _is_wanted(topic: Shown, wanted: DescribeTopics) -> bool:
    after, name = wanted.after, _name(topic)
    if wanted.namespace is not None and name.namespace != wanted.namespace:
        return False
    if after is None:
        return True
    return str(name) > str(after.topic) or (name == after.topic and after.subscription is not None)


class _Page:
    """A page being filled, up to its bounds. The first subscription of a page always fits."""

    def __init__(self, broker_id: str, states: TopicStates, silence: str) -> None:
        """`silence` is the reason why what is in an object store is not shown."""
        self._broker_id = broker_id
        self._states = states
        self._silence = silence
        self._topics: list[TopicDescription] = []
        self._bytes = 0

    def fill(self, topics: list[Shown], wanted: DescribeTopics) -> TopicsPage:
        """The page that begins with these sorted topics."""
        for topic in topics:
            if len(self._topics) == wanted.page_size or self._bytes >= DESCRIBE_BYTES_MAX:
                return self._end(DescribeCursor(topic=self._topics[-1].topic))
            after = wanted.after
            if isinstance(topic, TopicRecord):
                self._add_unserved(topic)
                continue
            seen = after.subscription if after is not None and after.topic == topic.record.name else None
            if not self._add(topic, seen or ""):
                last = self._topics[-1]
                return self._end(DescribeCursor(topic=last.topic, subscription=last.subscriptions[-1].name))
        return self._end(None)

    def _end(self, cursor: DescribeCursor | None) -> TopicsPage:
        return TopicsPage(topics=tuple(self._topics), next=cursor)

    def _add_unserved(self, record: TopicRecord) -> None:
        self._bytes += _ENTRY_BYTES + len(str(record.name).encode())
        self._topics.append(_describe_unserved(record, self._states))

    def _add(self, topic: AnyTopic, seen: str) -> bool:
        """Add a topic with its subscriptions after `seen`; True if they all fit."""
        self._bytes += _ENTRY_BYTES + len(topic.name.encode())
        self._bytes += sum(len(one.subscription.encode()) for one in topic.record.pending)
        names = sorted(name for name in topic.subscriptions if name > seen)
        subscriptions: list[SubscriptionDescription] = []
        for name in names:
            if subscriptions and self._bytes >= DESCRIBE_BYTES_MAX:
                break
            subscription = _describe_subscription(topic, topic.subscriptions[name])
            subscriptions.append(subscription)
            self._bytes += _wire_bytes(subscription)
        state = self._states.of(topic.record)
        if isinstance(topic, ReliableTopic) and topic.is_lost:
            state = replace(state, reason=topic.lost_reason)
        elif self._silence and not state.reason and isinstance(topic, ReliableTopic) and topic.log.objects is not None:
            state = replace(state, reason=self._silence)
        self._topics.append(_describe_topic(topic, self._broker_id, state, tuple(subscriptions)))
        return len(subscriptions) == len(names)


def _wire_bytes(subscription: SubscriptionDescription) -> int:
    names = (subscription.name, *(consumer.name for consumer in subscription.consumers))
    return sum(_ENTRY_BYTES + len(name.encode()) for name in names)


def _describe_topic(
    topic: AnyTopic, broker_id: str, state: TopicState, subscriptions: tuple[SubscriptionDescription, ...]
) -> TopicDescription:
    record = topic.record
    log, expired = None, 0
    if isinstance(topic, ReliableTopic) and not topic.is_lost:
        log, expired = topic.log, topic.messages_expired
    return TopicDescription(
        topic=record.name,
        is_plain=record.is_plain,
        topic_id=record.topic_id,
        strategy=record.strategy,
        broker_id=broker_id,
        created_ms=record.created_ms,
        start_offset=log.start_offset if log else 0,
        end_offset=log.durable_end if log else 0,
        messages_in=topic.messages_in,
        bytes_in=topic.bytes_in,
        producers=len(topic.producers),
        subscription_count=len(topic.subscriptions),
        messages_expired=expired,
        storage=_with_objects(_describe_storage(log.stats, topic.limits), log.objects) if log else None,
        subscriptions=subscriptions,
        pending_policies=tuple(one.subscription for one in record.pending),
        state=state,
    )


def _describe_unserved(record: TopicRecord, states: TopicStates) -> TopicDescription:
    """A topic that nobody serves, as metadata has it; nothing is counted."""
    return TopicDescription(
        topic=record.name,
        is_plain=record.is_plain,
        topic_id=record.topic_id,
        strategy=record.strategy,
        broker_id=states.owner_id(record),
        created_ms=record.created_ms,
        start_offset=0,
        end_offset=0,
        messages_in=0,
        bytes_in=0,
        producers=0,
        subscription_count=0,
        subscriptions=(),
        pending_policies=tuple(one.subscription for one in record.pending),
        state=states.of(record),
    )


def _with_objects(described: TopicStorageDescription, objects: TopicObjects | None) -> TopicStorageDescription:
    if objects is None:
        return described
    use, counts = objects.use, objects.use.bill.of_topic(objects.topic_id)
    prices = use.bill.prices
    dollars = sum(prices.of_requests(kind, count) for kind, count in counts.items())
    kept = objects.stored_bytes / 1e9 * prices.stored_gb_month
    return replace(
        described,
        not_uploaded_bytes=objects.not_uploaded_bytes,
        not_uploaded_since_ms=objects.not_uploaded_since_ms,
        object_bytes=objects.stored_bytes,
        object_puts=counts.get(RequestKind.PUT, 0),
        object_gets=counts.get(RequestKind.GET, 0) + counts.get(RequestKind.HEAD, 0),
        object_lists=counts.get(RequestKind.LIST, 0),
        object_deletes=counts.get(RequestKind.DELETE, 0),
        object_month_dollars=projected_month(dollars, use.elapsed_s) + kept,
    )


def _describe_storage(stats: TopicStorageStats, limits: Limits) -> TopicStorageDescription:
    return TopicStorageDescription(
        stored_bytes=stats.body_bytes,
        segments=stats.segments,
        segment_file_bytes=stats.segment_file_bytes,
        oldest_ms=stats.oldest_append_ms,
        newest_ms=stats.newest_append_ms,
        unsynced_bytes=stats.unsynced_bytes,
        durability=durability_of(limits.durability),
    )


def _describe_subscription(topic: AnyTopic, subscription: AnySubscription) -> SubscriptionDescription:
    record, counts = subscription.record, subscription.counts
    return SubscriptionDescription(
        name=record.name,
        type=record.type,
        created_ms=record.created_ms,
        reliable=_reliable_state(topic, subscription),
        messages_out=counts.messages,
        bytes_out=counts.bytes,
        redelivered=counts.redelivered,
        nacked=subscription.nacked if isinstance(subscription, ReliableSubscription) else 0,
        dropped=subscription.dropped if isinstance(subscription, NonReliableSubscription) else 0,
        consumer_count=len(subscription.consumers),
        connected_count=subscription.connected(),
        consumers=_describe_consumers(subscription),
    )


def _reliable_state(topic: AnyTopic, subscription: AnySubscription) -> ReliableState | None:
    if not isinstance(topic, ReliableTopic) or not isinstance(subscription, ReliableSubscription) or topic.is_lost:
        return None
    engine = subscription.driver.engine
    position, lag = engine.cursor.position, engine.lag
    return ReliableState(
        position=position,
        acknowledged_beyond=engine.durable_end - position - lag,
        lag=lag,
        in_flight=engine.in_flight,
        waiting=engine.waiting,
        ready=engine.ready,
        oldest_unacknowledged_ms=subscription.oldest_unread_ms if lag else None,
        blocked=engine.blocked_messages,
        dead_letters=engine.dead_letters,
    )


def _describe_consumers(subscription: AnySubscription) -> tuple[ConsumerDescription, ...]:
    shown = nsmallest(DESCRIBE_CONSUMERS_MAX, subscription.consumers.values(), key=_connected_first)
    in_flight: dict[int, int] = {}
    if isinstance(subscription, ReliableSubscription):
        in_flight = {view.consumer_id: view.in_flight for view in subscription.driver.engine.consumers}
    return tuple(
        ConsumerDescription(
            name=consumer.name,
            consumer_id=consumer.consumer_id,
            is_connected=consumer.stream is not None,
            in_flight=in_flight.get(consumer.consumer_id, 0),
        )
        for consumer in shown
    )


def _connected_first(consumer: Consumer) -> tuple[bool, str]:
    return consumer.stream is None, consumer.name
