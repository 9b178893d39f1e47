"""States of the metadata to take backups of, and backups of them."""

from danube.metadata.backup.format import Backup, Origin
from danube.metadata.commands import Applied, Lease
from danube.metadata.records import keys
from danube.metadata.records.cluster import encode_cluster_id
from danube.metadata.records.record_format import (
    NamespaceRecord,
    TopicRecord,
    encode_counter,
    encode_namespace,
    encode_tombstone,
    encode_topic,
)
from danube.metadata.state import StateSnapshot
from danube.metadata.store import Entry
from danube.model.topic import DispatchStrategy, TopicName

BROKER = 77
OTHER = 88
CLUSTER = "00000000000000ab"
RESTORE = "00000000000000cd"


def topic(name: str, topic_id: int, owner: int = 0) -> Entry:
    """A topic's entry; without an owner as versions before clusters wrote it."""
    record = TopicRecord(TopicName("default", name), topic_id, DispatchStrategy.RELIABLE, 5, broker=owner)
    return Entry(keys.topic(record.name), encode_topic(record), topic_id, topic_id)


def snapshot(*more: Entry) -> StateSnapshot:
    """Namespaces, topics, a broker that runs, and what is remembered."""
    entries = [
        Entry(keys.CLUSTER_ID, encode_cluster_id(CLUSTER), 1, 1),
        Entry(keys.registered_broker(BROKER), b"{}", 6, 6, lease_id=3),
        Entry(keys.TOPIC_ID_COUNTER, encode_counter(5), 1, 5),
        Entry(keys.namespace("default"), encode_namespace(NamespaceRecord("default")), 2, 2),
        Entry(keys.deleted_topic(3), encode_tombstone(0), 4, 4),
        topic("mine", 4),
        topic("theirs", 5, OTHER),
        *more,
    ]
    ordered = tuple(sorted(entries, key=lambda entry: entry.key))
    return StateSnapshot(9, 3, ordered, (Lease(3, 32.0, 4),), (("done", Applied(9)),))


def backup(taken: StateSnapshot | None = None, kind: str = "raft") -> Backup:
    """A backup of a broker's own metadata."""
    origin = Origin(
        kind=kind, place="/var/lib/danube", taken_ms=1_000, danube="0.1.0", cluster_id=CLUSTER, broker_id=BROKER
    )
    return Backup(origin, taken or snapshot())
