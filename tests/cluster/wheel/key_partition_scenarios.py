"""Key-Shared subscriptions of partitioned topics: a key has one partition, and there one consumer."""

from danube import DanubeClient, SubType
from tests.cluster.wheel.keyed import (
    check_all_came_once,
    check_each_key_is_at_one_consumer_in_order,
    check_each_key_is_in_order,
    key_readers,
    keyed,
    partition_of,
    send_keyed,
)
from tests.cluster.wheel.scene import Reader, close, covers, new_producer, new_reader, new_topic, settle

PARTITIONS = 3


def check_partitions(readers: list[Reader], topic: str, sent: dict[bytes, str], partitions: int) -> None:
    """Each message was in the partition of its key."""
    for reader in readers:
        for payload, was_in in zip(reader.got, reader.topics, strict=True):
            assert was_in == partition_of(topic, sent[payload], partitions)


async def by_partitions(client: DanubeClient, consumers: int, partitions: int, *, reliable: bool) -> None:
    topic = new_topic()
    producer = await new_producer(client, topic, reliable=reliable, partitions=partitions)
    readers = await key_readers(client, topic, consumers)
    await settle(readers)
    sent = keyed(60, keys=12)
    await send_keyed(producer, sent)
    await settle(readers, 60)
    check_all_came_once(readers, sent)
    check_each_key_is_at_one_consumer_in_order(readers, sent)
    check_partitions(readers, topic, {payload: key for key, payload in sent}, partitions)
    await close(readers)


@covers("key_shared_partitioned.single_consumer")
async def key_shared_finds_each_key_in_one_partition(client: DanubeClient) -> None:
    await by_partitions(client, 1, PARTITIONS, reliable=False)


@covers("key_shared_partitioned.multi_consumer_affinity")
async def key_shared_keeps_each_key_of_each_partition_at_one_consumer(client: DanubeClient) -> None:
    await by_partitions(client, 3, PARTITIONS, reliable=False)


@covers("key_shared_partitioned.reliable_partitioned")
async def key_shared_keeps_each_key_of_a_reliable_partition_at_one_consumer(client: DanubeClient) -> None:
    await by_partitions(client, 2, 2, reliable=True)


@covers("key_shared_partitioned.consumer_churn_join")
async def consumer_joins_the_keys_of_all_partitions_and_none_is_lost(client: DanubeClient) -> None:
    topic = new_topic()
    producer = await new_producer(client, topic, partitions=PARTITIONS)
    readers = await key_readers(client, topic, 2)
    sent = keyed(120, keys=40)
    await send_keyed(producer, sent[:60])
    await settle(readers, 60)
    readers.append(await new_reader(client, topic, "s", "late", SubType.KEY_SHARED))
    await send_keyed(producer, sent[60:])
    await settle(readers, 120)
    check_all_came_once(readers, sent)
    assert 0 < len(readers[-1].got) < 60
    check_each_key_is_in_order(readers, sent)
    await close(readers)
