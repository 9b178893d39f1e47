import pytest

from danube.model.calls.admin import TopicInfo
from danube.model.calls.client import ClientKind, HealthStatus
from danube.model.errors import (
    InvalidRequestError,
    NamespaceNotFoundError,
    PreconditionFailedError,
    TopicExistsError,
    TopicNotFoundError,
)
from danube.model.topic import DispatchStrategy, TopicName
from danube.testing.in_process_broker import Cell, StartBroker


async def test_created_topic_is_listed_with_its_strategy(cell: Cell, topic: TopicName) -> None:
    await cell.admin.create_topic(topic, DispatchStrategy.NON_RELIABLE)
    (info,) = await cell.admin.topics("default")
    assert info == TopicInfo(topic=topic, broker_id=info.broker_id, strategy=DispatchStrategy.NON_RELIABLE)
    assert info.broker_id is not None
    assert info.broker_id.isdigit()


async def test_creating_a_topic_twice_is_refused(cell: Cell, topic: TopicName) -> None:
    await cell.admin.create_topic(topic)
    with pytest.raises(TopicExistsError):
        await cell.admin.create_topic(topic)


async def test_topic_needs_its_namespace(cell: Cell) -> None:
    with pytest.raises(NamespaceNotFoundError):
        await cell.admin.create_topic(TopicName("nowhere", "t"))


async def test_bootstrap_namespaces_are_there(start_broker: StartBroker) -> None:
    cell = await start_broker(bootstrap_namespaces=("payments",))
    await cell.admin.create_topic(TopicName("payments", "t"))
    assert len(await cell.admin.topics("payments")) == 1


async def test_partitions_are_created_all_or_none(cell: Cell, topic: TopicName) -> None:
    await cell.client.create_producer(topic)
    with pytest.raises(TopicExistsError):
        await cell.admin.create_partitioned_topic(topic, 3)
    assert [info.topic for info in await cell.admin.topics("default")] == [topic]


async def test_deleted_topic_tells_its_consumers_to_close_and_its_producers_that_it_is_gone(
    cell: Cell, topic: TopicName
) -> None:
    producer = await cell.client.create_producer(topic)
    consumer = await cell.client.subscribe(topic)
    inbox = await cell.client.receive(consumer)
    await cell.admin.delete_topic(topic)
    assert await cell.client.health(ClientKind.CONSUMER, consumer) is HealthStatus.CLOSE
    assert await inbox.stream.receive() is None
    with pytest.raises(InvalidRequestError, match="was deleted"):
        await cell.client.send(topic, producer, b"x")
    with pytest.raises(TopicNotFoundError):
        await cell.client.lookup(topic)


async def test_topic_created_again_starts_at_offset_0_without_old_subscriptions(
    start_broker: StartBroker, topic: TopicName
) -> None:
    cell = await start_broker()
    producer = await cell.client.create_producer(topic)
    await cell.client.subscribe(topic)
    await cell.client.send(topic, producer, b"old")
    await cell.admin.delete_topic(topic)
    cell = await start_broker()
    await cell.client.create_producer(topic)
    inbox = await cell.client.receive(await cell.client.subscribe(topic))
    await cell.client.send(topic, producer, b"new")
    message = await inbox.next()
    assert (message.payload, message.offset) == (b"new", 0)


async def test_deleting_a_base_name_deletes_its_partitions_and_no_single_one_can_be(
    cell: Cell, topic: TopicName
) -> None:
    await cell.admin.create_partitioned_topic(topic, 3)
    with pytest.raises(PreconditionFailedError, match="deletes all its partitions"):
        await cell.admin.delete_topic(topic.partition(1))
    await cell.admin.delete_topic(topic)
    assert await cell.admin.topics("default") == ()


async def test_deleting_an_unknown_topic_says_so(cell: Cell, topic: TopicName) -> None:
    with pytest.raises(TopicNotFoundError):
        await cell.admin.delete_topic(topic)
