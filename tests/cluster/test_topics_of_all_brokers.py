"""An administrator at one of three brokers sees the topics of all, and partitioned ones by their name."""

import os
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from typing import Any

import pytest

from danube.admin.execution import parse_arguments
from danube.admin.grpc_gateway.gateway import GrpcGateway, opened
from danube.admin.operations import operation_of
from danube.admin.operations.operation import Call
from danube.admin.target import Target
from danube.client.client import DanubeClientBuilder
from danube.model.calls.admin import (
    CreatePartitionedTopic,
    CreateTopic,
    DescribeCursor,
    DescribeTopics,
    TopicDescription,
)
from danube.model.errors import UnrecoverableError
from danube.model.ownership import StorageMode
from danube.model.plans.plan import Caller, Face
from danube.model.topic import DispatchStrategy, TopicName
from danube.runtime.clock import SystemClock
from danube.testing.patience import PATIENCE_S
from danube.testing.processes.broker_cluster import BrokerCluster
from tests.cluster.seeing import until
from tests.plugins import fork_server

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
    return await operation.answer(call, parse_arguments(operation, arguments))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerCluster]:
    with BrokerCluster(
        tmp_path_factory.mktemp("brokers"), mode=StorageMode.SHARED_FS, settings={"lease_ttl_s": "20"}
    ) as running:
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


async def test_a_plain_topic_with_the_name_of_a_partition_is_none_for_any_of_three_brokers(
    cluster: BrokerCluster,
) -> None:
    base, plain = TopicName("apart", "report"), TopicName("apart", "report-part-2024")
    async with AsyncExitStack() as stack:
        targets = [Target(endpoint=one.endpoints.admin_url, timeout_s=PATIENCE_S) for one in cluster.brokers]
        gateways = [await stack.enter_async_context(opened(target)) for target in targets]
        client = await DanubeClientBuilder().service_url(cluster.brokers[0].endpoints.service_url).build()
        stack.push_async_callback(client.close)
        await gateways[0].create_namespace("apart")

        async def send(topic: TopicName, name: str, partitions: int) -> None:
            producer = client.new_producer().with_topic(str(topic)).with_name(name).with_partitions(partitions)
            made = producer.with_dispatch_strategy(DispatchStrategy.RELIABLE).build()
            await made.create()
            await made.send(b"x")
            await made.close()

        async def listed() -> list[set[tuple[TopicName, bool]]]:
            return [{(info.topic, info.base == base) for info in await one.topics("apart")} for one in gateways]

        await send(plain, "writer", 0)
        await gateways[1].create_partitioned_topic(
            CreatePartitionedTopic(base=base, partitions=2, strategy=DispatchStrategy.RELIABLE)
        )
        partitions = [base.partition(0), base.partition(1)]
        expected = {(plain, False), *((name, True) for name in partitions)}
        await until(lambda: _are_all(listed, expected))
        await send(base, "writer", len(await client.partitions(str(base))))
        assert await client.partitions(str(base)) == tuple(map(str, partitions))
        assert await client.base_of(str(plain)) == str(plain)
        assert await client.base_of(str(partitions[0])) == str(base)
        with pytest.raises(UnrecoverableError, match="add-partitions"):
            await send(base.partition(5), "writer", 0)
        for gateway in gateways:
            rows = (await answer(gateway, "list_topics", namespace="apart")).topics
            assert [(row.name, row.partitions) for row in rows] == [
                *((str(name), 2) for name in partitions),
                (str(plain), None),
            ]
            assert len((await gateway.describe_topics(DescribeTopics(topics=(base,), page_size=9))).topics) == 2
        command = [sys.executable, "-m", "danube.admin", "--endpoint", targets[2].endpoint]
        deleting = [*command, "topics", "delete", str(base), "--yes"]
        fork_server.run(deleting, variables=os.environ, timeout_s=PATIENCE_S).check_returncode()
        await until(lambda: _are_all(listed, {(plain, False)}))
        bounds = await client.bounds(str(plain))
        assert (bounds.start_offset, bounds.end_offset) == (0, 1)


async def _are_all(
    listed: Callable[[], Awaitable[list[set[tuple[TopicName, bool]]]]], expected: set[tuple[TopicName, bool]]
) -> bool:
    return await listed() == [expected] * 3
