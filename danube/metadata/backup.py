"""Metadata as a whole: taken out of one store, and put into another of whatever kind.

What lives by a lease is left out: whoever held it is not there. Revisions are the new store's own. A store that is being
filled says so with `/cluster/restoring`, so that no broker takes half of it for the whole.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from danube.metadata import keys
from danube.metadata.cluster_records import decode_cluster_id
from danube.metadata.draft import settle
from danube.metadata.record_fields import encode_fields
from danube.metadata.record_format import (
    decode_tombstone,
    decode_topic,
    encode_partitioned,
    encode_tombstone,
    encode_topic,
)
from danube.metadata.state import StateImage
from danube.metadata.store import Condition, Delete, DeletePrefix, Entry, MetadataStore, Put, Transaction, Write
from danube.model.audit import AUDIT_TOPIC
from danube.model.errors import PreconditionFailedError
from danube.model.limits import METADATA_RESTORE_BATCH_BYTES, METADATA_RESTORE_BATCH_KEYS
from danube.model.telemetry import TELEMETRY_TOPIC
from danube.model.topic import TopicName
from danube.runtime.rng import Rng

EVERYTHING = "/"


@dataclass(frozen=True, slots=True)
class Contents:
    """What there is, counted."""

    cluster_id: str
    revision: int
    keys: int
    bytes: int
    """Of keys and values."""
    families: tuple[tuple[str, int], ...]
    """The first part of the keys, and how many have it; sorted."""
    owners: tuple[tuple[int, int], ...]
    """Brokers, and how many topics each serves; 0 where that was not written down."""


async def take_image(store: MetadataStore) -> StateImage:
    """All that is in a store by now. Raises MetadataError."""
    entries = tuple(entry for entry in await store.list(EVERYTHING, linearizable=True) if not entry.lease_id)
    return StateImage(revision=max((entry.revision for entry in entries), default=0), entries=entries)


def contents_of(image: StateImage) -> Contents:
    """What an image holds. Raises MetadataError for a record that cannot be read."""
    topics = [decode_topic(entry) for entry in _below(image, keys.TOPICS)]
    families = Counter(f"/{entry.key.split('/')[1]}" for entry in image.entries)
    return Contents(
        cluster_id=next((decode_cluster_id(entry) for entry in image.entries if entry.key == keys.CLUSTER_ID), ""),
        revision=image.revision,
        keys=len(image.entries),
        bytes=sum(len(entry.key.encode()) + len(entry.value) for entry in image.entries),
        families=tuple(sorted(families.items())),
        owners=tuple(sorted(Counter(topic.owner for topic in topics).items())),
    )


def owned_by(image: StateImage, broker_id: int) -> StateImage:
    """With an owner for every topic: this broker, where none was written down."""

    def owned(entry: Entry) -> Entry:
        if entry.key.startswith(f"{keys.TOPICS}/"):
            record = decode_topic(entry)
            return entry if record.owner else replace(entry, value=encode_topic(replace(record, owner=broker_id)))
        if entry.key.startswith(f"{keys.DELETED_TOPICS}/"):
            return entry if decode_tombstone(entry) else replace(entry, value=encode_tombstone(broker_id))
        return entry

    return replace(image, entries=tuple(map(owned, image.entries)))


def for_cluster(image: StateImage) -> StateImage:
    """With what a broker writes itself, which it has alone, as its partition of what all brokers of a cluster write."""
    for topic in (AUDIT_TOPIC, TELEMETRY_TOPIC):
        if any(entry.key == keys.topic(topic) for entry in image.entries):
            image = _as_partition(image, topic)
    return image


def _as_partition(image: StateImage, topic: TopicName) -> StateImage:
    partition = topic.partition(0)
    moved = {
        keys.topic(topic): keys.topic(partition),
        keys.producer_epoch(topic): keys.producer_epoch(partition),
        keys.subscriptions_of(topic): keys.subscriptions_of(partition),
        keys.consumers_of_topic(topic): keys.consumers_of_topic(partition),
    }

    def renamed(key: str) -> str:
        for before, after in moved.items():
            if key == before or key.startswith(f"{before}/"):
                return after + key.removeprefix(before)
        return key

    entries = [replace(entry, key=renamed(entry.key)) for entry in image.entries]
    entries.append(Entry(keys.partitioned(topic), encode_partitioned(frozenset({0})), image.revision, image.revision))
    return replace(image, entries=tuple(sorted(entries, key=lambda entry: entry.key)))


async def is_empty(store: MetadataStore) -> bool:
    """Whether there is nothing in a store."""
    return not await store.list(EVERYTHING, linearizable=True)


async def fill(store: MetadataStore, rng: Rng, image: StateImage, *, replacing: bool = False) -> int:
    """Have a store hold what an image does; answers how many keys. With `replacing`, what was there before goes.

    Nobody else may use the store meanwhile. One that was left half filled is filled anew with `replacing`.
    Raises PreconditionFailedError for a store that is not empty, MetadataError when it fails.
    """
    if not replacing and not await is_empty(store):
        raise PreconditionFailedError("the store is not empty: what is in it goes only with --force")
    roots = sorted({f"/{entry.key.split('/')[1]}" for entry in await store.list(EVERYTHING, linearizable=True)})
    await _change(store, rng, [*map(DeletePrefix, roots), Put(keys.RESTORING, encode_fields())])
    for batch in _batches(image.entries):
        await _change(store, rng, [Put(entry.key, entry.value) for entry in batch])
    await _change(store, rng, [Delete(keys.RESTORING)])
    return len(image.entries)


async def refuse_half_filled(store: MetadataStore) -> None:
    """Raise PreconditionFailedError for a store that a restore has not finished."""
    if await store.get(keys.RESTORING, linearizable=True) is not None:
        raise PreconditionFailedError(
            "this metadata is half restored: end that with `danube-broker metadata restore --force`, then start again"
        )


async def _change(store: MetadataStore, rng: Rng, writes: Sequence[Write]) -> None:
    conditions: tuple[Condition, ...] = ()
    await settle(store, Transaction(f"{rng.new_id():016x}", conditions, tuple(writes)))


def _batches(entries: Sequence[Entry]) -> Sequence[Sequence[Entry]]:
    batches: list[list[Entry]] = []
    size = METADATA_RESTORE_BATCH_BYTES
    for entry in entries:
        own = len(entry.key.encode()) + len(entry.value)
        if size + own > METADATA_RESTORE_BATCH_BYTES or len(batches[-1]) >= METADATA_RESTORE_BATCH_KEYS:
            batches.append([])
            size = 0
        batches[-1].append(entry)
        size += own
    return batches


def _below(image: StateImage, root: str) -> list[Entry]:
    return [entry for entry in image.entries if entry.key.startswith(f"{root}/")]
