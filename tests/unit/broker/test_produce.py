import asyncio

import pytest

from danube.model.calls.client import OutgoingMessage
from danube.model.errors import (
    DispatchStrategyMismatchError,
    InvalidNameError,
    InvalidRequestError,
    MessageTooLargeError,
    NamespaceNotFoundError,
    NotFoundError,
    TopicExistsError,
    TopicNotFoundError,
    TopicNotServedError,
)
from danube.model.limits.broker import MESSAGE_BYTES_MAX
from danube.model.message import producer_id
from danube.model.topic import DispatchStrategy, TopicName
from danube.testing.in_process_broker import Cell, StartBroker
from danube.testing.peers.client import REQUEST_ID
from danube.wire import encode
from danube.wire.gen import DanubeApi_pb2

SEND = "/danube.ProducerService/SendMessage"
CREATE = "/danube.ProducerService/CreateProducer"


async def test_first_producer_creates_the_topic(cell: Cell, topic: TopicName) -> None:
    await cell.client.create_producer(topic)
    assert [info.topic for info in await cell.admin.topics("default")] == [topic]


async def test_same_name_gets_the_same_id_and_it_fits_a_signed_64_bit_number(cell: Cell, topic: TopicName) -> None:
    first = await cell.client.create_producer(topic, "p")
    assert first == await cell.client.create_producer(topic, "p") == producer_id(topic, "p")
    assert 0 < first < 2**63


async def test_many_producers_that_create_one_topic_at_once_all_get_it(cell: Cell, topic: TopicName) -> None:
    ids = await asyncio.gather(*(cell.client.create_producer(topic, f"p{index}") for index in range(20)))
    assert len(set(ids)) == 20
    assert len(await cell.admin.topics("default")) == 1


async def test_answer_to_a_message_is_its_request_id_and_nothing_else(cell: Cell, topic: TopicName) -> None:
    identity = await cell.client.create_producer(topic)
    assert await cell.client.send(topic, identity, b"x") == REQUEST_ID


async def test_strategy_other_than_the_topics_is_refused(cell: Cell, topic: TopicName) -> None:
    await cell.client.create_producer(topic)
    with pytest.raises(DispatchStrategyMismatchError, match="is reliable and the producer asks for non-reliable"):
        await cell.client.create_producer(topic, "q", DispatchStrategy.NON_RELIABLE)


async def test_topic_in_an_unknown_namespace_is_refused_with_the_next_step(cell: Cell) -> None:
    with pytest.raises(NamespaceNotFoundError, match="create it first"):
        await cell.client.create_producer(TopicName("nowhere", "t"))


async def test_broker_that_does_not_create_topics_says_so(start_broker: StartBroker, topic: TopicName) -> None:
    cell = await start_broker(auto_create_topics=False)
    with pytest.raises(TopicNotFoundError, match="create it first"):
        await cell.client.create_producer(topic)


async def test_plain_topic_and_partitions_of_one_base_exclude_each_other(cell: Cell, topic: TopicName) -> None:
    await cell.client.create_producer(topic)
    with pytest.raises(TopicExistsError):
        await cell.client.create_producer(topic.partition(0))


async def test_schema_that_is_not_registered_is_refused(cell: Cell, topic: TopicName) -> None:
    request = DanubeApi_pb2.ProducerRequest(producer_name="p", topic_name=str(topic), dispatch_strategy=1)
    request.schema_ref.subject = "orders-value"
    with pytest.raises(NotFoundError, match="not registered"):
        await cell.client.call(CREATE, request.SerializeToString())


async def test_bad_topic_name_is_an_invalid_argument(cell: Cell) -> None:
    request = DanubeApi_pb2.ProducerRequest(producer_name="p", topic_name="no-slashes", dispatch_strategy=1)
    with pytest.raises(InvalidNameError, match="/namespace_name/topic_name"):
        await cell.client.call(CREATE, request.SerializeToString())


async def test_message_of_an_unknown_producer_asks_for_a_new_lookup(cell: Cell, topic: TopicName) -> None:
    await cell.client.create_producer(topic)
    with pytest.raises(TopicNotServedError, match="look the topic up"):
        await cell.client.send(topic, 12345, b"x")


async def test_message_for_another_topic_than_its_producers_is_refused(cell: Cell, topic: TopicName) -> None:
    identity = await cell.client.create_producer(topic)
    other = TopicName("default", "other")
    await cell.client.create_producer(other)
    with pytest.raises(TopicNotServedError):
        await cell.client.send(other, identity, b"x")


async def test_message_without_an_id_is_an_invalid_argument(cell: Cell) -> None:
    with pytest.raises(InvalidRequestError, match="msg_id"):
        await cell.client.call(SEND, DanubeApi_pb2.StreamMessage(payload=b"x").SerializeToString())


async def test_garbage_is_an_invalid_argument(cell: Cell) -> None:
    with pytest.raises(InvalidRequestError, match="not a valid StreamMessage"):
        await cell.client.call(SEND, b"\xff\xff\xff")


async def test_largest_message_passes_and_one_byte_more_is_refused(cell: Cell, topic: TopicName) -> None:
    identity = await cell.client.create_producer(topic)
    inbox = await cell.client.receive(await cell.client.subscribe(topic))
    empty = OutgoingMessage(REQUEST_ID, identity, str(topic), "http://peer", b"", 1, "producer")
    room = MESSAGE_BYTES_MAX - len(encode.send_message(empty)) - 5
    await cell.client.send(topic, identity, bytes(room))
    assert len((await inbox.next()).payload) == room
    with pytest.raises(MessageTooLargeError, match="send it in parts"):
        await cell.client.send(topic, identity, bytes(room + 1))


async def test_messages_of_many_senders_get_contiguous_offsets(cell: Cell, topic: TopicName) -> None:
    identity = await cell.client.create_producer(topic)
    inbox = await cell.client.receive(await cell.client.subscribe(topic))
    await asyncio.gather(*(cell.client.send(topic, identity, str(index).encode()) for index in range(10)))
    got = await inbox.take(10)
    assert [message.offset for message in got] == list(range(10))
    assert {message.payload for message in got} == {str(index).encode() for index in range(10)}
