"""Model values -> protobuf bytes, for the package `danube.control`."""

from danube.model.calls.admin import (
    BrokerDescription,
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
from danube.wire.gen import DanubeControl_pb2

AFTER_TOPIC = "\n"
"""Between topic and subscription in a page token: no name has it."""

# Requests


def describe_topics(call: DescribeTopics) -> bytes:
    """A DescribeTopicsRequest."""
    message = DanubeControl_pb2.DescribeTopicsRequest(
        namespace=call.namespace,
        topics=[str(name) for name in call.topics],
        page_size=call.page_size,
        page_token=_page_token(call.after),
    )
    return message.SerializeToString()


def describe_broker() -> bytes:
    """A DescribeBrokerRequest."""
    return DanubeControl_pb2.DescribeBrokerRequest().SerializeToString()


def _page_token(cursor: DescribeCursor | None) -> str:
    if cursor is None:
        return ""
    if cursor.subscription is None:
        return str(cursor.topic)
    return f"{cursor.topic}{AFTER_TOPIC}{cursor.subscription}"


# Answers


def topics_page(page: TopicsPage) -> bytes:
    """A DescribeTopicsResponse."""
    message = DanubeControl_pb2.DescribeTopicsResponse(
        topics=[_topic(topic) for topic in page.topics], next_page_token=_page_token(page.next)
    )
    return message.SerializeToString()


def _topic(topic: TopicDescription) -> DanubeControl_pb2.Topic:
    return DanubeControl_pb2.Topic(
        name=str(topic.topic),
        topic_id=topic.topic_id,
        dispatch_strategy=topic.strategy,
        broker_id=topic.broker_id,
        created_ms=topic.created_ms,
        start_offset=topic.start_offset,
        end_offset=topic.end_offset,
        messages_in=topic.messages_in,
        bytes_in=topic.bytes_in,
        producers=topic.producers,
        subscription_count=topic.subscription_count,
        messages_expired=topic.messages_expired,
        pending_policies=topic.pending_policies,
        storage=_topic_storage(topic.storage) if topic.storage else None,
        subscriptions=[_subscription(subscription) for subscription in topic.subscriptions],
    )


def _topic_storage(storage: TopicStorageDescription) -> DanubeControl_pb2.TopicStorage:
    return DanubeControl_pb2.TopicStorage(
        stored_bytes=storage.stored_bytes,
        segments=storage.segments,
        segment_file_bytes=storage.segment_file_bytes,
        oldest_ms=storage.oldest_ms,
        newest_ms=storage.newest_ms,
        unsynced_bytes=storage.unsynced_bytes,
        durability=storage.durability.number if storage.durability is not None else None,
    )


def _subscription(subscription: SubscriptionDescription) -> DanubeControl_pb2.Subscription:
    return DanubeControl_pb2.Subscription(
        name=subscription.name,
        subscription_type=subscription.type,
        created_ms=subscription.created_ms,
        reliable=_reliable(subscription.reliable) if subscription.reliable else None,
        messages_out=subscription.messages_out,
        bytes_out=subscription.bytes_out,
        redelivered=subscription.redelivered,
        nacked=subscription.nacked,
        dropped=subscription.dropped,
        consumer_count=subscription.consumer_count,
        connected_count=subscription.connected_count,
        consumers=[_consumer(consumer) for consumer in subscription.consumers],
    )


def _reliable(state: ReliableState) -> DanubeControl_pb2.ReliableState:
    return DanubeControl_pb2.ReliableState(
        position=state.position,
        acknowledged_beyond=state.acknowledged_beyond,
        lag=state.lag,
        in_flight=state.in_flight,
        waiting=state.waiting,
        ready=state.ready,
        oldest_unacknowledged_ms=state.oldest_unacknowledged_ms,
        blocked=state.blocked,
        dead_letters=state.dead_letters,
    )


def _consumer(consumer: ConsumerDescription) -> DanubeControl_pb2.Consumer:
    return DanubeControl_pb2.Consumer(
        name=consumer.name,
        consumer_id=consumer.consumer_id,
        connected=consumer.is_connected,
        in_flight=consumer.in_flight,
    )


def broker_description(broker: BrokerDescription) -> bytes:
    """A DescribeBrokerResponse."""
    message = DanubeControl_pb2.DescribeBrokerResponse(
        broker_id=broker.info.broker_id,
        broker_url=broker.info.broker_url,
        connect_url=broker.connect_url,
        admin_url=broker.info.admin_url,
        metrics_url=broker.info.metrics_url,
        role=broker.info.role,
        status=broker.info.status,
        cluster_name=broker.cluster_name,
        mode=broker.mode,
        version=broker.version,
        uptime_seconds=broker.uptime_s,
        healthy=broker.is_healthy,
        topics=broker.topics,
        subscriptions=broker.subscriptions,
        producers=broker.producers,
        consumers=broker.consumers,
        journal=_journal(broker.journal),
        storage=_storage(broker.storage) if broker.storage else None,
        blocked_subscriptions=broker.blocked_subscriptions,
    )
    return message.SerializeToString()


def _journal(journal: JournalDescription) -> DanubeControl_pb2.Journal:
    return DanubeControl_pb2.Journal(
        rounds=journal.rounds,
        failed_rounds=journal.failed_rounds,
        bytes_written=journal.bytes_written,
        syncs=journal.syncs,
        files=journal.files,
        size_bytes=journal.size_bytes,
        backlog_bytes=journal.backlog_bytes,
        cache_bytes=journal.cache_bytes,
        last_round_ms=journal.last_round_ms,
        stopped_reason=journal.stopped_reason,
    )


def _storage(storage: StorageDescription) -> DanubeControl_pb2.Storage:
    return DanubeControl_pb2.Storage(
        segments=storage.segments,
        segment_file_bytes=storage.segment_file_bytes,
        cut_passes=storage.cut_passes,
        merged_segments=storage.merged_segments,
        dropped_segments=storage.dropped_segments,
        freed_bytes=storage.freed_bytes,
        troubled_topics=storage.troubled_topics,
        refused_topics=storage.refused_topics,
        disk_free_bytes=storage.disk_free_bytes,
        disk_is_low=storage.disk_is_low,
        refused_reason=storage.refused_reason,
    )
