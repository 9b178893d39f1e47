import pytest

from danube import __version__
from danube.model.calls.admin import BrokerInfo
from danube.model.errors import DanubeError, NotFoundError, UnsupportedError
from danube.model.topic import DispatchStrategy, TopicName
from danube.testing.in_process_broker import Cell, StartBroker
from danube.wire.gen import DanubeAdmin_pb2


async def test_standalone_broker_lists_itself_alone_and_follows_nobody(cell: Cell) -> None:
    (info,) = await cell.admin.brokers()
    addresses = cell.broker.addresses
    assert info == BrokerInfo(
        broker_id=info.broker_id,
        broker_url=f"http://{addresses.broker}",
        role="None",
        status="active",
        admin_url=f"http://{addresses.admin}",
        metrics_url="",
    )
    assert info.broker_id.isdigit()
    assert await cell.admin.leader() is None


async def test_broker_tells_the_address_that_it_advertises(start_broker: StartBroker) -> None:
    cell = await start_broker(advertised_addr="broker.example:6650", connect_url="proxy.example:80")
    broker = await cell.admin.describe_broker()
    assert (broker.info.broker_url, broker.connect_url) == ("http://broker.example:6650", "http://proxy.example:80")


async def test_broker_id_outlives_a_restart(start_broker: StartBroker) -> None:
    first = await (await start_broker()).admin.brokers()
    second = await (await start_broker()).admin.brokers()
    assert first[0].broker_id == second[0].broker_id


@pytest.mark.parametrize(
    "method",
    [
        "BrokerAdmin/UnloadBroker",
        "BrokerAdmin/ActivateBroker",
        "BrokerAdmin/GetClusterBalance",
        "BrokerAdmin/TriggerRebalance",
        "ClusterAdmin/ClusterStatus",
        "ClusterAdmin/AddNode",
        "ClusterAdmin/PromoteNode",
        "ClusterAdmin/RemoveNode",
        "TopicAdmin/UnloadTopic",
    ],
)
async def test_calls_that_need_a_cluster_say_so(cell: Cell, method: str) -> None:
    with pytest.raises(UnsupportedError, match="a standalone broker"):
        await cell.admin.call(f"/danube_admin.{method}")


async def test_every_call_of_the_original_is_answered_in_a_sentence(cell: Cell) -> None:
    """What a carrier says of a method it never heard of names no reason."""
    for service in DanubeAdmin_pb2.DESCRIPTOR.services_by_name.values():
        for method in service.methods:
            try:
                await cell.admin.call(f"/{service.full_name}/{method.name}", b"\xff")
            except DanubeError as error:
                assert method.name not in str(error).replace(method.input_type.name, ""), error


async def test_topics_of_a_broker_are_those_of_all_its_namespaces(cell: Cell, topic: TopicName) -> None:
    (info,) = await cell.admin.brokers()
    await cell.admin.create_namespace("apart")
    for name in (topic, TopicName("apart", "b"), TopicName("apart", "a")):
        await cell.admin.create_topic(name, DispatchStrategy.NON_RELIABLE)
    found = [each for each in await cell.admin.topics_on(info.broker_id) if each.topic.namespace != "system"]
    assert [str(each.topic) for each in found] == ["/apart/a", "/apart/b", str(topic)]
    assert {each.broker_id for each in found} == {info.broker_id}


async def test_topics_of_an_unknown_broker_are_not_found(cell: Cell) -> None:
    with pytest.raises(NotFoundError, match="no broker '5'"):
        await cell.admin.topics_on("5")


async def test_broker_describes_itself(cell: Cell, topic: TopicName) -> None:
    producer = await cell.client.create_producer(topic)
    await cell.client.receive(await cell.client.subscribe(topic))
    await cell.client.subscribe(topic, "other")
    await cell.client.send(topic, producer, b"x")
    broker = await cell.admin.describe_broker()
    assert broker.info == (await cell.admin.brokers())[0]
    assert (broker.cluster_name, broker.mode, broker.version) == ("STANDALONE", "standalone", __version__)
    assert broker.topics == 1  # those of `system` are not counted
    assert (broker.subscriptions, broker.producers, broker.consumers) == (2, 1, 1)
    assert broker.connect_url == broker.info.broker_url
    assert broker.is_healthy
    assert broker.uptime_s > 0
    assert broker.journal.rounds > 0
    assert broker.journal.stopped_reason is None
