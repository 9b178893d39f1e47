"""Partitioned topics: read as one, and each message says where it was."""

from collections import Counter
from itertools import chain

from danube import DanubeClient, SubType
from tests.cluster.wheel import administering
from tests.cluster.wheel.scene import (
    close,
    covers,
    new_producer,
    new_reader,
    new_topic,
    payloads,
    reading,
    scenario,
    send_all,
    settle,
)


@covers("partitioning_validation.partitioning_validation")
async def messages_name_their_topic_or_their_partition(client: DanubeClient) -> None:
    for partitions in (0, 3):
        topic = new_topic()
        producer = await new_producer(client, topic, partitions=partitions)
        async with reading(client, topic) as reader:
            await send_all(producer, payloads(9))
            await reader.take(9)
            assert set(reader.topics) == (parts(topic, partitions) or {topic})


def parts(topic: str, partitions: int = 3) -> set[str]:
    return {f"{topic}-part-{index}" for index in range(partitions)}


async def partitioned(client: DanubeClient, kind: SubType, *, reliable: bool) -> None:
    topic = new_topic()
    producer = await new_producer(client, topic, partitions=3, reliable=reliable)
    async with reading(client, topic, kind=kind) as reader:
        await reader.drain()
        await send_all(producer, payloads(30))
        assert sorted(await reader.take(30)) == sorted(payloads(30))
        assert set(reader.topics) == parts(topic)


@covers("partitioned_basic.exclusive")
async def partitions_are_read_together(client: DanubeClient) -> None:
    await partitioned(client, SubType.EXCLUSIVE, reliable=True)


@scenario
async def partitions_are_read_together_without_reliability(client: DanubeClient) -> None:
    await partitioned(client, SubType.EXCLUSIVE, reliable=False)


@covers("partitioned_basic.shared")
async def partitions_of_a_shared_subscription_are_read_together(client: DanubeClient) -> None:
    await partitioned(client, SubType.SHARED, reliable=True)


@covers("partitioned_variants.queue_shared_distribution_and_partition_coverage")
async def partitions_are_shared_evenly_and_all_seen_by_each(client: DanubeClient) -> None:
    topic = new_topic()
    producer = await new_producer(client, topic, partitions=3)
    readers = [await new_reader(client, topic, "s", f"c{index}", SubType.SHARED) for index in range(3)]
    await settle(readers)
    await send_all(producer, payloads(60))
    await settle(readers, 60)
    assert Counter(chain.from_iterable(reader.got for reader in readers)) == Counter(payloads(60))
    assert all(15 <= len(reader.got) <= 25 for reader in readers), [len(reader.got) for reader in readers]
    assert all(set(reader.topics) == parts(topic) for reader in readers)
    await close(readers)


@covers("partitioned_variants.pubsub_fanout_exclusive_full_receipt")
async def partitions_are_read_in_full_by_every_subscription(client: DanubeClient) -> None:
    topic = new_topic()
    producer = await new_producer(client, topic, partitions=3)
    readers = [await new_reader(client, topic, f"s{index}", f"c{index}") for index in range(3)]
    await send_all(producer, payloads(45))
    for reader in readers:
        assert sorted(await reader.take(45)) == sorted(payloads(45))
    await close(readers)


@scenario
async def partitions_that_are_added_keep_everything_for_who_subscribes_anew(client: DanubeClient) -> None:
    topic = new_topic()
    await new_producer(client, topic, "old", partitions=2)
    await close([await new_reader(client, topic, "s", "c", SubType.SHARED)])
    await administering.administer("topics", "add-partitions", topic, "--count", "2")
    await send_all(await new_producer(client, topic, "new", partitions=4), payloads(8))
    async with reading(client, topic, kind=SubType.SHARED) as reader:
        assert sorted(await reader.take(8)) == sorted(payloads(8))
        assert set(reader.topics) == parts(topic, 4)
