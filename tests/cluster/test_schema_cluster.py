"""The schema registry on brokers of one cluster: each metadata store, topics that move, `kill -9`."""

import asyncio
import json
import os
import time
from collections.abc import Iterator

import pytest

from danube.client import DanubeClient, DanubeClientBuilder, DispatchStrategy, SchemaType
from danube.client.publish.producer import Producer
from danube.model.errors import SchemaRefusedError, UnavailableError
from danube.model.ownership import StorageMode
from danube.model.schema import CompatibilityMode
from danube.model.topic import TopicName
from danube.testing.patience import PATIENCE_S
from danube.testing.processes.broker_cluster import BrokerCluster
from danube.testing.processes.service import ServiceProcess
from lab.failover.administration import Administration
from lab.metadata.servers import SERVERS
from tests.cluster.seeing import until

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

TOPIC = TopicName("default", "orders")
SUBJECT = "orders-value"
VERSIONS = 6
HELD_UP_S_MAX = 2.0
"""The event loop was held up for 10 s and more, and a lease lasts for less."""


@pytest.fixture(params=["raft", *(pytest.param(name, marks=pytest.mark.nightly) for name in SERVERS)])
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerCluster]:
    """Three brokers over one shared folder."""
    folder, mode = tmp_path_factory.mktemp("schemas"), StorageMode.SHARED_FS
    if request.param == "raft":
        with BrokerCluster(folder, mode=mode) as running:
            yield running
        return
    try:
        server: ServiceProcess = SERVERS[request.param](tmp_path_factory.mktemp(request.param))
    except UnavailableError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(error))
    with server, BrokerCluster(folder, service=server, root="/schemas", mode=mode) as running:
        yield running


async def client_of(cluster: BrokerCluster, number: int) -> DanubeClient:
    return await DanubeClientBuilder().service_url(cluster.brokers[number].endpoints.service_url).build()


def definition(number: int) -> bytes:
    return json.dumps({"title": f"order {number}", "type": "object", "required": ["id"]}).encode()


async def register(client: DanubeClient, number: int) -> int:
    builder = client.schema().register_schema(SUBJECT).with_type(SchemaType.JSON_SCHEMA)
    return await builder.with_schema_data(definition(number)).execute()


async def refuses(client: DanubeClient, name: str) -> bool:
    """True if the topic refuses a message without a schema."""
    producer = client.new_producer().with_topic(str(TOPIC)).with_name(name)
    async with producer.with_dispatch_strategy(DispatchStrategy.RELIABLE).build() as plain:
        try:
            await plain.send(b'{"id": 1}')
        except SchemaRefusedError:
            return True
    return False


async def test_the_registry_is_one_on_all_brokers_and_topics_that_move_take_their_schema_along(
    cluster: BrokerCluster,
) -> None:
    administration = Administration(cluster, StorageMode.SHARED_FS)
    await until(administration.is_whole)
    clients = [await client_of(cluster, number) for number in range(3)]
    async with asyncio.timeout(4 * PATIENCE_S):
        schema_id = await register(clients[0], 0)
        await clients[1].schema().set_compatibility_mode(SUBJECT, CompatibilityMode.NONE)
        ids = await asyncio.gather(*(register(clients[number % 3], number) for number in range(VERSIONS)))
        assert set(ids) == {schema_id}
        for client in clients:
            assert await client.schema().list_versions(SUBJECT) == list(range(1, VERSIONS + 1))
        builder = clients[2].new_producer().with_topic(str(TOPIC)).with_name("typed").with_schema_subject(SUBJECT)
        typed = builder.with_dispatch_strategy(DispatchStrategy.RELIABLE).build()
        await typed.create()
        await clients[1].schema().configure_topic_schema(str(TOPIC), SUBJECT, "enforce", True)
        await until(lambda: refuses(clients[0], "before"))
        owner = await administration.owner(TOPIC)
        await administration.apply(owner, "unload_topic", topic=str(TOPIC))
        await administration.leaves(TOPIC, owner)
        await until(lambda: refuses(clients[1], "after"))
        await typed.send(b'{"id": 1}')
        with pytest.raises(SchemaRefusedError, match="id"):
            await typed.send(b"{}")
    for client in clients:
        await client.close()
    await asyncio.to_thread(cluster.kill)
    await asyncio.to_thread(cluster.start)
    again = await client_of(cluster, 2)
    async with again:
        await until(lambda: is_known(again, schema_id))
        await until(lambda: refuses(again, "again"))


async def test_messages_that_are_made_to_be_expensive_stop_no_broker_and_no_other_producer(
    cluster: BrokerCluster,
) -> None:
    administration = Administration(cluster, StorageMode.SHARED_FS)
    await until(administration.is_whole)
    client = await client_of(cluster, 0)
    other_topic = TopicName("default", "others")
    async with client, asyncio.timeout(4 * PATIENCE_S):
        bomb = await bombed(client)
        plain = client.new_producer().with_topic(str(other_topic)).with_name("plain").build()
        same, hostile = producer_of(client, "same"), [producer_of(client, f"bomb-{number}") for number in range(3)]
        for producer in (plain, same, *hostile):
            await producer.create()
        owner = await administration.owner(TOPIC)
        bombs = asyncio.gather(*(producer.send(bomb) for producer in hostile), return_exceptions=True)
        passed, longest_s = 0, 0.0
        while not bombs.done():
            began_s = time.monotonic()
            await asyncio.gather(same.send(b'{"id": 1}'), plain.send(b"plain"))
            passed, longest_s = passed + 1, max(longest_s, time.monotonic() - began_s)
        for refused in await bombs:
            assert isinstance(refused, SchemaRefusedError)
            assert "too expensive to check" in str(refused)
        assert passed > 100
        assert longest_s < HELD_UP_S_MAX
        assert await administration.owner(TOPIC) == owner


async def bombed(client: DanubeClient) -> bytes:
    """A message of the topic's schema whose check takes half a minute."""
    listed = {"items": {"not": {"enum": [number + 0.5 for number in range(1_000)]}}}
    schema = json.dumps({"required": ["id"], "properties": {"bomb": listed}}).encode()
    await client.schema().register_schema(SUBJECT).with_type(SchemaType.JSON_SCHEMA).with_schema_data(schema).execute()
    await producer_of(client, "first").create()
    await client.schema().configure_topic_schema(str(TOPIC), SUBJECT, "enforce", True)
    return b'{"id": 1, "bomb": [' + b"1.25," * 30_000 + b"1.25]}"


def producer_of(client: DanubeClient, name: str) -> Producer:
    builder = client.new_producer().with_topic(str(TOPIC)).with_name(name).with_schema_subject(SUBJECT)
    return builder.with_dispatch_strategy(DispatchStrategy.RELIABLE).build()


async def is_known(client: DanubeClient, schema_id: int) -> bool:
    found = await client.schema().get_latest_schema(SUBJECT)
    return (found.schema_id, found.version) == (schema_id, VERSIONS)
