"""System topics of a broker that stood alone, as its partitions of the cluster's: each broker of a cluster has one."""

from dataclasses import replace

from danube.metadata.records import keys
from danube.metadata.records.record_format import (
    decode_consumer,
    decode_subscription,
    decode_topic,
    encode_consumer,
    encode_partitioned,
    encode_subscription,
    encode_topic,
)
from danube.metadata.store import Delete, MetadataStore, Put, Transaction, Write
from danube.metadata.transaction_builder import settle
from danube.model.records.audit import AUDIT_TOPIC
from danube.model.records.telemetry import TELEMETRY_TOPIC
from danube.model.topic import TopicName
from danube.runtime.rng import Rng


async def part_system_topics(store: MetadataStore, rng: Rng) -> None:
    """Have each, with all that is below it, be partition 0 of its name; no message changes. It can be done again.

    Raises MetadataError.
    """
    for topic in (AUDIT_TOPIC, TELEMETRY_TOPIC):
        if writes := await _as_partition(store, topic):
            await settle(store, Transaction(f"{rng.new_id():016x}", (), tuple(writes)))


async def _as_partition(store: MetadataStore, topic: TopicName) -> list[Write]:
    """The writes that make the topic its partition 0; none when that was done."""
    entry = await store.get(keys.topic(topic), linearizable=True)
    if entry is None:
        return []
    partition = topic.partition(0)
    writes: list[Write] = [
        Put(keys.topic(partition), encode_topic(replace(decode_topic(entry), name=partition))),
        Put(keys.partitioned(topic), encode_partitioned(frozenset({0}))),
        Delete(keys.topic(topic)),
    ]
    epoch = await store.get(keys.producer_epoch(topic))
    if epoch is not None:
        writes += [Put(keys.producer_epoch(partition), epoch.value), Delete(keys.producer_epoch(topic))]
    for each in await store.list(keys.subscriptions_of(topic)):
        subscription = replace(decode_subscription(each), topic=partition)
        writes += [
            Delete(each.key),
            Put(keys.subscription(partition, subscription.name), encode_subscription(subscription)),
        ]
    for each in await store.list(keys.consumers_of_topic(topic)):
        consumer = replace(decode_consumer(each), topic=partition)
        key = keys.consumer(partition, consumer.subscription, consumer.name)
        writes += [Delete(each.key), Put(key, encode_consumer(consumer))]
    return writes
