"""Records of subscriptions, and of their consumers."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TypeVar

from danube.metadata.records import keys
from danube.metadata.records.record_format import (
    ConsumerRecord,
    SubscriptionRecord,
    TopicRecord,
    decode_consumer,
    decode_subscription,
    decode_topic,
    encode_consumer,
    encode_subscription,
    encode_topic,
)
from danube.metadata.store import MetadataStore
from danube.metadata.transaction_builder import TransactionBuilder, commit_transaction
from danube.model.errors import (
    AlreadyExistsError,
    LimitReachedError,
    SubscriptionNotFoundError,
    TopicNotFoundError,
)
from danube.model.limits.metadata import PENDING_POLICIES_PER_TOPIC_MAX
from danube.model.policies import FailurePolicy, PendingPolicies
from danube.model.subscription import SubscriptionType, check_member_name
from danube.model.topic import TopicName
from danube.runtime.rng import Rng

T = TypeVar("T")

ExtraWrites = Callable[[TransactionBuilder], Awaitable[None]]
"""Writes that go along with a change, in its transaction: both happen or neither.

Called once the change has read what it goes by, and again for each attempt. What it finds then still holds when both
are applied, and what it raises ends the change.
"""


class SubscriptionRecords:
    """Typed access to subscriptions and consumers in a metadata store. Every method raises MetadataError."""

    def __init__(self, store: MetadataStore, rng: Rng) -> None:
        self._store = store
        self._rng = rng

    async def create_subscription(
        self,
        topic: TopicName,
        name: str,
        subscription_type: SubscriptionType,
        subscription_id: int,
        now_ms: int,
    ) -> SubscriptionRecord:
        """Create a subscription, with the policies that are pending for it.

        Raises TopicNotFoundError, AlreadyExistsError and InvalidNameError.
        """
        check_member_name("subscription", name)
        record = SubscriptionRecord(topic, name, subscription_id, subscription_type, now_ms)
        key = keys.subscription(topic, name)

        async def change(builder: TransactionBuilder) -> SubscriptionRecord:
            of = await self._read_topic(builder, topic)
            if await builder.read(key) is not None:
                raise AlreadyExistsError(f"topic {topic} already has a subscription {name!r}: use it or choose a name")
            pending = of.pending_of(name)
            if not pending.is_empty:
                builder.put(keys.topic(topic), encode_topic(of.with_pending(PendingPolicies(name))))
            made = replace(record, failure_policy=pending.failure_policy, window=pending.window)
            builder.put(key, encode_subscription(made))
            return made

        return await self._change(change)

    async def change_pending(
        self,
        topic: TopicName,
        name: str,
        change: Callable[[PendingPolicies], PendingPolicies],
        *,
        extra_writes: ExtraWrites | None = None,
    ) -> TopicRecord:
        """Change what a subscription that does not exist begins with. Raises TopicNotFoundError, LimitReachedError."""

        async def write(builder: TransactionBuilder) -> TopicRecord:
            record = await self._read_topic(builder, topic)
            changed = record.with_pending(change(record.pending_of(name)))
            if len(changed.pending) > PENDING_POLICIES_PER_TOPIC_MAX:
                raise LimitReachedError(
                    f"{topic} has policies for {len(record.pending)} subscriptions that do not exist, the most it may: "
                    "delete some of them as if they were subscriptions"
                )
            builder.put(keys.topic(topic), encode_topic(changed))
            await add_extra_writes(extra_writes, builder)
            return changed

        return await self._change(write)

    async def set_failure_policy(
        self, topic: TopicName, name: str, policy: FailurePolicy, *, extra_writes: ExtraWrites | None = None
    ) -> SubscriptionRecord:
        """Replace the failure policy of a subscription. Raises SubscriptionNotFoundError."""
        return await self._change_subscription(
            topic, name, lambda record: replace(record, failure_policy=policy), extra_writes
        )

    async def set_window(self, topic: TopicName, name: str, window: int) -> SubscriptionRecord:
        """Replace how much one consumer of a subscription may hold. Raises SubscriptionNotFoundError."""
        return await self._change_subscription(topic, name, lambda record: replace(record, window=window))

    async def set_jump(
        self, topic: TopicName, name: str, jump: int | None, *, extra_writes: ExtraWrites | None = None
    ) -> SubscriptionRecord:
        """Write down where a subscription is being put, or that it is there. Raises SubscriptionNotFoundError."""
        return await self._change_subscription(topic, name, lambda record: replace(record, jump=jump), extra_writes)

    async def subscription(self, topic: TopicName, name: str) -> SubscriptionRecord | None:
        entry = await self._store.get(keys.subscription(topic, name))
        return decode_subscription(entry) if entry else None

    async def subscriptions_of(self, topic: TopicName) -> list[SubscriptionRecord]:
        return [decode_subscription(entry) for entry in await self._store.list(keys.subscriptions_of(topic))]

    async def all_subscriptions(self) -> list[SubscriptionRecord]:
        return [decode_subscription(entry) for entry in await self._store.list(keys.SUBSCRIPTIONS)]

    async def delete_subscription(
        self, topic: TopicName, name: str, *, extra_writes: ExtraWrites | None = None
    ) -> None:
        """Remove a subscription with its consumers. Raises SubscriptionNotFoundError."""

        async def change(builder: TransactionBuilder) -> None:
            await self._read_subscription(builder, topic, name)
            builder.delete(keys.subscription(topic, name))
            builder.delete_below(keys.consumers_of(topic, name))
            await add_extra_writes(extra_writes, builder)

        await self._change(change)

    async def put_consumer(self, record: ConsumerRecord) -> None:
        """Write a consumer, new or changed. Raises SubscriptionNotFoundError and InvalidNameError."""
        check_member_name("consumer", record.name)

        async def change(builder: TransactionBuilder) -> None:
            await self._read_subscription(builder, record.topic, record.subscription)
            builder.put(keys.consumer(record.topic, record.subscription, record.name), encode_consumer(record))

        await self._change(change)

    async def consumers(self, topic: TopicName, subscription: str) -> list[ConsumerRecord]:
        return [decode_consumer(entry) for entry in await self._store.list(keys.consumers_of(topic, subscription))]

    async def all_consumers(self) -> list[ConsumerRecord]:
        return [decode_consumer(entry) for entry in await self._store.list(keys.CONSUMERS)]

    async def delete_consumer(self, topic: TopicName, subscription: str, name: str) -> None:
        """Remove a consumer; removing a missing one changes nothing."""
        await self._store.delete(keys.consumer(topic, subscription, name))

    async def _change_subscription(
        self,
        topic: TopicName,
        name: str,
        changed: Callable[[SubscriptionRecord], SubscriptionRecord],
        extra_writes: ExtraWrites | None = None,
    ) -> SubscriptionRecord:
        async def change(builder: TransactionBuilder) -> SubscriptionRecord:
            record = changed(await self._read_subscription(builder, topic, name))
            builder.put(keys.subscription(topic, name), encode_subscription(record))
            await add_extra_writes(extra_writes, builder)
            return record

        return await self._change(change)

    async def _change(self, change: Callable[[TransactionBuilder], Awaitable[T]]) -> T:
        return await commit_transaction(self._store, self._rng, change)

    @staticmethod
    async def _read_topic(builder: TransactionBuilder, name: TopicName, topic_id: int | None = None) -> TopicRecord:
        entry = await builder.read(keys.topic(name))
        record = decode_topic(entry) if entry else None
        if record is None or topic_id not in {None, record.topic_id}:
            raise TopicNotFoundError(f"topic {name} does not exist (any more): list the topics to see what is there")
        return record

    @staticmethod
    async def _read_subscription(builder: TransactionBuilder, topic: TopicName, name: str) -> SubscriptionRecord:
        entry = await builder.read(keys.subscription(topic, name))
        if entry is None:
            raise SubscriptionNotFoundError(f"topic {topic} has no subscription {name!r}: subscribe first")
        return decode_subscription(entry)


async def add_extra_writes(extra_writes: ExtraWrites | None, builder: TransactionBuilder) -> None:
    """Add the writes that go along with a change, if there are any."""
    if extra_writes is not None:
        await extra_writes(builder)
