"""Brokers that die are missed long before their lease ends: leases are longer here than the test waits."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from danube.admin.grpc_gateway.gateway import opened
from danube.admin.target import Target
from danube.model.calls.admin import CreateTopic
from danube.model.ownership import OwnershipState, StorageMode
from danube.model.topic import DispatchStrategy, TopicName
from danube.testing.patience import PATIENCE_S
from danube.testing.processes.broker_cluster import BrokerCluster
from tests.cluster.seeing import until
from tests.cluster.test_topics_of_all_brokers import described

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

LEASE_S = "60"
WITHIN_S = 40.0
"""A lease that was renewed at the moment of the kill lasts for longer."""
TOPICS = [TopicName("default", f"t{number}") for number in range(3)]


STATES = {StorageMode.SHARED_FS: OwnershipState.SERVED, StorageMode.LOCAL: OwnershipState.WAITING}
"""Of the topics of a broker that was killed."""


@pytest.fixture(params=[*STATES])
def mode(request: pytest.FixtureRequest) -> StorageMode:
    return StorageMode(request.param)


@pytest.fixture
def cluster(tmp_path: Path, mode: StorageMode) -> Iterator[BrokerCluster]:
    with BrokerCluster(tmp_path, mode=mode, settings={"lease_ttl_s": LEASE_S}) as running:
        yield running


async def test_a_killed_broker_is_missed_at_once(cluster: BrokerCluster, mode: StorageMode) -> None:
    asked, killed = cluster.brokers[0], cluster.brokers[2]
    async with opened(Target(endpoint=asked.endpoints.admin_url, timeout_s=PATIENCE_S)) as gateway:

        async def is_whole() -> bool:
            return len(await gateway.brokers()) == 3

        async def is_one_missed() -> bool:
            return any(one.last_seen_ms is not None for one in (await gateway.describe_cluster()).brokers)

        async def are(state: OwnershipState) -> bool:
            topics = await described(gateway)
            states = {topic.state.state for topic in topics if topic.state}
            return len(topics) == len(TOPICS) and state in states and states <= {state, OwnershipState.SERVED}

        await until(is_whole)
        for name in TOPICS:
            await gateway.create_topic(CreateTopic(topic=name, strategy=DispatchStrategy.RELIABLE))
        await until(lambda: are(OwnershipState.SERVED))
        await asyncio.to_thread(killed.kill)
        async with asyncio.timeout(WITHIN_S):
            await until(is_one_missed)
            await until(lambda: are(STATES[mode]))
