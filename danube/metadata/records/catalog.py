"""Catalog of namespaces, topics, subscriptions and consumers, as records.

Every change is one transaction over all it touches: readers see it whole or not at all. A change that meets another one
of the same records is decided again on what stands then.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from danube.metadata.records import keys
from danube.metadata.records.new_topics import (
    Inherit,
    join_base,
    leave_base,
    not_partitions,
    nothing_inherited,
    part_plain,
    put_topics,
)
from danube.metadata.records.record_format import (
    ConsumerRecord,
    LostLog,
    NamespaceRecord,
    ProducerEpoch,
    SubscriptionRecord,
    TopicRecord,
    decode_counter,
    decode_lost_log,
    decode_namespace,
    decode_partitioned,
    decode_producer_epoch,
    decode_topic,
    decode_topic_storage,
    encode_counter,
    encode_lost_log,
    encode_namespace,
    encode_producer_epoch,
    encode_topic,
)
from danube.metadata.records.storage import add_ownership, add_tombstone, owner_of
from danube.metadata.records.subscriptions import ExtraWrites, SubscriptionRecords, add_extra_writes
from danube.metadata.store import MetadataStore
from danube.metadata.transaction_builder import TransactionBuilder, commit_transaction
from danube.model.errors import (
    AlreadyExistsError,
    InvalidRequestError,
    NamespaceNotFoundError,
    PreconditionFailedError,
    TopicNotFoundError,
)
from danube.model.limits.broker import PARTITIONS_MAX
from danube.model.policies import PolicyChange
from danube.model.records.telemetry import SYSTEM_NAMESPACE
from danube.model.schema import TopicSchema
from danube.model.text import count_text
from danube.model.topic import DispatchStrategy, TopicName, check_name_part
from danube.runtime.rng import Rng, SystemRng

__all__ = [
    "ConsumerRecord",
    "ExtraWrites",
    "Inherit",
    "NamespaceRecord",
    "ProducerEpoch",
    "ProducerEpochs",
    "Records",
    "SubscriptionRecord",
    "TopicRecord",
]


class Records(SubscriptionRecords):
    """Typed access to a metadata store. Every method raises MetadataError when the store fails.

    Changes that keep losing against others raise VersionConflictError in the end; calling again is safe.
    """

    def __init__(
        self, store: MetadataStore, rng: Rng | None = None, *, broker_id: int = 0, shares_logs: bool = False
    ) -> None:
        """`broker_id` is the broker that creates: topics assigned to it are its own at once.

        Not where the brokers share their logs: there a reliable topic is owned once its journal has it.
        """
        super().__init__(store, rng or SystemRng())
        self._broker_id = broker_id
        self._shares_logs = shares_logs
        self._topics_lock = (
            asyncio.Lock()
        )  # all creations share the id counter: without it they only make each other retry

    async def ensure_namespace(self, name: str) -> NamespaceRecord:
        """Create the namespace unless it is there. Raises InvalidNameError."""
        check_name_part("namespace", name)

        async def change(builder: TransactionBuilder) -> NamespaceRecord:
            if await builder.read(keys.namespace(name)) is None:
                builder.put(keys.namespace(name), encode_namespace(NamespaceRecord(name)))
            return NamespaceRecord(name)

        return await self._change(change)

    async def create_namespace(self, name: str) -> NamespaceRecord:
        """Create a namespace. Raises AlreadyExistsError and InvalidNameError."""
        check_name_part("namespace", name)

        async def change(builder: TransactionBuilder) -> NamespaceRecord:
            if await builder.read(keys.namespace(name)) is not None:
                raise AlreadyExistsError(f"namespace {name!r} already exists: use it, or choose another name")
            builder.put(keys.namespace(name), encode_namespace(NamespaceRecord(name)))
            return NamespaceRecord(name)

        return await self._change(change)

    async def delete_namespace(self, name: str, *, extra_writes: ExtraWrites | None = None) -> None:
        """Remove a namespace that has no topics; of a deletion and a creation of a topic in it, one fails.

        Raises NamespaceNotFoundError, and PreconditionFailedError while there are topics in it.
        """

        async def change(builder: TransactionBuilder) -> None:
            await self._require_namespace(builder, name)
            # Each creation of a topic moves the counter: one that comes after the look below makes this change anew.
            await builder.read(keys.TOPIC_ID_COUNTER)
            await self._require_empty(name)
            builder.delete(keys.namespace(name))
            await add_extra_writes(extra_writes, builder)

        async with self._topics_lock:
            await self._change(change)

    async def namespaces(self) -> list[NamespaceRecord]:
        return [decode_namespace(entry) for entry in await self._store.list(keys.NAMESPACES)]

    async def namespace(self, name: str) -> NamespaceRecord:
        """The namespace. Raises NamespaceNotFoundError."""
        entry = await self._store.get(keys.namespace(name))
        if entry is None:
            raise _no_namespace(name)
        return decode_namespace(entry)

    async def namespace_exists(self, name: str) -> bool:
        return await self._store.get(keys.namespace(name)) is not None

    async def change_namespace_policies(
        self, name: str, change: PolicyChange, *, extra_writes: ExtraWrites | None = None
    ) -> NamespaceRecord:
        """Change the limits of a namespace. Raises NamespaceNotFoundError."""

        async def write(builder: TransactionBuilder) -> NamespaceRecord:
            entry = await builder.read(keys.namespace(name))
            if entry is None:
                raise _no_namespace(name)
            record = decode_namespace(entry)
            changed = replace(record, policies=change.applied_to(record.policies))
            builder.put(keys.namespace(name), encode_namespace(changed))
            await add_extra_writes(extra_writes, builder)
            return changed

        return await self._change(write)

    async def empty_namespace(self, name: str) -> int:
        """The revision that created this namespace: another one when it was deleted and made anew meanwhile.

        Raises as `delete_namespace`.
        """
        entry = await self._store.get(keys.namespace(name))
        if entry is None:
            raise _no_namespace(name)
        await self._require_empty(name)
        return entry.created_revision

    async def create_topic(
        self,
        name: TopicName,
        strategy: DispatchStrategy,
        now_ms: int,
        *,
        base: TopicName | None = None,
        schema_subject: str | None = None,
        inherit: Inherit = nothing_inherited,
        broker: int | None = None,
    ) -> TopicRecord:
        """Create a plain topic or one partition of `base`, with an id that no topic ever had, and what it inherits.

        It is assigned to `broker`, to this one where none is given.

        Raises NamespaceNotFoundError, TopicExistsError (also when a plain topic and partitions would share a base name,
        or a plain topic and a partition one name) and LimitReachedError when the base has PARTITIONS_MAX partitions,
        or too much is inherited.
        """
        brokers = None if broker is None else [broker]
        records = await self._create_topics(
            [name], base, strategy, now_ms, schema_subject=schema_subject, inherit=inherit, brokers=brokers
        )
        return records[0]

    async def create_partitioned_topic(
        self,
        base: TopicName,
        partitions: int,
        strategy: DispatchStrategy,
        now_ms: int,
        *,
        schema_subject: str | None = None,
        inherit: Inherit = nothing_inherited,
        brokers: Sequence[int] | None = None,
    ) -> list[TopicRecord]:
        """Create partitions 0 to `partitions` - 1 of `base`: all of them or none. Raises as `create_topic`.

        `brokers` are those that the partitions are assigned to, in this order; this one where none are given.
        """
        if not 1 <= partitions <= PARTITIONS_MAX:
            raise InvalidRequestError(f"{base} cannot have {partitions} partitions: ask for 1 to {PARTITIONS_MAX}")
        names = [base.partition(index) for index in range(partitions)]
        return await self._create_topics(
            names, base, strategy, now_ms, schema_subject=schema_subject, inherit=inherit, brokers=brokers
        )

    async def topic(self, name: TopicName, *, linearizable: bool = False) -> TopicRecord | None:
        """The topic, or None; `linearizable` as for the store's reads."""
        entry = await self._store.get(keys.topic(name), linearizable=linearizable)
        return decode_topic(entry) if entry else None

    async def topics(self) -> list[TopicRecord]:
        """All topics, partitions each on their own."""
        return [decode_topic(entry) for entry in await self._store.list(keys.TOPICS)]

    async def part_plain_topics(self) -> None:
        """Mark topics that older brokers took for partitions of a topic that nobody made: the list has no partition 0.

        So it is with indexes beyond PARTITIONS_MAX, too. Once done there are none: new topics say what they are.
        """
        for entry in await self._store.list(keys.PARTITIONED):
            base = keys.parse_partitioned(entry.key)
            if base.namespace != SYSTEM_NAMESPACE and not_partitions(decode_partitioned(entry)):
                await self._change(partial(part_plain, base=base))

    async def topics_of(self, namespace: str) -> list[TopicRecord]:
        return [decode_topic(entry) for entry in await self._store.list(keys.topics_of(namespace))]

    async def partitions_of(self, base: TopicName) -> list[TopicRecord]:
        """The partitions of `base` by their index; none when it is a plain topic or no topic at all."""
        indexes = decode_partitioned(await self._store.get(keys.partitioned(base)))
        found = [await self.topic(base.partition(index)) for index in sorted(indexes)]
        return [record for record in found if record]

    async def add_partitions(
        self,
        base: TopicName,
        count: int,
        now_ms: int,
        *,
        inherit: Inherit = nothing_inherited,
        brokers: Sequence[int] | None = None,
    ) -> list[TopicRecord]:
        """Create `count` more partitions of `base`, like the last one it has, with what they inherit: all or nothing.

        `brokers` as in `create_partitioned_topic`.

        Raises TopicNotFoundError for what is no partitioned topic, and LimitReachedError as `create_topic`.
        """

        async def change(builder: TransactionBuilder) -> list[TopicRecord]:
            indexes = decode_partitioned(await builder.read(keys.partitioned(base)))
            if not indexes:
                raise TopicNotFoundError(f"{base} has no partitions: create it with some, a plain topic stays plain")
            like = await self._read_topic(builder, base.partition(max(indexes)))
            first = max(indexes) + 1
            names = [base.partition(index) for index in range(first, first + count)]
            await join_base(builder, base, names)
            return await self._put_topics(builder, names, like, now_ms, inherit=inherit, brokers=brokers)

        async with self._topics_lock:
            return await self._change(change)

    async def change_topic_policies(
        self, names: Sequence[TopicName], change: PolicyChange, *, extra_writes: ExtraWrites | None = None
    ) -> list[TopicRecord]:
        """Change the limits of topics: of all or of none. Raises TopicNotFoundError."""

        async def write(builder: TransactionBuilder) -> list[TopicRecord]:
            changed = []
            for name in names:
                record = await self._read_topic(builder, name)
                changed.append(replace(record, policies=change.applied_to(record.policies)))
                builder.put(keys.topic(name), encode_topic(changed[-1]))
            await add_extra_writes(extra_writes, builder)
            return changed

        return await self._change(write)

    async def change_topic_schema(
        self, names: Sequence[TopicName], change: Callable[[TopicSchema], TopicSchema]
    ) -> list[TopicRecord]:
        """Change the schema configuration of topics: of all or of none. Raises TopicNotFoundError, and as `change`."""

        async def write(builder: TransactionBuilder) -> list[TopicRecord]:
            changed = []
            for name in names:
                record = await self._read_topic(builder, name)
                changed.append(record.with_schema(change(record.schema)))
                if changed[-1] != record:
                    builder.put(keys.topic(name), encode_topic(changed[-1]))
            return changed

        return await self._change(write)

    async def assign(
        self, wanted: Sequence[tuple[TopicRecord, int]], *, extra_writes: ExtraWrites | None = None
    ) -> int:
        """Assign these very topics to other brokers; answers how many.

        Those that are gone, or were assigned otherwise meanwhile, stay as they are.
        """

        async def change(builder: TransactionBuilder) -> int:
            assigned = 0
            for record, broker in wanted:
                entry = await builder.read(keys.topic(record.name))
                newest = decode_topic(entry) if entry else None
                if newest is not None and (newest.topic_id, newest.broker) == (record.topic_id, record.broker):
                    builder.put(keys.topic(record.name), encode_topic(replace(newest, broker=broker)))
                    assigned += 1
            await add_extra_writes(extra_writes, builder)
            return assigned

        return await self._change(change)

    async def start_anew(self, record: TopicRecord, owner: int, broker: int, now_ms: int) -> int | None:
        """Have an empty topic take the place of this very one, whose log is on the disk of `owner`; answers its id.

        It has the name, the policies and the subscriptions, and is assigned to `broker`. The log stays, with its
        record, as a `LostLog`. None where the topic is gone, or another broker owns it, or its owner runs again.
        """

        async def change(builder: TransactionBuilder) -> int | None:
            entry = await builder.read(keys.topic(record.name))
            stored = await builder.read(keys.stored_topic(record.topic_id))
            is_back = await builder.read(keys.registered_broker(owner)) is not None
            newest = decode_topic(entry) if entry else None
            if is_back or stored is None or newest is None or newest.topic_id != record.topic_id:
                return None
            if owner_of(decode_topic_storage(stored), newest.broker) != owner:
                return None
            topic_id = decode_counter(await builder.read(keys.TOPIC_ID_COUNTER)) + 1
            builder.put(keys.TOPIC_ID_COUNTER, encode_counter(topic_id))
            renewed = replace(newest, topic_id=topic_id, broker=broker, created_ms=now_ms)
            builder.put(keys.topic(record.name), encode_topic(renewed))
            add_ownership(builder, topic_id)
            lost = LostLog(record.topic_id, record.name, owner, now_ms)
            builder.put(keys.lost_log(record.topic_id), encode_lost_log(lost))
            return topic_id

        async with self._topics_lock:
            return await self._change(change)

    async def lost_logs(self) -> list[LostLog]:
        """Logs on lost disks, whose topics were started anew."""
        return [decode_lost_log(entry) for entry in await self._store.list(keys.LOST_LOGS)]

    async def delete_topic(self, record: TopicRecord) -> None:
        """Remove this very topic with its subscriptions and consumers.

        Raises TopicNotFoundError when it is gone, also when another one of that name has taken its place.
        """
        await self.delete_topics([record])

    async def delete_topics(self, records: Sequence[TopicRecord], *, extra_writes: ExtraWrites | None = None) -> None:
        """Remove one topic, or partitions of one base, as `delete_topic` does: all of them or none.

        Their files stay for now: `StorageRecords.deleted` lists whose may go.
        """

        async def change(builder: TransactionBuilder) -> None:
            for record in records:
                newest = await self._read_topic(builder, record.name, record.topic_id)
                entry = await builder.read(keys.stored_topic(record.topic_id))
                builder.delete(keys.topic(record.name))
                builder.delete_below(keys.subscriptions_of(record.name))
                builder.delete_below(keys.consumers_of_topic(record.name))
                builder.delete(keys.producer_epoch(record.name))
                add_tombstone(
                    builder, record.topic_id, owner_of(decode_topic_storage(entry) if entry else None, newest.broker)
                )
            await leave_base(builder, records[0].base, [record.name for record in records])
            await add_extra_writes(extra_writes, builder)

        async with self._topics_lock:
            await self._change(change)

    async def _create_topics(
        self,
        names: Sequence[TopicName],
        base: TopicName | None,
        strategy: DispatchStrategy,
        now_ms: int,
        *,
        schema_subject: str | None,
        inherit: Inherit,
        brokers: Sequence[int] | None,
    ) -> list[TopicRecord]:
        async def change(builder: TransactionBuilder) -> list[TopicRecord]:
            await self._require_namespace(builder, names[0].namespace)
            await join_base(builder, base, names)
            is_plain = base is None and names[0].base_by_form is not None
            like = TopicRecord(names[0], 0, strategy, now_ms, schema_subject, is_plain=is_plain)
            return await self._put_topics(builder, names, like, now_ms, inherit=inherit, brokers=brokers)

        async with self._topics_lock:
            return await self._change(change)

    async def _put_topics(
        self,
        builder: TransactionBuilder,
        names: Sequence[TopicName],
        like: TopicRecord,
        now_ms: int,
        *,
        inherit: Inherit,
        brokers: Sequence[int] | None,
    ) -> list[TopicRecord]:
        is_owned_later = self._shares_logs and like.strategy is DispatchStrategy.RELIABLE
        own_id = 0 if is_owned_later else self._broker_id
        places = [self._broker_id] * len(names) if brokers is None else brokers
        return await put_topics(
            builder, names, like, now_ms, inherit=inherit, rng=self._rng, brokers=places, own_id=own_id
        )

    @staticmethod
    async def _require_namespace(builder: TransactionBuilder, name: str) -> None:
        if await builder.read(keys.namespace(name)) is None:
            raise _no_namespace(name)

    async def _require_empty(self, name: str) -> None:
        topics = len(await self._store.list(keys.topics_of(name)))
        if topics:
            raise PreconditionFailedError(
                f"namespace {name!r} is not empty, it has {count_text(topics, 'topic')}: delete them first"
            )


class ProducerEpochs:
    """The epochs in a metadata store; they go with their topics. Every method raises MetadataError when it fails."""

    def __init__(self, store: MetadataStore, rng: Rng) -> None:
        self._store = store
        self._rng = rng

    async def newest(self, topic: TopicRecord) -> ProducerEpoch:
        """The newest one of this very topic; epoch 0 when there never was an exclusive producer."""
        entry = await self._store.get(keys.producer_epoch(topic.name))
        found = decode_producer_epoch(entry) if entry else None
        return found if found and found.topic_id == topic.topic_id else ProducerEpoch(topic.topic_id, 0, "")

    async def begin(self, after: ProducerEpoch, topic: TopicRecord, producer_name: str) -> ProducerEpoch:
        """Begin the epoch that follows on `after`, which the caller has seen last; a newer one stays below it."""

        async def change(builder: TransactionBuilder) -> ProducerEpoch:
            entry = await builder.read(keys.producer_epoch(topic.name))
            found = decode_producer_epoch(entry) if entry else after
            last = max(found.epoch, after.epoch) if found.topic_id == topic.topic_id else after.epoch
            begun = ProducerEpoch(topic.topic_id, last + 1, producer_name)
            builder.put(keys.producer_epoch(topic.name), encode_producer_epoch(begun))
            return begun

        return await commit_transaction(self._store, self._rng, change)


def _no_namespace(name: str) -> NamespaceNotFoundError:
    return NamespaceNotFoundError(
        f"namespace {name!r} does not exist: create it first (danube-admin namespaces create {name})"
    )
