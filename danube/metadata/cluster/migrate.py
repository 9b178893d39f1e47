"""Migration of a standalone broker's metadata that a restore has put into the store of a cluster.

Its topics get this broker as their owner. The system topics that it wrote alone become its partitions of the cluster's.
Each step can be repeated: a broker that died in the middle begins anew.
"""

from collections.abc import Sequence
from dataclasses import replace

from danube.metadata.records import keys
from danube.metadata.records.record_format import (
    decode_consumer,
    decode_subscription,
    decode_tombstone,
    decode_topic,
    encode_consumer,
    encode_partitioned,
    encode_subscription,
    encode_tombstone,
    encode_topic,
)
from danube.metadata.store import Delete, MetadataStore, Put, Transaction, Write
from danube.metadata.transaction_builder import settle
from danube.model.errors import DataFolderError
from danube.model.limits.metadata import MIGRATED_TOPICS_PER_CHANGE
from danube.model.records.audit import AUDIT_TOPIC
from danube.model.records.telemetry import TELEMETRY_TOPIC
from danube.model.topic import TopicName
from danube.runtime.rng import Rng


async def migrate_to_cluster(store: MetadataStore, rng: Rng, broker_id: int) -> int:
    """Have topics that nobody owns be this broker's; answers how many there were. Raises MetadataError."""
    for topic in (AUDIT_TOPIC, TELEMETRY_TOPIC):
        writes = await _as_partition(store, topic)
        if writes:
            await _change(store, rng, writes)
    owned = await _owned(store, broker_id)
    for start in range(0, len(owned), MIGRATED_TOPICS_PER_CHANGE):
        await _change(store, rng, owned[start : start + MIGRATED_TOPICS_PER_CHANGE])
    return len(owned)


async def check_not_older(store: MetadataStore, own: MetadataStore) -> None:
    """Raise DataFolderError where a broker's own metadata has topics that the cluster's does not know.

    Their messages would be taken for those of deleted topics: what was migrated is older than the folder.
    """
    known = {decode_topic(entry).topic_id for entry in await store.list(keys.TOPICS, linearizable=True)}
    records = [decode_topic(entry) for entry in await own.list(keys.TOPICS)]
    missing = sorted(str(record.name) for record in records if record.topic_id not in known)
    if missing:
        raise DataFolderError(
            f"{len(missing)} topics of this broker, such as {missing[0]}, are not in the metadata of the cluster: what"
            " was restored there is older than this folder. Back its metadata up again, and restore that"
        )


async def _as_partition(store: MetadataStore, topic: TopicName) -> list[Write]:
    """The topic with all that is below it, under the name of its partition 0; nothing when that was done."""
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


async def _owned(store: MetadataStore, broker_id: int) -> list[Write]:
    """Topics and tombstones that say of no broker that it is theirs, with this one."""
    topics = [entry for entry in await store.list(keys.TOPICS, linearizable=True) if not decode_topic(entry).broker]
    gone = [entry for entry in await store.list(keys.DELETED_TOPICS) if not decode_tombstone(entry)]
    return [
        *(Put(entry.key, encode_topic(replace(decode_topic(entry), broker=broker_id))) for entry in topics),
        *(Put(entry.key, encode_tombstone(broker_id)) for entry in gone),
    ]


async def _change(store: MetadataStore, rng: Rng, writes: Sequence[Write]) -> None:
    await settle(store, Transaction(f"{rng.new_id():016x}", (), tuple(writes)))
