import asyncio

import pytest

from danube.model.errors import (
    AcknowledgeError,
    ConsumerNotFoundError,
    ConsumerReplacedError,
    InvalidRequestError,
    SubscriptionBusyError,
    TopicNotFoundError,
)
from danube.model.message import consumer_id
from danube.model.subscription import SubscriptionType
from danube.model.topic import DispatchStrategy, TopicName
from danube.testing.in_process_broker import Cell, StartBroker
from danube.wire.gen import DanubeApi_pb2

BOTH = pytest.mark.parametrize("strategy", list(DispatchStrategy))


@BOTH
async def test_messages_arrive_in_order_with_all_that_was_sent(
    cell: Cell, topic: TopicName, strategy: DispatchStrategy
) -> None:
    identity = await cell.client.create_producer(topic, strategy=strategy)
    inbox = await cell.client.receive(await cell.client.subscribe(topic))
    for index in range(5):
        await cell.client.send(topic, identity, str(index).encode())
    got = await inbox.take(5)
    assert [message.payload for message in got] == [b"0", b"1", b"2", b"3", b"4"]
    assert {message.topic for message in got} == {str(topic)}
    assert [message.offset for message in got] == ([0, 1, 2, 3, 4] if strategy else [0] * 5)


async def test_consumer_never_creates_a_topic(cell: Cell, topic: TopicName) -> None:
    with pytest.raises(TopicNotFoundError, match="create it, or connect a producer"):
        await cell.client.subscribe(topic)


async def test_new_subscription_starts_after_what_was_there(cell: Cell, topic: TopicName) -> None:
    identity = await cell.client.create_producer(topic)
    await cell.client.send(topic, identity, b"before")
    inbox = await cell.client.receive(await cell.client.subscribe(topic))
    await cell.client.send(topic, identity, b"after")
    assert (await inbox.next()).payload == b"after"


async def test_consumer_id_follows_from_its_names(cell: Cell, topic: TopicName) -> None:
    await cell.client.create_producer(topic)
    first = await cell.client.subscribe(topic, "s", "c")
    assert first == await cell.client.subscribe(topic, "s", "c") == consumer_id(topic, "s", "c")


@BOTH
async def test_exclusive_subscription_refuses_a_second_connected_consumer(
    cell: Cell, topic: TopicName, strategy: DispatchStrategy
) -> None:
    await cell.client.create_producer(topic, strategy=strategy)
    await cell.client.receive(await cell.client.subscribe(topic, "s", "first"))
    with pytest.raises(SubscriptionBusyError, match="'first' is connected"):
        await cell.client.subscribe(topic, "s", "second")


async def test_exclusive_subscription_passes_on_when_its_consumer_is_gone(cell: Cell, topic: TopicName) -> None:
    identity = await cell.client.create_producer(topic)
    first = await cell.client.receive(await cell.client.subscribe(topic, "s", "first"))
    await cell.client.send(topic, identity, b"unfinished")
    await first.next()
    first.close()
    second = await cell.client.receive(await cell.client.subscribe(topic, "s", "second"))
    assert (await second.next()).payload == b"unfinished"


@BOTH
async def test_second_stream_of_a_consumer_takes_the_place_of_the_first_which_is_told(
    cell: Cell, topic: TopicName, strategy: DispatchStrategy
) -> None:
    await cell.client.create_producer(topic, strategy=strategy)
    identity = await cell.client.subscribe(topic)
    first = await cell.client.receive(identity)
    await cell.client.receive(identity)
    with pytest.raises(ConsumerReplacedError, match="a name of its own"):
        await first.next()


async def test_subscribing_again_under_the_same_name_leaves_the_stream_until_another_one_is_opened(
    cell: Cell, topic: TopicName
) -> None:
    producer = await cell.client.create_producer(topic)
    first = await cell.client.receive(await cell.client.subscribe(topic))
    identity = await cell.client.subscribe(topic)
    await cell.client.send(topic, producer, b"x")
    assert (await first.next()).payload == b"x"
    second = await cell.client.receive(identity)
    assert (await second.next()).payload == b"x"
    with pytest.raises(ConsumerReplacedError):
        await first.next()


async def test_unknown_consumer_is_answered_late_with_not_found(cell: Cell) -> None:
    before = asyncio.get_running_loop().time()
    with pytest.raises(ConsumerNotFoundError, match="subscribe again"):
        await cell.client.receive(99)
    assert asyncio.get_running_loop().time() - before > 0.4


async def test_window_holds_back_until_something_is_acknowledged(start_broker: StartBroker, topic: TopicName) -> None:
    cell = await start_broker(max_unacked_messages=2)
    identity = await cell.client.create_producer(topic)
    inbox = await cell.client.receive(await cell.client.subscribe(topic))
    for index in range(3):
        await cell.client.send(topic, identity, str(index).encode())
    await inbox.take(2)
    waiting = asyncio.ensure_future(inbox.next())
    await cell.client.acknowledge(topic, 0)
    assert (await waiting).payload == b"2"


async def test_what_a_gone_consumer_held_goes_to_another(cell: Cell, topic: TopicName) -> None:
    identity = await cell.client.create_producer(topic)
    shared = SubscriptionType.SHARED
    leaving = await cell.client.receive(await cell.client.subscribe(topic, "s", "leaving", shared))
    await cell.client.send(topic, identity, b"held")
    await leaving.next()
    staying = await cell.client.receive(await cell.client.subscribe(topic, "s", "staying", shared))
    leaving.close()
    assert (await staying.next()).payload == b"held"


@BOTH
async def test_shared_subscription_takes_turns(cell: Cell, topic: TopicName, strategy: DispatchStrategy) -> None:
    identity = await cell.client.create_producer(topic, strategy=strategy)
    ids = [await cell.client.subscribe(topic, "s", f"c{index}", SubscriptionType.SHARED) for index in range(3)]
    inboxes = [await cell.client.receive(each) for each in ids]
    for index in range(12):
        await cell.client.send(topic, identity, str(index).encode())
    got = [await inbox.take(4) for inbox in inboxes]
    assert sorted(int(message.payload) for taken in got for message in taken) == list(range(12))


async def test_nacked_message_returns_after_its_delay(cell: Cell, topic: TopicName) -> None:
    identity = await cell.client.create_producer(topic)
    inbox = await cell.client.receive(await cell.client.subscribe(topic))
    await cell.client.send(topic, identity, b"bad")
    first = await inbox.next()
    await cell.client.nack(topic, first.offset, delay_s=0.01)
    assert await inbox.next() == first


async def test_message_not_acknowledged_in_time_is_sent_again(start_broker: StartBroker, topic: TopicName) -> None:
    cell = await start_broker(ack_timeout_s=0.05)
    identity = await cell.client.create_producer(topic)
    inbox = await cell.client.receive(await cell.client.subscribe(topic))
    await cell.client.send(topic, identity, b"slow")
    assert [message.payload for message in await inbox.take(2)] == [b"slow", b"slow"]


async def test_late_and_unknown_acknowledgements_are_fine(cell: Cell, topic: TopicName) -> None:
    identity = await cell.client.create_producer(topic)
    await cell.client.subscribe(topic)
    await cell.client.send(topic, identity, b"x")
    for offset in (0, 0, 77, 2**63):
        await cell.client.acknowledge(topic, offset)


async def test_acknowledgement_for_nothing_we_have_is_an_internal_error(cell: Cell, topic: TopicName) -> None:
    await cell.client.create_producer(topic)
    with pytest.raises(AcknowledgeError, match="no subscription 'nobody'"):
        await cell.client.acknowledge(topic, 0, "nobody")
    with pytest.raises(AcknowledgeError):
        await cell.client.nack(topic.partition(3), 0)


async def test_acknowledgement_without_a_message_id_is_an_invalid_argument(cell: Cell) -> None:
    with pytest.raises(InvalidRequestError, match="msg_id"):
        await cell.client.call("/danube.ConsumerService/Ack", DanubeApi_pb2.AckRequest().SerializeToString())


@BOTH
async def test_subscriber_that_opens_no_stream_stalls_nobody(
    cell: Cell, topic: TopicName, strategy: DispatchStrategy
) -> None:
    identity = await cell.client.create_producer(topic, strategy=strategy)
    await cell.client.subscribe(topic, "silent")
    inbox = await cell.client.receive(await cell.client.subscribe(topic, "loud"))
    for index in range(50):
        await cell.client.send(topic, identity, str(index).encode())
        assert int((await inbox.next()).payload) == index
        await cell.client.acknowledge(topic, index, "loud")


async def test_non_reliable_messages_wait_for_the_stream_of_who_just_subscribed(cell: Cell, topic: TopicName) -> None:
    identity = await cell.client.create_producer(topic, strategy=DispatchStrategy.NON_RELIABLE)
    consumer = await cell.client.subscribe(topic)
    await cell.client.send(topic, identity, b"early")
    inbox = await cell.client.receive(consumer)
    assert (await inbox.next()).payload == b"early"


async def test_replay_from_the_files_is_complete_and_in_order(start_broker: StartBroker, topic: TopicName) -> None:
    """Nothing fits into the cache, and files rotate: all is read back from several of them."""
    cell = await start_broker(cache_bytes_max=0, journal_file_bytes_max=1 << 20, max_unacked_messages=10_000)
    identity = await cell.client.create_producer(topic)
    consumer = await cell.client.subscribe(topic)
    await asyncio.gather(*(cell.client.send(topic, identity, bytes(20_000)) for _ in range(200)))
    inbox = await cell.client.receive(consumer)
    assert [message.offset for message in await inbox.take(200)] == list(range(200))
