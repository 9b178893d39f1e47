"""Protobuf bytes -> model values, for the package `danube.control`. Rejects as `decode` does."""

from danube.model.calls.admin import (
    BrokerDescription,
    BrokerInfo,
    ConsumerDescription,
    DescribeCursor,
    DescribeTopics,
    JournalDescription,
    ReliableState,
    StorageDescription,
    SubscriptionDescription,
    TopicDescription,
    TopicsPage,
    TopicStorageDescription,
)
from danube.model.errors import InvalidRequestError
from danube.model.limits.broker import DESCRIBE_NAMES_MAX, DESCRIBE_TOPICS_DEFAULT, DESCRIBE_TOPICS_MAX
from danube.model.plans.durability import durability_of
from danube.model.subscription import SubscriptionType
from danube.model.topic import DispatchStrategy, check_name_part
from danube.wire.encode_control import AFTER_TOPIC
from danube.wire.gen import DanubeControl_pb2
from danube.wire.interceptors import member, member_name, parse, topic_name

# Requests


def describe_topics(request: bytes) -> DescribeTopics:
    """A DescribeTopicsRequest; a page size beyond the bound becomes the bound."""
    message = parse(DanubeControl_pb2.DescribeTopicsRequest, request)
    if len(message.topics) > DESCRIBE_NAMES_MAX:
        raise InvalidRequestError(
            f"{len(message.topics)} topics cannot be named in one call: name up to {DESCRIBE_NAMES_MAX}"
        )
    return DescribeTopics(
        namespace=check_name_part("namespace", message.namespace) if message.namespace else None,
        topics=tuple(topic_name(name) for name in message.topics),
        page_size=min(message.page_size or DESCRIBE_TOPICS_DEFAULT, DESCRIBE_TOPICS_MAX),
        after=_cursor(message.page_token),
    )


def _cursor(page_token: str) -> DescribeCursor | None:
    if not page_token:
        return None
    topic, separator, subscription = page_token.partition(AFTER_TOPIC)
    return DescribeCursor(
        topic=topic_name(topic), subscription=member_name("subscription", subscription) if separator else None
    )


# Answers


def topics_page(response: bytes) -> TopicsPage:
    """A DescribeTopicsResponse."""
    message = parse(DanubeControl_pb2.DescribeTopicsResponse, response)
    return TopicsPage(topics=tuple(_topic(topic) for topic in message.topics), next=_cursor(message.next_page_token))


def _topic(message: DanubeControl_pb2.Topic) -> TopicDescription:
    return TopicDescription(
        topic=topic_name(message.name),
        topic_id=message.topic_id,
        strategy=member(DispatchStrategy, message.dispatch_strategy),
        broker_id=message.broker_id,
        created_ms=message.created_ms,
        start_offset=message.start_offset,
        end_offset=message.end_offset,
        messages_in=message.messages_in,
        bytes_in=message.bytes_in,
        producers=message.producers,
        subscription_count=message.subscription_count,
        messages_expired=message.messages_expired,
        pending_policies=tuple(message.pending_policies),
        storage=_topic_storage(message.storage) if message.HasField("storage") else None,
        subscriptions=tuple(_subscription(subscription) for subscription in message.subscriptions),
    )


def _topic_storage(message: DanubeControl_pb2.TopicStorage) -> TopicStorageDescription:
    return TopicStorageDescription(
        stored_bytes=message.stored_bytes,
        segments=message.segments,
        segment_file_bytes=message.segment_file_bytes,
        oldest_ms=message.oldest_ms if message.HasField("oldest_ms") else None,
        newest_ms=message.newest_ms if message.HasField("newest_ms") else None,
        unsynced_bytes=message.unsynced_bytes,
        durability=durability_of(message.durability) if message.HasField("durability") else None,
    )


def _subscription(message: DanubeControl_pb2.Subscription) -> SubscriptionDescription:
    return SubscriptionDescription(
        name=message.name,
        type=member(SubscriptionType, message.subscription_type),
        created_ms=message.created_ms,
        reliable=_reliable(message.reliable) if message.HasField("reliable") else None,
        messages_out=message.messages_out,
        bytes_out=message.bytes_out,
        redelivered=message.redelivered,
        nacked=message.nacked,
        dropped=message.dropped,
        consumer_count=message.consumer_count,
        connected_count=message.connected_count,
        consumers=tuple(_consumer(consumer) for consumer in message.consumers),
    )


def _reliable(message: DanubeControl_pb2.ReliableState) -> ReliableState:
    has_oldest = message.HasField("oldest_unacknowledged_ms")
    return ReliableState(
        position=message.position,
        acknowledged_beyond=message.acknowledged_beyond,
        lag=message.lag,
        in_flight=message.in_flight,
        waiting=message.waiting,
        ready=message.ready,
        oldest_unacknowledged_ms=message.oldest_unacknowledged_ms if has_oldest else None,
        blocked=message.blocked,
        dead_letters=message.dead_letters,
    )


def _consumer(message: DanubeControl_pb2.Consumer) -> ConsumerDescription:
    return ConsumerDescription(
        name=message.name,
        consumer_id=message.consumer_id,
        is_connected=message.connected,
        in_flight=message.in_flight,
    )


def broker_description(response: bytes) -> BrokerDescription:
    """A DescribeBrokerResponse."""
    message = parse(DanubeControl_pb2.DescribeBrokerResponse, response)
    return BrokerDescription(
        info=BrokerInfo(
            broker_id=message.broker_id,
            broker_url=message.broker_url,
            role=message.role,
            status=message.status,
            admin_url=message.admin_url,
            metrics_url=message.metrics_url,
        ),
        connect_url=message.connect_url,
        cluster_name=message.cluster_name,
        mode=message.mode,
        version=message.version,
        uptime_s=message.uptime_seconds,
        topics=message.topics,
        subscriptions=message.subscriptions,
        producers=message.producers,
        consumers=message.consumers,
        journal=_journal(message.journal),
        storage=_storage(message.storage) if message.HasField("storage") else None,
        blocked_subscriptions=message.blocked_subscriptions if message.HasField("blocked_subscriptions") else None,
    )


def _journal(message: DanubeControl_pb2.Journal) -> JournalDescription:
    return JournalDescription(
        rounds=message.rounds,
        failed_rounds=message.failed_rounds,
        bytes_written=message.bytes_written,
        syncs=message.syncs,
        files=message.files,
        size_bytes=message.size_bytes,
        backlog_bytes=message.backlog_bytes,
        cache_bytes=message.cache_bytes,
        last_round_ms=message.last_round_ms,
        stopped_reason=message.stopped_reason if message.HasField("stopped_reason") else None,
    )


def _storage(message: DanubeControl_pb2.Storage) -> StorageDescription:
    return StorageDescription(
        segments=message.segments,
        segment_file_bytes=message.segment_file_bytes,
        cut_passes=message.cut_passes,
        merged_segments=message.merged_segments,
        dropped_segments=message.dropped_segments,
        freed_bytes=message.freed_bytes,
        troubled_topics=message.troubled_topics,
        refused_topics=message.refused_topics,
        disk_free_bytes=message.disk_free_bytes if message.HasField("disk_free_bytes") else None,
        disk_is_low=message.disk_is_low,
        refused_reason=message.refused_reason if message.HasField("refused_reason") else None,
    )
