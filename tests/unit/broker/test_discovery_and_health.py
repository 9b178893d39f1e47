import pytest

from danube.model.calls.client import ClientKind, HealthStatus, LookupKind
from danube.model.errors import (
    ConsumerNotFoundError,
    InvalidNameError,
    NotFoundError,
    ProducerNotFoundError,
    TopicNotFoundError,
)
from danube.model.topic import TopicName
from danube.testing.in_process_broker import Cell, StartBroker
from danube.wire.gen import DanubeApi_pb2


async def test_lookup_says_connect_and_both_urls_with_a_scheme(cell: Cell, topic: TopicName) -> None:
    await cell.client.create_producer(topic)
    answer = await cell.client.lookup(topic)
    url = f"http://{cell.broker.addresses.broker}"
    assert (answer.kind, answer.connect_url, answer.broker_url, answer.proxy) == (LookupKind.CONNECT, url, url, False)


async def test_connect_url_of_a_proxy_is_told_with_the_proxy_flag(start_broker: StartBroker, topic: TopicName) -> None:
    cell = await start_broker(advertised_addr="broker.example:6650", connect_url="proxy.example:80")
    await cell.client.create_producer(topic)
    answer = await cell.client.lookup(topic)
    assert (answer.connect_url, answer.broker_url) == ("http://proxy.example:80", "http://broker.example:6650")
    assert answer.proxy


async def test_lookup_of_an_unknown_topic_is_not_found(cell: Cell, topic: TopicName) -> None:
    with pytest.raises(TopicNotFoundError):
        await cell.client.lookup(topic)


async def test_lookup_of_a_bad_name_is_an_invalid_argument(cell: Cell) -> None:
    request = DanubeApi_pb2.TopicLookupRequest(topic="//x").SerializeToString()
    with pytest.raises(InvalidNameError):
        await cell.client.call("/danube.Discovery/TopicLookup", request)


async def test_partitions_of_a_plain_topic_are_itself(cell: Cell, topic: TopicName) -> None:
    await cell.client.create_producer(topic)
    assert await cell.client.partitions(topic) == (topic,)


async def test_partitions_come_in_order_and_only_those_of_the_very_base(cell: Cell, topic: TopicName) -> None:
    await cell.admin.create_partitioned_topic(topic, 12)
    await cell.client.create_producer(TopicName("default", "orders-archive"))
    assert await cell.client.partitions(topic) == tuple(topic.partition(index) for index in range(12))


async def test_partitions_of_an_unknown_topic_are_none_and_no_error(cell: Cell, topic: TopicName) -> None:
    assert await cell.client.partitions(topic) == ()


async def test_health_of_known_clients_is_ok(cell: Cell, topic: TopicName) -> None:
    producer = await cell.client.create_producer(topic)
    consumer = await cell.client.subscribe(topic)
    assert await cell.client.health(ClientKind.PRODUCER, producer) is HealthStatus.OK
    assert await cell.client.health(ClientKind.CONSUMER, consumer) is HealthStatus.OK


@pytest.mark.parametrize(
    ("kind", "error"),
    [(ClientKind.PRODUCER, ProducerNotFoundError), (ClientKind.CONSUMER, ConsumerNotFoundError)],
)
async def test_unknown_client_is_told_to_close_twice_and_then_not_found(
    cell: Cell, kind: ClientKind, error: type[NotFoundError]
) -> None:
    assert [await cell.client.health(kind, 5) for _ in range(2)] == [HealthStatus.CLOSE, HealthStatus.CLOSE]
    with pytest.raises(error):
        await cell.client.health(kind, 5)
