"""An administrator at one of three brokers sees the topics of all, and partitioned ones by their name."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from danube.admin.execution import parse_arguments
from danube.admin.grpc_gateway.gateway import GrpcGateway, opened
from danube.admin.operations import operation_of
from danube.admin.operations.operation import Call
from danube.admin.target import Target
from danube.model.calls.admin import (
    CreatePartitionedTopic,
    CreateTopic,
    DescribeCursor,
    DescribeTopics,
    TopicDescription,
)
from danube.model.ownership import StorageMode
from danube.model.plans.plan import Caller, Face
from danube.model.topic import DispatchStrategy, TopicName
from danube.runtime.clock import SystemClock
from danube.testing.patience import PATIENCE_S
from danube.testing.processes.broker_cluster import BrokerCluster
from tests.cluster.seeing import until

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(450)]

BASE = TopicName("default", "parts")
PLAIN = [TopicName("default", f"t{number}") for number in range(4)]
ALL = {*PLAIN, *(BASE.partition(index) for index in range(3))}


async def described(gateway: GrpcGateway) -> list[TopicDescription]:
    """Every topic, two of each broker on a page."""
    found: list[TopicDescription] = []
    after: DescribeCursor | None = None
    while True:
        page = await gateway.describe_topics(DescribeTopics(namespace="default", page_size=2, after=after))
        found += page.topics
        after = page.next
        if after is None:
            return found


async def answer(gateway: GrpcGateway, name: str, **arguments: Any) -> Any:
    """The result of an operation."""
    operation = operation_of(name)
    call = Call(gateway=gateway, clock=SystemClock(), caller=Caller(who="ada", face=Face.CLI))
    assert operation.run is not None
    return await operation.run(call, parse_arguments(operation, arguments))


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[BrokerCluster]:
    with BrokerCluster(tmp_path, mode=StorageMode.SHARED_FS, settings={"lease_ttl_s": "20"}) as running:
        yield running


async def test_topics_lag_and_partitions_of_all_brokers_are_seen_from_one(cluster: BrokerCluster) -> None:
    target = Target(endpoint=cluster.brokers[0].endpoints.admin_url, timeout_s=PATIENCE_S)
    async with opened(target) as gateway:

        async def is_whole() -> bool:
            return len(await gateway.brokers()) == 3

        async def are_served() -> bool:
            topics = await described(gateway)
            return {topic.topic for topic in topics} == ALL and all(topic.is_served for topic in topics)

        await until(is_whole)
        for name in PLAIN:
            await gateway.create_topic(CreateTopic(topic=name, strategy=DispatchStrategy.RELIABLE))
        await gateway.create_partitioned_topic(
            CreatePartitionedTopic(base=BASE, partitions=3, strategy=DispatchStrategy.RELIABLE)
        )
        await until(are_served)
        topics = await described(gateway)
        assert len({topic.broker_id for topic in topics}) == 3
        assert len(topics) == len(ALL)
        made = await answer(gateway, "create_subscription", topic=str(BASE), subscription="s", start="earliest")
        assert made.partitions == 3
        detail = await answer(gateway, "describe_topic", topic=str(BASE))
        assert [each.name for each in detail.partitions] == [str(BASE.partition(index)) for index in range(3)]
        assert len({each.broker_id for each in detail.partitions}) == 3
        lag = await answer(gateway, "analyze_consumer_lag", source="live")
        assert [(row.topic, row.partitions) for row in lag.groups] == [(str(BASE), 3)]
