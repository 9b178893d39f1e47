"""Ownership of topics: the broker that has each, its manifest and epochs, and tombstones of deleted topics.

A record changes by compare-and-set only: of two brokers that take a topic over, or two flushes of it, one loses.

Each topic has a record from its creation on; without one no broker begins with it.
A deleted topic has no record, and a tombstone until its files are gone. While the tombstone is there no broker can
write a record for it. Where each broker has logs on its own disk, a topic that another one owns from now on leaves a
tombstone, too, for the disk of its owner before.
"""

from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import replace

from danube.metadata.records import keys
from danube.metadata.records.journals import JournalEntry
from danube.metadata.records.record_format import (
    EpochRange,
    TopicStorage,
    decode_counter,
    decode_tombstone,
    decode_topic_storage,
    encode_counter,
    encode_tombstone,
    encode_topic_storage,
)
from danube.metadata.store import Condition, Delete, MetadataStore, Put, Transaction
from danube.metadata.transaction_builder import TransactionBuilder, commit_transaction, settle
from danube.model.errors import JournalFencedError, LimitReachedError, StorageChangedError, VersionConflictError
from danube.model.limits.broker import STORAGE_POINTERS_MAX, TOPIC_EPOCHS_MAX
from danube.model.limits.metadata import METADATA_ATTEMPTS_MAX
from danube.runtime.rng import Rng

__all__ = [
    "EpochRange",
    "StorageRecords",
    "TopicStorage",
    "add_ownership",
    "add_tombstone",
    "owner_of",
]

PlainWrite = Put | Delete

_LIST_FROM = 16  # topics: from so many on, listing all records is cheaper than asking for each


class StorageRecords:
    """The records in a metadata store. Every method raises MetadataError when the store fails.

    Changes raise StorageChangedError when a topic's record is no longer the one given: read it again and decide anew.
    What is answered has the new revision, and the next change can be made of it.
    """

    def __init__(self, store: MetadataStore, rng: Rng, *, deleted_of: int | None = None) -> None:
        """`deleted_of` is the broker whose deleted topics `deleted` answers; None for those of all."""
        self._store = store
        self._rng = rng
        self._deleted_of = deleted_of
        self.before_write: Callable[[], Awaitable[None]] | None = None
        """Has all that the records are about to name in a place where other brokers find it."""
        self._asked: dict[int, TopicStorage] = {}
        """By topic id, the record that `own` was about to change: its answer has not come, or never will."""

    async def all(self, *, linearizable: bool = False) -> dict[int, TopicStorage]:
        """The records of all topics that have one, by topic id; `linearizable` as for the store's reads."""
        entries = await self._store.list(keys.STORED_TOPICS, linearizable=linearizable)
        return {record.topic_id: record for record in map(decode_topic_storage, entries)}

    async def get(self, topic_id: int, *, linearizable: bool = False) -> TopicStorage:
        """The topic's record, of revision 0 when it was never written; `linearizable` as for the store's reads."""
        entry = await self._store.get(keys.stored_topic(topic_id), linearizable=linearizable)
        return decode_topic_storage(entry) if entry else TopicStorage(topic_id)

    async def of(self, topic_ids: Collection[int]) -> list[TopicStorage]:
        """The records of these topics as they stand now, in this order, each as `get` has it."""
        if len(topic_ids) < _LIST_FROM:
            return [await self.get(one, linearizable=not number) for number, one in enumerate(topic_ids)]
        everything = await self.all(linearizable=True)
        return [everything.get(topic_id) or TopicStorage(topic_id) for topic_id in topic_ids]

    async def settled(self, known: TopicStorage) -> TopicStorage:
        """The topic's record, after a change of `known` of which no answer came: that was made, or never will be.

        That the record stands as it is known proves nothing, the change may be on its way. So it is written once more.
        """
        newest = await self.get(known.topic_id)
        if not known.revision or newest.revision != known.revision:
            return newest
        try:
            (newest,) = await self._write([newest])
        except StorageChangedError:
            return await self.get(known.topic_id)
        return newest

    async def outcome(self, topic_id: int) -> TopicStorage:
        """The topic's record, linearizable, once no `own` of this broker can change it any more."""
        known = self._asked.get(topic_id)
        if known is not None:
            await self.settled(known)
            if self._asked.get(topic_id) is known:  # and none was asked for meanwhile
                del self._asked[topic_id]
        return await self.get(topic_id, linearizable=True)

    async def point(self, changes: Sequence[tuple[TopicStorage, int]]) -> list[TopicStorage]:
        """Have each topic's record point to the manifest of a newer version; answers the records, in this order.

        All of them or none, up to STORAGE_POINTERS_MAX; more go in pieces of so many, and those before the first piece
        that failed are written. Raises StorageChangedError with the ids of the topics that lost, ValueError for a
        version that is not newer and for a topic that is named twice.
        """
        _require_newer(changes)
        pointed = [replace(record, manifest_version=manifest_version) for record, manifest_version in changes]
        written: list[TopicStorage] = []
        for start in range(0, len(pointed), STORAGE_POINTERS_MAX):
            written += await self._write(pointed[start : start + STORAGE_POINTERS_MAX])
        return written

    async def seal(
        self,
        record: TopicStorage,
        epochs: tuple[EpochRange, ...],
        manifest_version: int | None = None,
        *,
        journal: JournalEntry | None = None,
        owner: int | None = None,
    ) -> TopicStorage:
        """Replace the epochs of a topic, and with `manifest_version` the newest manifest, at once.

        `journal` and `owner` as in `seal_all`. Raises StorageChangedError; JournalFencedError; LimitReachedError past
        TOPIC_EPOCHS_MAX; ValueError for epochs that are no unbroken run and for a version that is older.
        """
        newest = record.manifest_version if manifest_version is None else manifest_version
        if newest < record.manifest_version:
            raise ValueError(
                f"topic {record.topic_id} is at manifest version {record.manifest_version} and not at {newest}"
            )
        (sealed,) = await self.seal_all(
            [(replace(record, manifest_version=newest), epochs)], journal=journal, owner=owner
        )
        return sealed

    async def seal_all(
        self,
        changes: Sequence[tuple[TopicStorage, tuple[EpochRange, ...]]],
        *,
        journal: JournalEntry | None = None,
        owner: int | None = None,
    ) -> list[TopicStorage]:
        """Replace the epochs of several topics, of all of them or of none; answers the records, in this order.

        `journal` is the one that they begin in, or end: not when it was struck off, or entered anew. `owner` owns them
        from then on, 0 for nobody; None leaves that.
        Raises as `seal`, StorageChangedError with the ids of the topics that lost, JournalFencedError when the journal
        was struck off, and ValueError for more than STORAGE_POINTERS_MAX.
        """
        if len(changes) > STORAGE_POINTERS_MAX:
            raise ValueError(f"{len(changes)} topics are more than one transaction takes: {STORAGE_POINTERS_MAX}")
        records = [_with_epochs(record, epochs) for record, epochs in changes]
        if owner is not None:
            records = [replace(record, owner=owner) for record in records]
        return await self._write(records, journal)

    async def own(self, records: Sequence[TopicStorage], broker_id: int) -> list[TopicStorage]:
        """Have a broker own topics without a log, or with one on its disk; all of them or none. Raises as above.

        Where no answer comes, it may own them yet, until `outcome` says what became of it.
        """
        self._asked.update({record.topic_id: record for record in records})
        try:
            owned = await self._write(
                [record.owned_by(broker_id) for record in records], extra=self._moves(records, broker_id)
            )
        except StorageChangedError:
            self._answered(records)
            raise
        self._answered(records)
        return owned

    def _moves(self, records: Iterable[TopicStorage], broker_id: int) -> list[PlainWrite]:
        """Tombstones for the disks of the owners before, and none for this one's; none where logs are shared."""
        writes: list[PlainWrite] = []
        for record in records:
            if self._deleted_of is not None and record.owner not in {0, broker_id}:
                departed = keys.departed_topic(record.owner, record.topic_id)
                writes += (
                    Put(departed, encode_tombstone(broker_id)),
                    Delete(keys.departed_topic(broker_id, record.topic_id)),
                )
        return writes

    def _answered(self, records: Iterable[TopicStorage]) -> None:
        for record in records:
            self._asked.pop(record.topic_id, None)

    async def disown(self, record: TopicStorage) -> TopicStorage:
        """Release a topic that has no log. Raises as above."""
        return (await self._write([replace(record, owner=0)]))[0]

    async def last_topic_id(self) -> int:
        """The last topic id that was given out, linearizable: this metadata knows nothing of topics above it."""
        return decode_counter(await self._store.get(keys.TOPIC_ID_COUNTER, linearizable=True))

    async def raise_counter(self, last: int) -> None:
        """Have no topic id up to this one be given out any more: something is stored under it."""
        if await self.last_topic_id() >= last:
            return

        async def change(builder: TransactionBuilder) -> None:
            if decode_counter(await builder.read(keys.TOPIC_ID_COUNTER)) < last:
                builder.put(keys.TOPIC_ID_COUNTER, encode_counter(last))

        await commit_transaction(self._store, self._rng, change)

    async def deleted(self) -> list[int]:
        """The ids of topics with a tombstone, ascending: they were deleted, or another broker has their logs by now."""
        return sorted({**await self._deleted(), **await self._departed()})

    async def remove_tombstone(self, topic_id: int) -> None:
        """The files of the topic are gone, and nobody is left who would write new ones. Idempotent."""
        tombstones = {**await self._deleted(), **await self._departed()}
        if topic_id in tombstones:
            await self._store.delete(tombstones[topic_id])

    async def _deleted(self) -> dict[int, str]:
        """Keys of tombstones of deleted topics, by topic id."""
        found = await self._store.list(keys.DELETED_TOPICS)
        mine = [each.key for each in found if self._deleted_of in {None, decode_tombstone(each)}]
        return {keys.parse_deleted_topic(key): key for key in mine}

    async def _departed(self) -> dict[int, str]:
        """Keys of tombstones of topics that are other brokers' by now, by topic id."""
        if self._deleted_of is None:
            return {}
        found = await self._store.list(keys.departed_topics_of(self._deleted_of))
        return {keys.parse_departed_topic(each.key): each.key for each in found}

    async def _write(
        self, records: Sequence[TopicStorage], journal: JournalEntry | None = None, extra: Sequence[PlainWrite] = ()
    ) -> list[TopicStorage]:
        if self.before_write is not None:
            await self.before_write()
        stands = () if journal is None else (journal.stands,)
        for _ in range(METADATA_ATTEMPTS_MAX):
            try:
                revision = await settle(self._store, _transaction(records, f"{self._rng.new_id():016x}", stands, extra))
            except VersionConflictError:
                await self._check_stands(stands)
                await self._raise_losers(records)
                continue  # what was in the way is gone again: nobody lost
            return [replace(record, revision=revision) for record in records]
        raise StorageChangedError("others change where topics are stored all the time: read the records again")

    async def _check_stands(self, stands: Sequence[Condition]) -> None:
        for condition in stands:
            entry = await self._store.get(condition.key)
            if entry is None or entry.revision != condition.revision:
                raise JournalFencedError(
                    "this broker's journal was struck off: others have taken its topics over. It goes on in a new "
                    "journal once it is restarted"
                )

    async def _raise_losers(self, records: Sequence[TopicStorage]) -> None:
        lost = frozenset([record.topic_id for record in records if await self._has_changed(record)])
        if lost:
            raise StorageChangedError(
                f"others have changed where topics {_named(lost)} are stored, or deleted them: read the records again",
                lost,
            )

    async def _has_changed(self, record: TopicStorage) -> bool:
        entry = await self._store.get(keys.stored_topic(record.topic_id))
        if (entry.revision if entry else 0) != record.revision:
            return True
        return await self._store.get(keys.deleted_topic(record.topic_id)) is not None


def owner_of(record: TopicStorage | None, broker: int) -> int:
    """The owner of a topic that is assigned to `broker`; 0 for none."""
    return broker if record is None else record.owner


def add_ownership(builder: TransactionBuilder, topic_id: int, owner: int = 0) -> None:
    """Have a topic's record come, in the transaction that creates the topic; `owner` owns it at once, 0 for nobody.

    No broker begins with a topic that has no record: so none that slept through its deletion brings it back.
    """
    record = TopicStorage(topic_id)
    builder.put(keys.stored_topic(topic_id), encode_topic_storage(record.owned_by(owner) if owner else record))


def add_tombstone(builder: TransactionBuilder, topic_id: int, owner: int = 0) -> None:
    """Have a topic's record go and a tombstone come, in the transaction that deletes the topic.

    `owner` is the broker that has its files, where each has its own.
    """
    builder.delete(keys.stored_topic(topic_id))
    builder.put(keys.deleted_topic(topic_id), encode_tombstone(owner))


def _with_epochs(record: TopicStorage, epochs: tuple[EpochRange, ...]) -> TopicStorage:
    if len(epochs) > TOPIC_EPOCHS_MAX:
        raise LimitReachedError(
            f"topic {record.topic_id} had {len(epochs)} owners whose messages are not all in segments:"
            f" {TOPIC_EPOCHS_MAX} is the most, let its owner cut first"
        )
    return replace(record, epochs=epochs, epoch=max(record.epoch, epochs[-1].epoch) if epochs else record.epoch)


def _transaction(
    records: Sequence[TopicStorage],
    transaction_id: str,
    stands: Sequence[Condition] = (),
    extra: Sequence[PlainWrite] = (),
) -> Transaction:
    conditions = [*stands]
    for record in records:
        conditions.append(Condition(keys.stored_topic(record.topic_id), record.revision))
        if not record.revision:  # a deleted topic has none either
            conditions.append(Condition(keys.deleted_topic(record.topic_id), 0))
    writes = [Put(keys.stored_topic(record.topic_id), encode_topic_storage(record)) for record in records]
    return Transaction(transaction_id, tuple(conditions), (*writes, *extra))


def _require_newer(changes: Sequence[tuple[TopicStorage, int]]) -> None:
    for record, version in changes:
        if version <= record.manifest_version:
            held = record.manifest_version
            raise ValueError(f"topic {record.topic_id} is at manifest version {held} and not at {version}")
    if len({record.topic_id for record, _ in changes}) < len(changes):
        raise ValueError("a topic can be pointed to one manifest version at a time")


def _named(topic_ids: frozenset[int]) -> str:
    first = ", ".join(map(str, sorted(topic_ids)[:10]))
    return f"{first} and {len(topic_ids) - 10} more" if len(topic_ids) > 10 else first
