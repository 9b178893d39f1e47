import asyncio
from collections.abc import Awaitable, Callable

import pytest

from danube.metadata.memory import MemoryStore
from danube.metadata.records import keys
from danube.metadata.records.catalog import ConsumerRecord, NamespaceRecord, Records, SubscriptionRecord, TopicRecord
from danube.metadata.records.record_format import encode_topic
from danube.metadata.store import Transaction
from danube.model.errors import (
    AlreadyExistsError,
    InvalidNameError,
    InvalidRequestError,
    LimitReachedError,
    NamespaceNotFoundError,
    PreconditionFailedError,
    SubscriptionNotFoundError,
    TopicExistsError,
    TopicNotFoundError,
)
from danube.model.limits.broker import PARTITIONS_MAX
from danube.model.subscription import SubscriptionType
from danube.model.topic import DispatchStrategy, TopicName
from danube.testing.simulated.clock import SimClock

RELIABLE = DispatchStrategy.RELIABLE
ORDERS = TopicName("default", "orders")
NOW_MS = 1_750_000_000_000


class InterruptedStore(MemoryStore):
    """Lets one thing happen between a change's reads and its transaction."""

    def __init__(self) -> None:
        super().__init__(SimClock())
        self.interrupt: Callable[[], Awaitable[object]] | None = None

    async def transact(self, transaction: Transaction) -> int:
        interrupt, self.interrupt = self.interrupt, None
        if interrupt:
            await interrupt()
        return await super().transact(transaction)


@pytest.fixture
def store() -> InterruptedStore:
    return InterruptedStore()


@pytest.fixture
async def records(store: InterruptedStore) -> Records:
    records = Records(store)
    await records.ensure_namespace("default")
    return records


@pytest.fixture
def other(store: InterruptedStore, records: Records) -> Records:
    """Another broker on the same store."""
    return Records(store)


def topic_record(name: TopicName, topic_id: int) -> TopicRecord:
    return TopicRecord(name, topic_id, RELIABLE, NOW_MS)


def consumer_record(name: str, subscription: str = "s") -> ConsumerRecord:
    return ConsumerRecord(ORDERS, subscription, name, 5, ("k*",), NOW_MS)


async def names(records: Records) -> list[str]:
    return [str(record.name) for record in await records.topics()]


# Namespaces


async def test_namespace_is_made_once(records: Records, store: InterruptedStore) -> None:
    before = await store.get(keys.namespace("default"))
    assert await records.ensure_namespace("default") == NamespaceRecord("default")
    assert await store.get(keys.namespace("default")) == before
    assert await records.namespaces() == [NamespaceRecord("default")]
    assert (await records.namespace_exists("default"), await records.namespace_exists("def")) == (True, False)


async def test_namespace_that_is_there_is_not_created_again(records: Records, other: Records) -> None:
    await records.create_namespace("apart")
    with pytest.raises(AlreadyExistsError, match="'apart' already exists"):
        await other.create_namespace("apart")


async def test_of_two_who_create_a_namespace_one_is_told_that_it_exists(
    records: Records, other: Records, store: InterruptedStore
) -> None:
    store.interrupt = lambda: other.create_namespace("apart")
    with pytest.raises(AlreadyExistsError):
        await records.create_namespace("apart")


async def test_deleted_namespace_is_gone_and_its_name_free(records: Records) -> None:
    await records.create_namespace("apart")
    await records.delete_namespace("apart")
    assert not await records.namespace_exists("apart")
    await records.create_namespace("apart")


async def test_missing_namespace_is_not_deleted(records: Records) -> None:
    with pytest.raises(NamespaceNotFoundError):
        await records.delete_namespace("apart")


async def test_namespace_is_deleted_when_its_last_topic_is(records: Records) -> None:
    topic = await records.create_topic(ORDERS, RELIABLE, NOW_MS)
    with pytest.raises(PreconditionFailedError, match="it has 1 topic: delete"):
        await records.delete_namespace("default")
    await records.delete_topic(topic)
    await records.delete_namespace("default")


async def test_topic_made_while_its_namespace_is_being_deleted_keeps_it(
    records: Records, other: Records, store: InterruptedStore
) -> None:
    store.interrupt = lambda: other.create_topic(ORDERS, RELIABLE, NOW_MS)
    with pytest.raises(PreconditionFailedError, match="1 topic"):
        await records.delete_namespace("default")
    assert await names(records) == [str(ORDERS)]


async def test_namespace_deleted_while_a_topic_is_made_in_it_takes_none(
    records: Records, other: Records, store: InterruptedStore
) -> None:
    store.interrupt = lambda: other.delete_namespace("default")
    with pytest.raises(NamespaceNotFoundError):
        await records.create_topic(ORDERS, RELIABLE, NOW_MS)
    assert await names(records) == []


async def test_namespace_with_a_bad_name_is_refused(records: Records) -> None:
    with pytest.raises(InvalidNameError):
        await records.ensure_namespace("a/b")


# Topics


async def test_created_topic_reads_back(records: Records) -> None:
    created = await records.create_topic(ORDERS, DispatchStrategy.NON_RELIABLE, NOW_MS, schema_subject="orders-value")
    assert created == TopicRecord(ORDERS, 1, DispatchStrategy.NON_RELIABLE, NOW_MS, "orders-value")
    assert await records.topic(ORDERS) == created
    assert await records.topic(TopicName("default", "other")) is None


async def test_topic_id_is_never_given_out_again(records: Records, other: Records) -> None:
    first = await records.create_topic(ORDERS, RELIABLE, NOW_MS)
    await records.delete_topic(first)
    second = await other.create_topic(ORDERS, RELIABLE, NOW_MS)
    assert (first.topic_id, second.topic_id) == (1, 2)


async def test_topic_in_a_missing_namespace_is_refused_with_the_next_step(records: Records) -> None:
    with pytest.raises(NamespaceNotFoundError, match="namespaces create nowhere"):
        await records.create_topic(TopicName("nowhere", "orders"), RELIABLE, NOW_MS)
    assert await records.topics() == []


async def test_same_topic_twice_is_refused(records: Records) -> None:
    await records.create_topic(ORDERS, RELIABLE, NOW_MS)
    with pytest.raises(TopicExistsError):
        await records.create_topic(ORDERS, RELIABLE, NOW_MS)


async def test_topics_of_a_namespace_are_not_those_of_one_whose_name_begins_so(records: Records) -> None:
    await records.ensure_namespace("default2")
    await records.create_topic(TopicName("default2", "orders"), RELIABLE, NOW_MS)
    await records.create_topic(ORDERS, RELIABLE, NOW_MS)
    assert await records.topics_of("default") == [topic_record(ORDERS, 2)]
    assert await names(records) == ["/default/orders", "/default2/orders"]


async def test_topics_made_at_once_by_two_brokers_get_ids_of_their_own(records: Records, other: Records) -> None:
    creations = [
        maker.create_topic(TopicName("default", f"t{index}-{number}"), RELIABLE, NOW_MS)
        for index, maker in enumerate((records, other))
        for number in range(100)
    ]
    made = await asyncio.gather(*creations)
    assert sorted(record.topic_id for record in made) == list(range(1, 201))


async def test_one_of_two_brokers_that_make_the_same_topic_is_refused(
    records: Records, other: Records, store: InterruptedStore
) -> None:
    store.interrupt = lambda: other.create_topic(ORDERS, RELIABLE, NOW_MS)
    with pytest.raises(TopicExistsError):
        await records.create_topic(ORDERS, RELIABLE, NOW_MS)
    assert await records.topics() == [topic_record(ORDERS, 1)]


# Partitions


async def test_partitions_come_in_the_order_of_their_index(records: Records) -> None:
    made = await records.create_partitioned_topic(ORDERS, 12, RELIABLE, NOW_MS)
    assert made == [topic_record(ORDERS.partition(index), index + 1) for index in range(12)]
    assert await records.partitions_of(ORDERS) == made


async def test_partitions_of_a_topic_are_not_those_of_one_whose_name_begins_so(records: Records) -> None:
    await records.create_partitioned_topic(TopicName("default", "orders2"), 2, RELIABLE, NOW_MS)
    assert await records.partitions_of(ORDERS) == []
    await records.create_topic(ORDERS, RELIABLE, NOW_MS)
    assert await records.partitions_of(ORDERS) == []


async def test_most_partitions_fit_into_one_creation(records: Records) -> None:
    assert len(await records.create_partitioned_topic(ORDERS, PARTITIONS_MAX, RELIABLE, NOW_MS)) == PARTITIONS_MAX
    with pytest.raises(LimitReachedError):
        await records.create_topic(ORDERS.partition(PARTITIONS_MAX), RELIABLE, NOW_MS, base=ORDERS)


@pytest.mark.parametrize("partitions", [0, -1, PARTITIONS_MAX + 1])
async def test_impossible_number_of_partitions_is_refused(records: Records, partitions: int) -> None:
    with pytest.raises(InvalidRequestError):
        await records.create_partitioned_topic(ORDERS, partitions, RELIABLE, NOW_MS)


async def test_partitioned_topic_is_made_whole_or_not_at_all(records: Records) -> None:
    await records.create_topic(ORDERS.partition(1), RELIABLE, NOW_MS, base=ORDERS)
    with pytest.raises(TopicExistsError):
        await records.create_partitioned_topic(ORDERS, 3, RELIABLE, NOW_MS)
    assert await names(records) == ["/default/orders-part-1"]


async def test_partition_made_alone_joins_the_others(records: Records) -> None:
    await records.create_partitioned_topic(ORDERS, 2, RELIABLE, NOW_MS)
    third = await records.create_topic(ORDERS.partition(2), RELIABLE, NOW_MS, base=ORDERS)
    assert (await records.partitions_of(ORDERS))[2:] == [third]


async def test_plain_topic_and_partitions_of_one_base_exclude_each_other(records: Records) -> None:
    plain = await records.create_topic(ORDERS, RELIABLE, NOW_MS)
    with pytest.raises(TopicExistsError, match="without partitions"):
        await records.create_topic(ORDERS.partition(0), RELIABLE, NOW_MS, base=ORDERS)
    with pytest.raises(TopicExistsError):
        await records.create_partitioned_topic(ORDERS, 2, RELIABLE, NOW_MS)
    await records.delete_topic(plain)
    await records.create_topic(ORDERS.partition(0), RELIABLE, NOW_MS, base=ORDERS)
    with pytest.raises(TopicExistsError, match="with partitions"):
        await records.create_topic(ORDERS, RELIABLE, NOW_MS)


async def test_plain_topic_made_at_the_same_time_as_a_partition_excludes_it(
    records: Records, other: Records, store: InterruptedStore
) -> None:
    store.interrupt = lambda: other.create_topic(ORDERS, RELIABLE, NOW_MS)
    with pytest.raises(TopicExistsError):
        await records.create_topic(ORDERS.partition(0), RELIABLE, NOW_MS, base=ORDERS)
    assert await names(records) == ["/default/orders"]


async def test_base_is_free_again_when_its_last_partition_is_gone(records: Records) -> None:
    first, second = await records.create_partitioned_topic(ORDERS, 2, RELIABLE, NOW_MS)
    await records.delete_topic(first)
    assert await records.partitions_of(ORDERS) == [second]
    await records.delete_topic(second)
    await records.create_topic(ORDERS, RELIABLE, NOW_MS)


async def test_partition_made_while_the_last_other_one_goes_is_not_forgotten(
    records: Records, other: Records, store: InterruptedStore
) -> None:
    first = await records.create_topic(ORDERS.partition(0), RELIABLE, NOW_MS, base=ORDERS)
    store.interrupt = lambda: other.create_topic(ORDERS.partition(1), RELIABLE, NOW_MS, base=ORDERS)
    await records.delete_topic(first)
    assert await records.partitions_of(ORDERS) == [topic_record(ORDERS.partition(1), 2)]


# Deleting topics


async def test_deleted_topic_takes_subscriptions_and_consumers_along_and_no_others(records: Records) -> None:
    longer = TopicName("default", "orders2")
    for name in (ORDERS, longer):
        await records.create_topic(name, RELIABLE, NOW_MS)
        await records.create_subscription(name, "s", SubscriptionType.SHARED, 9, NOW_MS)
        await records.put_consumer(ConsumerRecord(name, "s", "c", 5, (), NOW_MS))
    await records.delete_topic(topic_record(ORDERS, 1))
    assert await names(records) == ["/default/orders2"]
    assert [record.topic for record in await records.all_subscriptions()] == [longer]
    assert [record.topic for record in await records.all_consumers()] == [longer]


async def test_subscription_made_while_its_topic_goes_is_gone_with_it(
    records: Records, other: Records, store: InterruptedStore
) -> None:
    topic = await records.create_topic(ORDERS, RELIABLE, NOW_MS)
    store.interrupt = lambda: other.delete_topic(topic)
    with pytest.raises(TopicNotFoundError):
        await records.create_subscription(ORDERS, "s", SubscriptionType.SHARED, 9, NOW_MS)
    assert await store.list("/subscriptions") == []


async def test_subscription_made_before_the_deletion_is_applied_goes_too(
    records: Records, other: Records, store: InterruptedStore
) -> None:
    topic = await records.create_topic(ORDERS, RELIABLE, NOW_MS)
    store.interrupt = lambda: other.create_subscription(ORDERS, "s", SubscriptionType.SHARED, 9, NOW_MS)
    await records.delete_topic(topic)
    assert await store.list("/subscriptions") == []


async def test_topic_changed_while_it_is_being_deleted_is_deleted_still(
    records: Records, store: InterruptedStore
) -> None:
    topic = await records.create_topic(ORDERS, RELIABLE, NOW_MS)
    entry = await store.get(keys.topic(ORDERS))
    assert entry is not None
    store.interrupt = lambda: store.put(entry.key, entry.value)
    await records.delete_topic(topic)
    assert await records.topic(ORDERS) is None


async def test_topic_that_took_the_place_of_the_deleted_one_stays(records: Records) -> None:
    first = await records.create_topic(ORDERS, RELIABLE, NOW_MS)
    await records.delete_topic(first)
    second = await records.create_topic(ORDERS, RELIABLE, NOW_MS)
    with pytest.raises(TopicNotFoundError):
        await records.delete_topic(first)
    assert await records.topic(ORDERS) == second


# Subscriptions and consumers


async def test_created_subscription_reads_back(records: Records) -> None:
    await records.create_topic(ORDERS, RELIABLE, NOW_MS)
    created = await records.create_subscription(ORDERS, "s/1", SubscriptionType.KEY_SHARED, 9, NOW_MS)
    assert created == SubscriptionRecord(ORDERS, "s/1", 9, SubscriptionType.KEY_SHARED, NOW_MS)
    assert await records.subscription(ORDERS, "s/1") == created
    assert await records.subscription(ORDERS, "s") is None
    assert await records.subscriptions_of(ORDERS) == await records.all_subscriptions() == [created]


async def test_subscription_needs_its_topic_and_a_name_of_its_own(records: Records) -> None:
    with pytest.raises(TopicNotFoundError):
        await records.create_subscription(ORDERS, "s", SubscriptionType.SHARED, 9, NOW_MS)
    await records.create_topic(ORDERS, RELIABLE, NOW_MS)
    await records.create_subscription(ORDERS, "s", SubscriptionType.SHARED, 9, NOW_MS)
    with pytest.raises(AlreadyExistsError):
        await records.create_subscription(ORDERS, "s", SubscriptionType.EXCLUSIVE, 10, NOW_MS)
    with pytest.raises(InvalidNameError):
        await records.create_subscription(ORDERS, "", SubscriptionType.SHARED, 11, NOW_MS)


async def test_deleted_subscription_takes_its_consumers_along(records: Records) -> None:
    await records.create_topic(ORDERS, RELIABLE, NOW_MS)
    for name in ("s", "s2"):
        await records.create_subscription(ORDERS, name, SubscriptionType.SHARED, 9, NOW_MS)
        await records.put_consumer(consumer_record("c", name))
    await records.delete_subscription(ORDERS, "s")
    assert await records.consumers(ORDERS, "s") == []
    assert await records.consumers(ORDERS, "s2") == [consumer_record("c", "s2")]
    with pytest.raises(SubscriptionNotFoundError):
        await records.delete_subscription(ORDERS, "s")


async def test_consumer_is_written_read_and_removed(records: Records) -> None:
    await records.create_topic(ORDERS, RELIABLE, NOW_MS)
    await records.create_subscription(ORDERS, "s", SubscriptionType.SHARED, 9, NOW_MS)
    await records.put_consumer(consumer_record("c/1"))
    await records.put_consumer(consumer_record("c/1"))
    assert await records.consumers(ORDERS, "s") == [consumer_record("c/1")]
    await records.delete_consumer(ORDERS, "s", "c/1")
    await records.delete_consumer(ORDERS, "s", "c/1")
    assert await records.consumers(ORDERS, "s") == []


async def test_consumer_of_a_missing_subscription_is_refused(records: Records) -> None:
    with pytest.raises(SubscriptionNotFoundError):
        await records.put_consumer(consumer_record("c"))


# Plain topics with the name of a partition

REPORT = TopicName("default", "report")
REPORT_2024 = TopicName("default", "report-part-2024")


async def test_a_plain_topic_with_the_name_of_a_partition_stays_apart_from_a_partitioned_one(records: Records) -> None:
    plain = await records.create_topic(REPORT_2024, RELIABLE, NOW_MS)
    made = await records.create_partitioned_topic(REPORT, 2, RELIABLE, NOW_MS)
    assert (plain.base, [record.base for record in made]) == (None, [REPORT, REPORT])
    assert await records.topic(REPORT_2024) == plain
    assert await records.partitions_of(REPORT) == made
    await records.delete_topics(made)
    assert await names(records) == [str(REPORT_2024)]
    await records.delete_topic(plain)
    assert await names(records) == []


async def test_a_partitioned_topic_is_refused_while_a_plain_one_has_the_name_of_a_partition(records: Records) -> None:
    await records.create_topic(REPORT.partition(2), RELIABLE, NOW_MS)
    with pytest.raises(TopicExistsError, match="topic of its own"):
        await records.create_partitioned_topic(REPORT, 3, RELIABLE, NOW_MS)
    await records.create_partitioned_topic(REPORT, 2, RELIABLE, NOW_MS)
    with pytest.raises(TopicExistsError, match="topic of its own"):
        await records.add_partitions(REPORT, 1, NOW_MS)
    with pytest.raises(TopicExistsError, match="topic of its own"):
        await records.create_topic(REPORT.partition(2), RELIABLE, NOW_MS, base=REPORT)
    assert len(await records.partitions_of(REPORT)) == 2


async def test_a_plain_topic_with_a_name_of_a_partitioned_one_is_refused(records: Records) -> None:
    await records.create_partitioned_topic(REPORT, 2, RELIABLE, NOW_MS)
    with pytest.raises(TopicExistsError, match="add-partitions /default/report"):
        await records.create_topic(REPORT.partition(7), RELIABLE, NOW_MS)


async def test_of_a_plain_topic_and_a_partition_of_one_name_made_at_the_same_time_one_is_refused(
    records: Records, other: Records, store: InterruptedStore
) -> None:
    store.interrupt = lambda: other.create_topic(REPORT.partition(1), RELIABLE, NOW_MS)
    with pytest.raises(TopicExistsError, match="topic of its own"):
        await records.create_partitioned_topic(REPORT, 2, RELIABLE, NOW_MS)
    store.interrupt = lambda: other.create_partitioned_topic(ORDERS, 2, RELIABLE, NOW_MS)
    with pytest.raises(TopicExistsError, match="add-partitions"):
        await records.create_topic(ORDERS.partition(5), RELIABLE, NOW_MS)


async def test_topics_that_older_brokers_took_for_partitions_are_told_from_those_that_are(records: Records) -> None:
    for base, indexes in ((ORDERS, (0, 1, 2024)), (REPORT, (3, 2024))):
        for index in indexes:
            made = await records.create_topic(base.partition(index), RELIABLE, NOW_MS, base=base)
            assert b"is_plain" not in encode_topic(made), "a record of an older broker"
    await records.part_plain_topics()
    assert [record.name for record in await records.topics() if record.base is None] == [
        ORDERS.partition(2024),
        REPORT_2024,
        REPORT.partition(3),
    ]
    assert [record.name for record in await records.partitions_of(ORDERS)] == [ORDERS.partition(0), ORDERS.partition(1)]
    assert len(await records.create_partitioned_topic(REPORT, 2, RELIABLE, NOW_MS)) == 2
    stands = await records.topics()
    await records.part_plain_topics()
    assert await records.topics() == stands
