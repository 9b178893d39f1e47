"""Where topics are stored, on every metadata store: compare-and-set, several at once, deleted topics."""

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

import pytest

from danube.metadata.records.catalog import Records
from danube.metadata.records.storage import EpochRange, StorageRecords, TopicStorage, add_tombstone
from danube.metadata.store import Entry, MetadataStore, Transaction
from danube.metadata.transaction_builder import TransactionBuilder
from danube.model.errors import (
    LimitReachedError,
    StorageChangedError,
    TopicNotFoundError,
    UnknownOutcomeError,
    VersionConflictError,
)
from danube.model.limits.broker import STORAGE_POINTERS_MAX, TOPIC_EPOCHS_MAX
from danube.model.limits.metadata import METADATA_TRANSACTION_PARTS_MAX
from danube.model.topic import DispatchStrategy, TopicName
from danube.runtime.rng import SystemRng

ORDERS = TopicName("default", "orders")
FIRST, SECOND = EpochRange(1, 41, 0, 10), EpochRange(2, 42, 10)


class SlyStore:
    """Passes everything on, and does not tell how some transactions ended."""

    def __init__(self, store: MetadataStore, untold: int) -> None:
        self._store = store
        self._untold = untold
        self.submitted: list[Transaction] = []

    async def get(self, key: str, *, linearizable: bool = False) -> Entry | None:
        return await self._store.get(key, linearizable=linearizable)

    async def list(self, prefix: str, *, linearizable: bool = False) -> Sequence[Entry]:
        return await self._store.list(prefix, linearizable=linearizable)

    async def transact(self, transaction: Transaction) -> int:
        self.submitted.append(transaction)
        revision = await self._store.transact(transaction)
        if len(self.submitted) <= self._untold:
            raise UnknownOutcomeError("who knows")
        return revision


@pytest.fixture
def stored(store: MetadataStore) -> StorageRecords:
    return StorageRecords(store, SystemRng(seed=1))


@pytest.fixture
def other(store: MetadataStore) -> StorageRecords:
    """Another broker on the same store."""
    return StorageRecords(store, SystemRng(seed=2))


async def pointed(stored: StorageRecords, *manifest_versions: int) -> list[TopicStorage]:
    """Topics 1, 2, ... with manifests of these manifest versions."""
    changes = [(TopicStorage(topic_id), version) for topic_id, version in enumerate(manifest_versions, 1)]
    return await stored.point(changes)


async def test_a_topic_that_was_never_stored_has_no_manifest(stored: StorageRecords) -> None:
    assert await stored.get(7) == TopicStorage(7, manifest_version=0, epochs=(), revision=0)
    assert await stored.all() == {}


async def test_what_is_pointed_to_is_read_by_all(stored: StorageRecords, other: StorageRecords) -> None:
    records = await pointed(stored, 1, 5, 2)
    assert [(record.topic_id, record.manifest_version) for record in records] == [(1, 1), (2, 5), (3, 2)]
    assert await other.all() == {record.topic_id: record for record in records}
    assert await other.get(2) == records[1]


async def test_changes_follow_on_what_the_last_one_answered(stored: StorageRecords) -> None:
    (record,) = await pointed(stored, 1)
    for manifest_version in (2, 3, 9):
        (record,) = await stored.point([(record, manifest_version)])
    assert await stored.get(1) == record
    assert record.manifest_version == 9


async def test_of_two_who_point_one_loses_and_is_told(stored: StorageRecords, other: StorageRecords) -> None:
    one, two, three = await pointed(stored, 1, 1, 1)
    await other.point([(two, 2)])
    with pytest.raises(StorageChangedError, match="topics 2 are stored") as caught:
        await stored.point([(one, 2), (two, 2), (three, 2)])
    assert caught.value.topic_ids == {2}
    assert [record.manifest_version for record in (await stored.all()).values()] == [1, 2, 1]


async def test_a_record_that_somebody_wrote_first_is_not_written_over(
    stored: StorageRecords, other: StorageRecords
) -> None:
    await pointed(other, 1)
    with pytest.raises(StorageChangedError):
        await pointed(stored, 7)
    assert (await stored.get(1)).manifest_version == 1


async def test_no_generation_goes_back(stored: StorageRecords) -> None:
    (record,) = await pointed(stored, 3)
    for manifest_version in (2, 3):
        with pytest.raises(ValueError, match="manifest version 3"):
            await stored.point([(record, manifest_version)])
    with pytest.raises(ValueError, match="manifest version 3"):
        await stored.seal(record, (FIRST,), 2)
    with pytest.raises(ValueError, match="one manifest version at a time"):
        await stored.point([(record, 4), (record, 5)])


async def test_epochs_and_the_manifest_change_at_once(stored: StorageRecords, other: StorageRecords) -> None:
    begun = await stored.seal(TopicStorage(1), (replace(FIRST, end_offset=None),))
    assert (begun.manifest_version, begun.revision > 0) == (0, True)
    taken = await other.seal(begun, (FIRST, SECOND), 4)
    assert await stored.get(1) == taken == TopicStorage(1, 4, (FIRST, SECOND), taken.revision, epoch=2)
    with pytest.raises(StorageChangedError):
        await stored.seal(begun, (FIRST, SECOND), 4)
    (cut,) = await other.point([(taken, 5)])
    assert cut.epochs == (FIRST, SECOND)


async def test_epochs_have_a_bound(stored: StorageRecords) -> None:
    epochs = [EpochRange(number, 9, 2**62, 2**62) for number in range(TOPIC_EPOCHS_MAX + 1)]
    assert len((await stored.seal(TopicStorage(1), tuple(epochs[:-1]))).epochs) == TOPIC_EPOCHS_MAX
    with pytest.raises(LimitReachedError, match="let its owner cut first"):
        await stored.seal(TopicStorage(2), tuple(epochs))


async def test_more_topics_than_fit_one_transaction_take_several(
    store: MetadataStore, stored: StorageRecords, other: StorageRecords
) -> None:
    assert 3 * STORAGE_POINTERS_MAX <= METADATA_TRANSACTION_PARTS_MAX
    count = STORAGE_POINTERS_MAX + 1
    sly = SlyStore(store, 0)
    records = await pointed(StorageRecords(cast("MetadataStore", sly), SystemRng(seed=3)), *[1] * count)
    assert len(sly.submitted) == 2
    assert await stored.all() == {record.topic_id: record for record in records}
    await other.point([(records[-1], 2)])
    with pytest.raises(StorageChangedError) as caught:
        await stored.point([(record, 3) for record in records])
    assert caught.value.topic_ids == {count}
    manifest_versions = [record.manifest_version for record in (await stored.all()).values()]
    assert (manifest_versions.count(3), manifest_versions.count(2)) == (STORAGE_POINTERS_MAX, 1)


async def test_an_outcome_that_is_not_told_is_asked_for(store: MetadataStore, stored: StorageRecords) -> None:
    sly = SlyStore(store, 2)
    (record,) = await pointed(StorageRecords(cast("MetadataStore", sly), SystemRng(seed=3)), 1)
    assert len(sly.submitted) == 3
    assert await stored.get(1) == record


class LateStore(SlyStore):
    """Keeps transactions back while `is_late`, and answers that nobody knows how they ended."""

    def __init__(self, store: MetadataStore) -> None:
        super().__init__(store, 0)
        self.is_late = False

    async def transact(self, transaction: Transaction) -> int:
        if not self.is_late:
            return await super().transact(transaction)
        self.submitted.append(transaction)
        raise UnknownOutcomeError("who knows")


async def test_an_ownership_whose_outcome_was_asked_for_does_not_come_later(
    store: MetadataStore, stored: StorageRecords
) -> None:
    """So the files of a topic that is another broker's can be removed."""
    (known,) = await pointed(stored, 3)
    late = LateStore(store)
    own = StorageRecords(cast("MetadataStore", late), SystemRng(seed=3))
    late.is_late = True
    with pytest.raises(UnknownOutcomeError):
        await own.own([known], 7)
    late.is_late = False
    assert (await own.outcome(1)).owner == 0
    with pytest.raises(VersionConflictError):
        await store.transact(late.submitted[0])
    assert (await own.outcome(1)).owner == 0


# Deleted topics


async def test_once_a_record_is_settled_no_earlier_change_of_it_is_made(
    stored: StorageRecords, other: StorageRecords
) -> None:
    (known,) = await pointed(stored, 3)
    settled = await stored.settled(known)
    assert replace(settled, revision=known.revision) == known
    with pytest.raises(StorageChangedError):
        await other.point([(known, 4)])
    assert (await stored.point([(settled, 4)]))[0].manifest_version == 4


async def test_a_change_that_was_made_before_a_record_is_settled_stands(
    store: MetadataStore, stored: StorageRecords, other: StorageRecords
) -> None:
    (known,) = await pointed(stored, 3)
    (changed,) = await other.point([(known, 4)])
    assert await stored.settled(known) == changed
    builder = TransactionBuilder(store)
    add_tombstone(builder, 1)
    await store.transact(builder.transaction("bury"))
    assert await stored.settled(changed) == TopicStorage(1)
    assert await stored.settled(TopicStorage(2)) == TopicStorage(2)


async def test_a_deleted_topic_has_a_tombstone_and_no_record(
    store: MetadataStore, stored: StorageRecords, other: StorageRecords
) -> None:
    records = Records(store)
    await records.ensure_namespace("default")
    topic = await records.create_topic(ORDERS, DispatchStrategy.RELIABLE, 5)
    (stale,) = await stored.point([(await stored.get(topic.topic_id), 1)])
    assert await stored.deleted() == []
    await records.delete_topic(topic)
    assert (await stored.all(), await stored.deleted()) == ({}, [topic.topic_id])
    for record in (stale, TopicStorage(topic.topic_id)):
        with pytest.raises(StorageChangedError) as caught:
            await other.point([(record, 2)])
        assert caught.value.topic_ids == {topic.topic_id}
    assert await stored.all() == {}


async def test_a_deletion_that_fails_buries_nothing(store: MetadataStore, stored: StorageRecords) -> None:
    records = Records(store)
    await records.ensure_namespace("default")
    topic = await records.create_topic(ORDERS, DispatchStrategy.RELIABLE, 5)
    with pytest.raises(TopicNotFoundError):
        await records.delete_topics([topic, replace(topic, name=TopicName("default", "gone"))])
    assert await stored.deleted() == []


async def test_a_tombstone_goes_when_the_files_are_gone(store: MetadataStore, stored: StorageRecords) -> None:
    for topic_id in (10, 9, 100):
        builder = TransactionBuilder(store)
        add_tombstone(builder, topic_id)
        await store.transact(builder.transaction(f"bury-{topic_id}"))
    assert await stored.deleted() == [9, 10, 100]
    await stored.remove_tombstone(10)
    await stored.remove_tombstone(10)
    assert await stored.deleted() == [9, 100]


async def test_the_epochs_of_several_topics_are_sealed_together_or_not_at_all(
    stored: StorageRecords, other: StorageRecords
) -> None:
    first, second = await pointed(stored, 1, 1)
    sealed = await stored.seal_all([(first, (FIRST,)), (second, (FIRST, SECOND))])
    assert [record.epochs for record in sealed] == [(FIRST,), (FIRST, SECOND)]
    await other.point([(sealed[1], 2)])
    with pytest.raises(StorageChangedError) as raised:
        await stored.seal_all([(sealed[0], (FIRST, SECOND)), (sealed[1], (FIRST,))])
    assert raised.value.topic_ids == {2}
    assert (await stored.get(1)).epochs == (FIRST,)


async def test_more_epochs_are_not_sealed_at_once_than_one_transaction_takes(stored: StorageRecords) -> None:
    many = [(TopicStorage(number), (FIRST,)) for number in range(STORAGE_POINTERS_MAX + 1)]
    with pytest.raises(ValueError, match="more than one transaction"):
        await stored.seal_all(many)
    assert len(await stored.seal_all(many[:-1])) == STORAGE_POINTERS_MAX
