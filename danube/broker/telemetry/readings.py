"""Telemetry readings of a broker, its topics and its subscriptions at this moment."""

from itertools import chain

from danube.broker.dispatch.attached import AttachedConsumer
from danube.broker.subscriptions.subscription import AnySubscription, NonReliableSubscription, ReliableSubscription
from danube.broker.telemetry.changes import Mark
from danube.broker.topics.topic import AnyTopic, ReliableTopic
from danube.model.records.telemetry import BrokerReading, SilentConsumer, SubscriptionReading, TopicReading
from danube.runtime.process import ProcessUsage
from danube.storage.log.topic_log import TopicLog
from danube.storage.store import Storage


class Totals:
    """Sums over all topics of one tick."""

    def __init__(self) -> None:
        self.topics = self.subscriptions = self.producers = self.consumers = 0

    def add(self, topic: AnyTopic) -> None:
        """One more topic."""
        self.topics += 1
        self.subscriptions += len(topic.subscriptions)
        self.producers += len(topic.producers)
        self.consumers += _connected(topic)


def mark_topic(topic: AnyTopic) -> Mark:
    """A mark that differs whenever the topic's reading does."""
    mark = (
        topic.record.topic_id,
        topic.messages_in,
        topic.bytes_in,
        len(topic.producers),
        len(topic.subscriptions),
        _connected(topic),
    )
    if not isinstance(topic, ReliableTopic):
        return mark
    return (*mark, topic.log.start_offset, topic.log.durable_end, topic.messages_expired)


def mark_subscription(topic: AnyTopic, subscription: AnySubscription) -> Mark:
    """A mark that differs whenever the subscription's reading does."""
    mark = (
        subscription.record.subscription_id,
        subscription.connected(),
        len(subscription.consumers),
        subscription.counts.messages,
    )
    if isinstance(subscription, NonReliableSubscription):
        return (*mark, subscription.dropped)
    engine = subscription.driver.engine
    start_offset = topic.log.start_offset if isinstance(topic, ReliableTopic) else 0
    return (
        *mark,
        start_offset,
        engine.durable_end,
        engine.position,
        subscription.oldest_unread_ms or 0,
        engine.lag,
        engine.in_flight,
        engine.waiting,
        engine.ready,
        engine.blocked_messages,
        subscription.counts.redelivered,
        subscription.nacked,
        engine.acknowledged,
        round((engine.acknowledged_s or 0) * 1_000),
        engine.generation,
        engine.failures.timed_out,
        *chain.from_iterable((one.consumer_id, one.in_flight, round(one.sign_s * 1_000)) for one in engine.most_silent),
        *(_retention(topic, subscription) if isinstance(topic, ReliableTopic) else ()),
        topic.dispatch_rate,
    )


def _retention(topic: ReliableTopic, subscription: ReliableSubscription) -> tuple[int | None, int | None]:
    """Time at which retention deletes the message at the position, and messages that may arrive until then.

    A segment is deleted when all of it is older than the limit. What is in none yet stays in the journal for as long as
    the limit, and shares a segment with what comes until then.
    """
    limits, engine = topic.limits, subscription.driver.engine
    oldest_ms, log = subscription.oldest_unread_ms, topic.log
    if not limits.retention_drops_unread or oldest_ms is None:
        return None, None
    kept = log.durable_end - log.start_offset
    fit = limits.retention_bytes * kept // max(1, log.body_bytes) if limits.retention_bytes else None
    age_ms, newest_ms = limits.retention_time_s * 1_000, log.segment_newest_ms(engine.position)
    return (
        (oldest_ms + 2 * age_ms if newest_ms is None else newest_ms + age_ms) if age_ms else None,
        max(0, fit - (engine.durable_end - engine.position)) if fit is not None else None,
    )


def read_topic(topic: AnyTopic) -> TopicReading:
    """The reading of a topic."""
    name = topic.record.name
    base = topic.record.base
    reading = TopicReading(
        topic=topic.name,
        topic_id=str(topic.record.topic_id),
        strategy=topic.record.strategy.name.lower(),
        partition_base=None if base is None else str(base),
        partition_index=None if base is None else name.partition_index,
        messages_in=topic.messages_in,
        bytes_in=topic.bytes_in,
        producers=len(topic.producers),
        subscriptions=len(topic.subscriptions),
        consumers=_connected(topic),
    )
    if not isinstance(topic, ReliableTopic):
        return reading
    return _with_log(reading, topic.log)._replace(messages_expired=topic.messages_expired)


def read_subscription(topic: AnyTopic, subscription: AnySubscription) -> SubscriptionReading:
    """The reading of a subscription; all its values are of the same moment."""
    record = subscription.record
    reading = SubscriptionReading(
        topic=topic.name,
        topic_id=str(topic.record.topic_id),
        subscription=record.name,
        subscription_id=str(record.subscription_id),
        type=record.type.name.lower(),
        consumers=subscription.connected(),
        consumers_known=len(subscription.consumers),
        messages_out=subscription.counts.messages,
    )
    if isinstance(subscription, NonReliableSubscription):
        return reading._replace(dropped=subscription.dropped)
    if not isinstance(topic, ReliableTopic):
        return reading
    deadline_ms, messages_left = _retention(topic, subscription)
    return _with_moves(_with_progress(reading, subscription, topic.log), subscription)._replace(
        dispatch_limit=topic.dispatch_rate or None,
        retention_deadline_ms=deadline_ms,
        retention_messages_left=messages_left,
    )


def read_broker(storage: Storage, totals: Totals, usage: ProcessUsage, version: str, uptime_s: float) -> BrokerReading:
    """The reading of the broker."""
    of_all = storage.stats
    stats = of_all.journal
    return BrokerReading(
        broker_version=version,
        uptime_s=round(uptime_s, 3),
        topics=totals.topics,
        subscriptions=totals.subscriptions,
        producers=totals.producers,
        consumers=totals.consumers,
        cpu_s=round(usage.cpu_s, 3),
        rss_bytes=usage.rss_bytes,
        journal_rounds=stats.rounds,
        journal_failed_rounds=stats.failed_rounds,
        journal_bytes_written=stats.bytes_written,
        journal_size_bytes=stats.size_bytes,
        journal_backlog_bytes=stats.backlog_bytes,
        journal_last_round_ms=round(stats.last_round_ms, 3),
        journal_stopped=storage.stopped is not None,
        segments=of_all.segments,
        segment_bytes=of_all.segment_file_bytes,
        disk_free_bytes=of_all.free_bytes,
        disk_refuses=storage.refuses is not None,
    )


def _connected(topic: AnyTopic) -> int:
    return sum(subscription.connected() for subscription in topic.subscriptions.values())


def _with_log(reading: TopicReading, log: TopicLog) -> TopicReading:
    stats = log.stats
    return reading._replace(
        start_offset=stats.start_offset,
        head=stats.end_offset,
        start_append_ms=stats.oldest_append_ms,
        head_append_ms=stats.newest_append_ms,
        log_bytes=stats.body_bytes,
    )


def _with_progress(
    reading: SubscriptionReading, subscription: ReliableSubscription, log: TopicLog
) -> SubscriptionReading:
    engine = subscription.driver.engine
    head, position, lag = engine.durable_end, engine.position, engine.lag
    return reading._replace(
        start_offset=log.start_offset,
        head=head,
        position=position,
        acknowledged_beyond=head - position - lag,
        lag_messages=lag,
        in_flight=engine.in_flight,
        waiting=engine.waiting,
        ready=engine.ready,
        redelivered=subscription.counts.redelivered,
        nacked=subscription.nacked,
        oldest_unread_append_ms=subscription.oldest_unread_ms,
        head_append_ms=log.append_time_at_hand(head - 1),
        blocked=engine.blocked_messages,
    )


def _with_moves(reading: SubscriptionReading, subscription: ReliableSubscription) -> SubscriptionReading:
    """With what moved the position, what failed, and the consumers that are silent for the longest time."""
    engine = subscription.driver.engine
    passed, failures, worst = engine.passed_over, engine.failures, engine.worst_failure
    return reading._replace(
        acknowledged=engine.acknowledged,
        last_acknowledged_ms=None if engine.acknowledged_s is None else subscription.wall_ms(engine.acknowledged_s),
        skipped=passed.total - passed.expired - passed.trimmed + engine.unclaimed,
        expired=passed.expired,
        trimmed=passed.trimmed,
        seeks=engine.generation,
        timed_out=failures.timed_out,
        disconnected=failures.disconnected,
        failures=worst.failures if worst else 0,
        failed_offset=worst.start if worst else None,
        failed_on=len(failures.consumers) if failures.offset == engine.position else 0,
        silent=tuple(_silent(subscription, each) for each in engine.most_silent) or None,
    )


def _silent(subscription: ReliableSubscription, silent: AttachedConsumer) -> SilentConsumer:
    found = next((each for each in subscription.consumers.values() if each.consumer_id == silent.consumer_id), None)
    return SilentConsumer(
        name=found.name if found else str(silent.consumer_id),
        host=found.stream.caller.address if found and found.stream else None,
        since_ms=subscription.wall_ms(silent.sign_s),
        in_flight=silent.in_flight,
        offset=min((each.start for each in silent.held), default=None),
    )
