"""The list of partitions that each base name has, kept within the transactions that create and delete topics."""

from collections.abc import Sequence

from danube.metadata.records import keys
from danube.metadata.records.record_format import decode_partitioned, encode_partitioned
from danube.metadata.transaction_builder import TransactionBuilder
from danube.model.errors import LimitReachedError, TopicExistsError
from danube.model.limits.broker import PARTITIONS_MAX
from danube.model.topic import TopicName


async def require_free(builder: TransactionBuilder, name: TopicName) -> None:
    """Raise TopicExistsError for a name that a topic has, or partitions have as their base."""
    if await builder.read(keys.topic(name)) is not None:
        raise TopicExistsError(f"topic {name} already exists: use it, or choose another name")
    if await builder.read(keys.partitioned(name)) is not None:
        raise TopicExistsError(f"topic {name} already exists, with partitions: use those, or choose another name")


async def join_base(builder: TransactionBuilder, names: Sequence[TopicName]) -> None:
    """Enter partitions of one base (or one plain topic, which has none) into the list of the base's partitions.

    Raises TopicExistsError where the base is a plain topic, and LimitReachedError beyond PARTITIONS_MAX.
    """
    base = names[0].base
    if base is None:
        return
    if await builder.read(keys.topic(base)) is not None:
        raise TopicExistsError(f"topic {base} already exists, without partitions: use it, or choose another name")
    indexes = decode_partitioned(await builder.read(keys.partitioned(base)))
    joined = indexes | {name.partition_index for name in names if name.partition_index is not None}
    if len(joined) > PARTITIONS_MAX:
        raise LimitReachedError(f"topic {base} has {len(indexes)} partitions, and {PARTITIONS_MAX} is the most")
    builder.put(keys.partitioned(base), encode_partitioned(joined))


async def leave_base(builder: TransactionBuilder, names: Sequence[TopicName]) -> None:
    """Take partitions of one base (or one plain topic, which has none) out of the list of the base's partitions."""
    base = names[0].base
    if base is None:
        return
    left = decode_partitioned(await builder.read(keys.partitioned(base))) - {name.partition_index for name in names}
    if left:
        builder.put(keys.partitioned(base), encode_partitioned(left))
    else:
        builder.delete(keys.partitioned(base))
