"""What a cluster knows of its brokers: which of them run, who leads, and what tells it from other clusters."""

from contextlib import suppress
from dataclasses import dataclass

from danube.metadata.records import keys
from danube.metadata.records.record_fields import Fields, encode_fields
from danube.metadata.store import Entry, MetadataStore
from danube.model.errors import MetadataError, VersionConflictError
from danube.runtime.rng import Rng


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRegistration:
    """A broker that runs."""

    broker_id: int
    start_id: int
    """Of this start of the broker."""
    broker_url: str
    connect_url: str
    """What clients dial; another than `broker_url` where a proxy stands in front."""
    admin_url: str
    metrics_url: str = ""
    """Empty without a metrics port."""
    version: str = ""
    node_id: int = 0
    """Of its member of the Raft group; 0 where there is none."""


def encode_registration(record: BrokerRegistration) -> bytes:
    """The value of a broker that runs: its id is in the key."""
    return encode_fields(
        start_id=record.start_id,
        broker_url=record.broker_url,
        connect_url=record.connect_url,
        admin_url=record.admin_url,
        metrics_url=record.metrics_url,
        danube=record.version,
        node_id=record.node_id,
    )


def decode_registration(entry: Entry) -> BrokerRegistration:
    """The broker that an entry holds. Raises MetadataError."""
    fields = Fields(entry)
    return BrokerRegistration(
        broker_id=keys.parse_registered_broker(entry.key),
        start_id=fields.number("start_id"),
        broker_url=fields.text("broker_url"),
        connect_url=fields.text("connect_url"),
        admin_url=fields.text("admin_url"),
        metrics_url=fields.text("metrics_url"),
        version=fields.text("danube"),
        node_id=fields.number_or_none("node_id") or 0,
    )


def encode_leader(broker_id: int) -> bytes:
    """The value that says who leads."""
    return encode_fields(broker_id=broker_id)


def decode_leader(entry: Entry) -> int:
    """Who leads. Raises MetadataError."""
    return Fields(entry).number("broker_id")


def decode_cluster_id(entry: Entry) -> str:
    """What tells metadata from any other. Raises MetadataError."""
    return Fields(entry).text("cluster_id")


async def own_cluster_id(store: MetadataStore, rng: Rng) -> str:
    """What tells this metadata from any other: given to it once, by whoever comes first. Raises MetadataError."""
    entry = await store.get(keys.CLUSTER_ID, linearizable=True)
    if entry is None:
        made = encode_fields(cluster_id=f"{rng.new_id():016x}")
        with suppress(VersionConflictError):  # another broker of the same cluster was faster
            await store.compare_and_set(keys.CLUSTER_ID, made, revision=0)
        entry = await store.get(keys.CLUSTER_ID, linearizable=True)
    if entry is None:
        raise MetadataError(f"metadata key {keys.CLUSTER_ID} was removed: restore the metadata from a backup")
    return decode_cluster_id(entry)
