"""Three real brokers that are one cluster, by Raft or with a real etcd: seen, redirected, killed and back again."""

import asyncio
import os
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, ExitStack, suppress
from functools import partial
from pathlib import Path

import pytest

from danube.admin.gateway import AdminGateway
from danube.admin.grpc_gateway.gateway import opened
from danube.admin.target import Target
from danube.client import DanubeClientBuilder, DispatchStrategy, SubType
from danube.model.calls.admin import UNREACHABLE, CreateTopic, DescribeTopics
from danube.model.errors import TopicExistsError, UnavailableError
from danube.model.plans.plan import Caller, Effect, Face, PlanApplication, PlanRequest
from danube.model.topic import TopicName
from danube.testing.patience import PATIENCE_S
from danube.testing.processes.broker import BrokerProcess
from danube.testing.processes.broker_cluster import BrokerCluster
from danube.testing.processes.etcd import EtcdServer
from lab.failover.administration import Administration
from tests.cluster.seeing import until

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(240)]

REDIRECTED_PROGRAM = Path(__file__).parent / "wheel" / "redirected_program.py"
MESSAGES = 20
RELIABLE = DispatchStrategy.RELIABLE
PERSON = Caller(who="ada@desk", face=Face.CLI)


@pytest.fixture(scope="module", params=["raft", "etcd"])
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerCluster]:
    folder = tmp_path_factory.mktemp(request.param)
    with ExitStack() as running:
        etcd = None
        if request.param == "etcd":
            try:
                etcd = running.enter_context(EtcdServer(folder / "etcd"))
            except UnavailableError as error:
                if os.environ.get("CI"):
                    raise
                pytest.skip(str(error))
        yield running.enter_context(BrokerCluster(folder, service=etcd))


@pytest.fixture
async def gateways(cluster: BrokerCluster) -> AsyncIterator[list[AdminGateway]]:
    """Through each broker."""
    async with AsyncExitStack() as parts:
        targets = [Target(endpoint=each.endpoints.admin_url, timeout_s=PATIENCE_S) for each in cluster.brokers]
        yield [await parts.enter_async_context(opened(target)) for target in targets]


async def sent(broker: BrokerProcess, topic: TopicName, count: int, *, since: int = 0) -> None:
    """Publish through our client, at this broker."""
    async with await DanubeClientBuilder().service_url(broker.endpoints.service_url).build() as client:
        building = client.new_producer().with_topic(str(topic)).with_name("p")
        producer = building.with_dispatch_strategy(RELIABLE).build()
        await producer.create()
        for number in range(since, since + count):
            await producer.send(b"%d" % number, {})


async def received(broker: BrokerProcess, topic: TopicName, count: int) -> list[bytes]:
    """Receive through our client, at this broker."""
    async with await DanubeClientBuilder().service_url(broker.endpoints.service_url).build() as client:
        building = client.new_consumer().with_topic(str(topic)).with_consumer_name("c").with_subscription("s")
        consumer = building.with_subscription_type(SubType.EXCLUSIVE).build()
        await consumer.subscribe()
        messages = await consumer.receive()
        found: list[bytes] = []
        async with asyncio.timeout(PATIENCE_S):
            while len(found) < count:
                message = await messages.get()
                await consumer.ack(message)
                found.append(message.payload)
        return found


async def test_every_broker_sees_all_three_and_the_same_leader(gateways: list[AdminGateway]) -> None:
    async def agreed() -> bool:
        lists = [await gateway.brokers() for gateway in gateways]
        leaders = {await gateway.leader() for gateway in gateways}
        return all(len(found) == 3 and found == lists[0] for found in lists) and len(leaders - {None}) == 1

    await until(agreed)


async def test_the_status_tells_what_keeps_the_metadata_and_who_takes_part(gateways: list[AdminGateway]) -> None:
    async def is_told() -> bool:
        cluster = await gateways[0].describe_cluster()
        if cluster.kind == "etcd":
            return cluster.has_quorum and cluster.members == ()
        brokers = {info.broker_id for info in await gateways[0].brokers()}
        voters = {member.broker_id for member in cluster.members if member.votes}
        return cluster.has_quorum and len(brokers) == len(cluster.members) == 3 and voters == brokers

    await until(is_told)  # a registration may be on its way, and an election under way


async def test_every_broker_tells_how_far_each_of_them_is(gateways: list[AdminGateway]) -> None:
    async def known() -> bool:
        told = [await gateway.describe_cluster() for gateway in gateways]
        return all(member.lag == 0 for each in told for member in each.members)

    await until(known)


async def test_our_client_follows_to_the_broker_that_serves_a_topic(
    cluster: BrokerCluster, gateways: list[AdminGateway]
) -> None:
    topic = TopicName("default", "followed")
    await gateways[1].create_topic(CreateTopic(topic=topic, strategy=RELIABLE))
    await gateways[1].subscriptions(topic)
    reading = asyncio.ensure_future(received(cluster.brokers[2], topic, MESSAGES))
    await until(lambda: _subscribed(gateways[1], topic))
    await sent(cluster.brokers[0], topic, MESSAGES)
    assert await reading == [b"%d" % number for number in range(MESSAGES)]


async def _subscribed(gateway: AdminGateway, topic: TopicName) -> bool:
    return bool(await gateway.subscriptions(topic))


async def test_the_published_client_follows_to_the_broker_that_serves_a_topic(
    cluster: BrokerCluster, gateways: list[AdminGateway], wheel_python: Path
) -> None:
    topic = TopicName("default", "followed-by-the-wheel")
    await gateways[2].create_topic(CreateTopic(topic=topic, strategy=RELIABLE))
    url = cluster.brokers[0].endpoints.service_url
    command = [str(wheel_python), "-I", str(REDIRECTED_PROGRAM), url, str(topic), str(MESSAGES)]
    done = await asyncio.to_thread(
        subprocess.run, command, capture_output=True, text=True, check=False, timeout=2 * PATIENCE_S
    )
    assert done.stdout.split() == ["received", str(MESSAGES)], done.stderr
    page = await gateways[2].describe_topics(DescribeTopics(topics=(topic,), page_size=1))
    assert page.topics[0].messages_in == MESSAGES


async def test_administrators_are_led_to_the_broker_that_serves_a_topic(gateways: list[AdminGateway]) -> None:
    topic = TopicName("default", "administered")
    await gateways[0].create_topic(CreateTopic(topic=topic, strategy=RELIABLE))
    for gateway in gateways[1:]:
        await until(partial(_is_listed, gateway, topic))
    await until(partial(_is_served, gateways[2], topic))
    (described,) = (await gateways[2].describe_topics(DescribeTopics(topics=(topic,), page_size=1))).topics
    assert described.broker_id == (await gateways[2].topic(topic)).info.broker_id
    shown, count = await gateways[2].topic_connections(topic)
    assert (list(shown), count) == ([], 0)
    request = PlanRequest(
        operation="delete_topic",
        arguments={"topic": str(topic)},
        effect=Effect.DESTROY,
        caller=PERSON,
        needs_approval=False,
    )
    plan = await gateways[1].create_plan(request)
    wanted = PlanApplication(plan_id=plan.plan_id, operation=plan.operation, arguments=plan.arguments, caller=PERSON)
    await gateways[2].apply_plan(wanted)
    await until(lambda: _is_gone(gateways[0], topic))


async def _is_listed(gateway: AdminGateway, topic: TopicName) -> bool:
    return topic in {info.topic for info in await gateway.topics(topic.namespace)}


async def _is_served(gateway: AdminGateway, topic: TopicName) -> bool:
    (described,) = (await gateway.describe_topics(DescribeTopics(topics=(topic,), page_size=1))).topics
    return described.is_served and (await gateway.topic(topic)).info.broker_id is not None


async def _is_gone(gateway: AdminGateway, topic: TopicName) -> bool:
    return not await _is_listed(gateway, topic)


async def test_one_broker_is_killed_and_the_others_go_on_and_it_comes_back_with_its_topics(
    cluster: BrokerCluster, gateways: list[AdminGateway]
) -> None:
    topic, after = TopicName("default", "kept"), TopicName("default", "made-meanwhile")
    await sent(cluster.brokers[2], topic, MESSAGES)
    lost = await Administration(cluster).owner(topic)
    left = [(broker, gateways[at]) for at, broker in enumerate(cluster.brokers) if broker is not lost]
    (first, gateway), (second, other_gateway) = left
    await asyncio.to_thread(lost.kill)

    async def is_made() -> bool:
        with suppress(TopicExistsError):  # made by a call whose answer was lost
            await gateway.create_topic(CreateTopic(topic=after, strategy=RELIABLE))
        return True

    await until(is_made)
    await sent(second, after, MESSAGES)

    async def is_missed() -> bool:
        return await active(gateway) == 2 and await other_gateway.leader() is not None

    await until(is_missed)
    missed = [each for each in (await gateway.describe_cluster()).brokers if each.status == UNREACHABLE]
    assert [each.topics > 0 for each in missed] == [True]
    await asyncio.to_thread(lost.start)
    await until(lambda: _is_whole(gateway))
    reading = asyncio.ensure_future(received(second, topic, 1))
    await until(lambda: _subscribed(gateway, topic))
    await sent(first, topic, 1, since=MESSAGES)
    assert await reading == [b"%d" % MESSAGES]
    page = await gateway.describe_topics(DescribeTopics(topics=(topic,), page_size=1))
    assert page.topics[0].end_offset == MESSAGES + 1


async def _is_whole(gateway: AdminGateway) -> bool:
    return await active(gateway) == 3


async def active(gateway: AdminGateway) -> int:
    return sum(info.status == "active" for info in await gateway.brokers())
