"""Topics of real brokers change their broker under load: each kind of metadata store, each place of messages."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from danube.client import DanubeClientBuilder, DispatchStrategy
from danube.client.consume.consume_stream import ConsumeStream
from danube.model.calls.consume import ConsumeMoved
from danube.model.errors import UnavailableError
from danube.model.ownership import StorageMode
from danube.model.topic import TopicName
from danube.testing.patience import PATIENCE_S
from danube.testing.processes.broker_cluster import BrokerCluster
from danube.testing.processes.service import ServiceProcess
from lab.failover.administration import Administration
from lab.metadata.servers import SERVERS
from tests.cluster.following import Application
from tests.cluster.seeing import until

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(300)]

SOME = 20
"""Messages that are published and received before and after."""


@pytest.fixture(scope="module", params=["raft", *(pytest.param(name, marks=pytest.mark.nightly) for name in SERVERS)])
def service(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServiceProcess | None]:
    """The service that keeps the metadata; None for Raft."""
    if request.param == "raft":
        yield None
        return
    try:
        server = SERVERS[request.param](tmp_path_factory.mktemp(request.param))
    except UnavailableError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(error))
    with server:
        yield server


@pytest.fixture(scope="module", params=[StorageMode.LOCAL, StorageMode.SHARED_FS])
def processes(
    request: pytest.FixtureRequest, service: ServiceProcess | None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[BrokerCluster, StorageMode]]:
    """Brokers that run, and the place of their messages."""
    mode: StorageMode = request.param
    with BrokerCluster(tmp_path_factory.mktemp(mode), service=service, root=f"/{mode}", mode=mode) as running:
        yield running, mode


@pytest.fixture
async def cluster(processes: tuple[BrokerCluster, StorageMode]) -> Administration:
    """Three brokers that run."""
    found = Administration(*processes)
    await until(found.is_whole)
    return found


@pytest.fixture
async def application(cluster: Administration, request: pytest.FixtureRequest) -> AsyncIterator[Application]:
    topic = TopicName("default", request.function.__name__)
    async with Application.running(cluster.processes, topic) as running:
        await running.see(SOME)
        yield running
        await running.see(SOME)
        await running.judge()


async def test_a_topic_is_unloaded(cluster: Administration, application: Application) -> None:
    owner = await cluster.owner(application.topic)
    await cluster.apply(owner, "unload_topic", topic=str(application.topic))
    await cluster.leaves(application.topic, owner)


async def test_a_streaming_consumer_is_told_where_its_topic_is_and_goes_on_there(
    cluster: Administration, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[ConsumeMoved] = []
    handle = ConsumeStream._handle

    def noting(stream: ConsumeStream, answer: object, *of: Any) -> Any:
        if isinstance(answer, ConsumeMoved):
            told.append(answer)
        return handle(stream, answer, *of)

    monkeypatch.setattr(ConsumeStream, "_handle", noting)
    topic = TopicName("default", "told")
    url = cluster.processes.brokers[0].endpoints.service_url
    async with await DanubeClientBuilder().service_url(url).build() as client:
        building = client.new_producer().with_topic(str(topic)).with_name("p")
        producer = building.with_dispatch_strategy(DispatchStrategy.RELIABLE).build()
        reading = client.new_consumer().with_topic(str(topic)).with_consumer_name("c").with_subscription("s")
        async with asyncio.timeout(PATIENCE_S), producer, reading.build() as consumer:
            await producer.send_many(b"%d" % number for number in range(SOME))
            await consumer.ack_many([await anext(consumer) for _ in range(SOME)])
            owner = await cluster.owner(topic)
            await cluster.apply(owner, "unload_topic", topic=str(topic))
            await cluster.leaves(topic, owner)
            await producer.send_many(b"%d" % number for number in range(SOME, 2 * SOME))
            found = [await anext(consumer) for _ in range(SOME)]
            await consumer.ack_many(found)
    assert [int(each.payload) for each in found] == list(range(SOME, 2 * SOME))
    assert [each.connect_url for each in told] == [(await cluster.owner(topic)).endpoints.service_url]


async def test_a_broker_is_drained_and_activated(cluster: Administration, application: Application) -> None:
    owner = await cluster.owner(application.topic)
    broker_id = await cluster.id_of(owner)
    await cluster.apply(owner, "unload_broker", broker_id=broker_id)
    await cluster.leaves(application.topic, owner)
    await cluster.apply(owner, "activate_broker", broker_id=broker_id)


async def test_a_broker_is_killed_and_started(cluster: Administration, application: Application) -> None:
    owner = await cluster.owner(application.topic)
    await asyncio.to_thread(owner.kill)
    if cluster.mode is StorageMode.SHARED_FS:
        await cluster.leaves(application.topic, owner)
        await application.see(SOME)
    await asyncio.to_thread(owner.start)


@pytest.mark.parametrize("service", ["raft"], indirect=True)
@pytest.mark.parametrize("processes", [StorageMode.SHARED_FS], indirect=True)
async def test_an_owner_that_stands_still_comes_back_without_its_topics(
    cluster: Administration, application: Application
) -> None:
    owner = await cluster.owner(application.topic)
    owner.pause()
    try:
        await cluster.leaves(application.topic, owner)
        await application.see(SOME)
    finally:
        owner.resume()
    await until(cluster.is_whole)  # it starts again, where clients and the other brokers know it


async def test_a_broker_is_ended_and_started(cluster: Administration, application: Application) -> None:
    owner = await cluster.owner(application.topic)
    assert await asyncio.to_thread(owner.terminate) == 0
    if cluster.mode is StorageMode.SHARED_FS:
        await application.see(SOME)
    await asyncio.to_thread(owner.start)
