"""New topics: ids that no topic ever had, the partition lists of base names, and inherited subscriptions."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from danube.metadata.records import keys
from danube.metadata.records.record_format import (
    SubscriptionRecord,
    TopicRecord,
    decode_counter,
    decode_partitioned,
    decode_topic,
    encode_counter,
    encode_partitioned,
    encode_subscription,
    encode_topic,
)
from danube.metadata.records.storage import add_ownership
from danube.metadata.transaction_builder import TransactionBuilder
from danube.model.errors import LimitReachedError, TopicExistsError
from danube.model.limits.broker import PARTITIONS_MAX
from danube.model.limits.metadata import INHERITED_SUBSCRIPTIONS_MAX
from danube.model.policies import PendingPolicies
from danube.model.topic import DispatchStrategy, TopicName
from danube.runtime.rng import Rng

Inherit = Callable[[TopicName], Sequence[SubscriptionRecord]]
"""The subscriptions that a new partition of this name begins with, at its first offset, with ids of their own."""


def nothing_inherited(_name: TopicName) -> Sequence[SubscriptionRecord]:
    """No subscriptions: for plain topics, and first partitions."""
    return ()


async def put_topics(
    builder: TransactionBuilder,
    names: Sequence[TopicName],
    like: TopicRecord,
    now_ms: int,
    *,
    inherit: Inherit,
    rng: Rng,
    brokers: Sequence[int],
    own_id: int,
) -> list[TopicRecord]:
    """Write new topics of these names, with what each inherits, and the rest as in `like`.

    Each is assigned to one of `brokers`, in this order; those of `own_id` (0 for none) are its own at once.

    Raises TopicExistsError, and LimitReachedError where all of them together inherit too much.
    """
    last = decode_counter(await builder.read(keys.TOPIC_ID_COUNTER))
    jump = 0 if like.strategy is DispatchStrategy.RELIABLE else None
    records: list[TopicRecord] = []
    inherited: list[SubscriptionRecord] = []
    for topic_id, name, broker in zip(range(last + 1, last + 1 + len(names)), names, brokers, strict=True):
        await require_free(builder, name, like.base)
        pending = tuple(one for one in like.pending if _dead_letter_topic(one) != name)
        record = replace(like, name=name, topic_id=topic_id, broker=broker, created_ms=now_ms, pending=pending)
        add_ownership(builder, topic_id, owner=broker if broker == own_id else 0)
        for one in inherit(name):
            record = record.with_pending(PendingPolicies(one.name))
            inherited.append(replace(one, subscription_id=rng.new_id(), created_ms=now_ms, jump=jump))
        builder.put(keys.topic(name), encode_topic(record))
        records.append(record)
    builder.put(keys.TOPIC_ID_COUNTER, encode_counter(last + len(names)))
    if len(inherited) > INHERITED_SUBSCRIPTIONS_MAX:
        raise LimitReachedError(
            f"the new partitions would begin with {len(inherited)} subscriptions, and {INHERITED_SUBSCRIPTIONS_MAX} "
            "is the most of one change: add fewer partitions at once"
        )
    for one in inherited:
        builder.put(keys.subscription(one.topic, one.name), encode_subscription(one))
    return records


def _dead_letter_topic(pending: PendingPolicies) -> TopicName | None:
    return pending.failure_policy.dead_letters_go_to if pending.failure_policy else None


async def require_free(builder: TransactionBuilder, name: TopicName, base: TopicName | None) -> None:
    """Raise TopicExistsError for a name that a topic has, or partitions have as their base.

    Also for a plain topic (without a `base`) that would have the name of a partition of a topic that is there.
    """
    entry = await builder.read(keys.topic(name))
    if entry is not None and base is not None and decode_topic(entry).is_plain:
        raise TopicExistsError(
            f"{base} would have a partition of the name {name}, and that is a topic of its own: choose another name"
            " for the partitioned topic, or fewer partitions"
        )
    if entry is not None:
        raise TopicExistsError(f"topic {name} already exists: use it, or choose another name")
    if await builder.read(keys.partitioned(name)) is not None:
        raise TopicExistsError(f"topic {name} already exists, with partitions: use those, or choose another name")
    of = name.base_by_form if base is None else None
    if of is not None and await builder.read(keys.partitioned(of)) is not None:
        raise TopicExistsError(
            f"{name} would have the name of a partition of {of}, and be none: choose another name, or give {of} more"
            f" partitions (danube-admin topics add-partitions {of})"
        )


async def join_base(builder: TransactionBuilder, base: TopicName | None, names: Sequence[TopicName]) -> None:
    """Enter partitions into the list of their base's; a plain topic has none.

    Raises TopicExistsError where the base is a plain topic, and LimitReachedError beyond PARTITIONS_MAX.
    """
    if base is None:
        return
    if await builder.read(keys.topic(base)) is not None:
        raise TopicExistsError(f"topic {base} already exists, without partitions: use it, or choose another name")
    indexes = decode_partitioned(await builder.read(keys.partitioned(base)))
    joined = indexes | {name.partition_index for name in names if name.partition_index is not None}
    if len(joined) > PARTITIONS_MAX:
        raise LimitReachedError(f"topic {base} has {len(indexes)} partitions, and {PARTITIONS_MAX} is the most")
    builder.put(keys.partitioned(base), encode_partitioned(joined))


def not_partitions(indexes: Collection[int]) -> frozenset[int]:
    """Those of a list by name alone that nobody made as partitions: all without the first, and any beyond the most."""
    return frozenset(index for index in indexes if 0 not in indexes or index >= PARTITIONS_MAX)


async def part_plain(builder: TransactionBuilder, base: TopicName) -> None:
    """Take what is no partition out of the list of the base's, and mark it as plain."""
    indexes = decode_partitioned(await builder.read(keys.partitioned(base)))
    names = [base.partition(index) for index in not_partitions(indexes)]
    for name in names:
        entry = await builder.read(keys.topic(name))
        if entry is not None:
            builder.put(keys.topic(name), encode_topic(replace(decode_topic(entry), is_plain=True)))
    await leave_base(builder, base, names)


async def leave_base(builder: TransactionBuilder, base: TopicName | None, names: Collection[TopicName]) -> None:
    """Take partitions out of the list of their base's; a plain topic has none."""
    if base is None:
        return
    left = decode_partitioned(await builder.read(keys.partitioned(base))) - {name.partition_index for name in names}
    if left:
        builder.put(keys.partitioned(base), encode_partitioned(left))
    else:
        builder.delete(keys.partitioned(base))
