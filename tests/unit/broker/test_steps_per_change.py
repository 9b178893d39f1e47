"""A change of metadata costs a broker the same however many topics the cluster has: Python calls are counted."""

import asyncio
import sys
from types import FrameType

from danube.broker.cluster.member import Cluster
from danube.metadata.records import keys
from danube.metadata.records.record_format import TopicRecord, encode_topic
from danube.metadata.store import Entry
from danube.model.topic import DispatchStrategy, TopicName
from danube.testing.in_process_broker import Cell
from tests.unit.broker.network import Network, is_served, until
from tests.unit.broker.test_placement import shared

TOPICS = 10_000


async def test_a_creation_takes_no_step_for_each_topic_of_the_cluster(network: Network) -> None:
    leader, other = await shared(network, "a"), await shared(network, "b")
    topics = [TopicName("default", f"made-{number}") for number in range(4)]
    before = [await calls_of_a_creation(leader, other, name) for name in topics[:2]]
    await follow_topics_of(await network.id_of(other), leader)
    after = [await calls_of_a_creation(leader, other, name) for name in topics[2:]]
    assert min(after) - max(before) < TOPICS / 2


async def follow_topics_of(broker_id: int, cell: Cell) -> None:
    """Have the leader know so many topics of another broker."""
    cluster = cell.broker.cluster
    assert cluster is not None
    await until(lambda: is_leader(cluster))
    for number in range(TOPICS):
        name = TopicName("default", f"t{number}")
        record = TopicRecord(name, 1_000_000 + number, DispatchStrategy.NON_RELIABLE, 0, broker=broker_id)
        key = keys.topic(name)
        cluster.topics.follow_topic(key, Entry(key, encode_topic(record), 1, 1))
    await asyncio.sleep(0.1)
    cluster.topics.choose([TopicName("default", "first")])  # loads are summed up once for each set of reports


async def is_leader(cluster: Cluster) -> bool:
    return cluster.election.is_leader


async def calls_of_a_creation(leader: Cell, other: Cell, topic: TopicName) -> int:
    """Calls in this process from the request for a new topic until a broker serves it."""
    calls = 0

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in {"call", "c_call"}

    async def is_open() -> bool:
        return await is_served(leader, topic) or await is_served(other, topic)

    sys.setprofile(count)
    try:
        await leader.admin.create_topic(topic)
        await until(is_open)
    finally:
        sys.setprofile(None)
    return calls
