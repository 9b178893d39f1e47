"""Batches from producers: in order, within a window, checked, and read by consumers of any age."""

from collections.abc import AsyncIterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from danube.model.calls.client import OutgoingMessage
from danube.model.calls.stream import PublishAcknowledged, PublishBatch, PublishRefused
from danube.model.errors import (
    DanubeError,
    DispatchStrategyMismatchError,
    InvalidBatchError,
    InvalidRequestError,
    MessageTooLargeError,
    NamespaceNotFoundError,
    PreconditionFailedError,
    ShuttingDownError,
    UnavailableError,
)
from danube.model.limits.broker import MESSAGE_BYTES_MAX
from danube.model.message import producer_id
from danube.model.topic import DispatchStrategy, TopicName
from danube.storage.batches.batch import encode_messages, encode_payloads
from danube.testing.in_process_broker import Cell
from danube.testing.peers.stream import StreamPeer, payload_batch
from danube.wire import encode


@pytest.fixture
async def streams(cell: Cell) -> AsyncIterator[StreamPeer]:
    channel = cell.carrier.connect(cell.broker.addresses.broker)
    yield StreamPeer(channel)
    await channel.close()


async def test_opening_creates_the_topic_and_answers_the_id_of_create_producer(
    cell: Cell, streams: StreamPeer, topic: TopicName
) -> None:
    opened = await streams.publish().open(topic, "p")
    assert opened.producer_id == producer_id(topic, "p") == await cell.client.create_producer(topic, "p")
    assert opened.window_bytes >= opened.batch_bytes_max > MESSAGE_BYTES_MAX


async def test_batches_are_acknowledged_in_order_with_their_offsets(streams: StreamPeer, topic: TopicName) -> None:
    line = await streams.opened(topic)
    for sequence in range(5, 25):
        await line.send(sequence, payload_batch(topic, [b"a", b"b", b"c"]))
    assert await line.stored(20) == list(range(0, 60, 3))


async def test_acknowledgement_names_the_last_batch_it_covers(streams: StreamPeer, topic: TopicName) -> None:
    line = await streams.opened(topic)
    await line.send(41, payload_batch(topic, [b"a"]))
    assert await line.answer() == PublishAcknowledged(41, (0,))


async def test_consumer_of_single_messages_receives_the_records_of_batches(
    cell: Cell, streams: StreamPeer, topic: TopicName
) -> None:
    line = await streams.opened(topic, "p")
    inbox = await cell.client.receive(await cell.client.subscribe(topic))
    shared = OutgoingMessage(3, 9, str(topic), "http://b", b"", 77, "p", {"k": "v"}, routing_key="r")
    await line.send(0, encode_payloads(encode.send_message(shared), [b"one", b"", b"three"]))
    got = await inbox.take(3)
    assert [(message.offset, message.payload) for message in got] == [(0, b"one"), (1, b""), (2, b"three")]
    assert {(one.topic, one.producer_name, one.publish_time_ms, one.routing_key) for one in got} == {
        (str(topic), "p", 77, "r")
    }
    assert got[2].attributes == {"k": "v"}
    await cell.client.acknowledge(topic, 2)


async def test_offsets_are_contiguous_across_batches_and_single_messages(
    cell: Cell, streams: StreamPeer, topic: TopicName
) -> None:
    single = await cell.client.create_producer(topic, "single")
    inbox = await cell.client.receive(await cell.client.subscribe(topic))
    line = await streams.opened(topic)
    for sequence in range(3):
        await line.send(sequence, payload_batch(topic, [b"b1", b"b2"]))
        await cell.client.send(topic, single, b"s", producer="single")
    await line.stored(3)
    got = await inbox.take(9)
    assert [message.offset for message in got] == list(range(9))
    assert sorted(message.payload for message in got) == [b"b1"] * 3 + [b"b2"] * 3 + [b"s"] * 3


def wrong_bodies(topic: TopicName) -> dict[str, tuple[bytes, type[DanubeError]]]:
    good = payload_batch(topic, [b"abc", b"def"])
    shared = encode.send_message(OutgoingMessage(0, 1, str(topic), "", b"", 1, "p"))
    other = encode.send_message(OutgoingMessage(0, 1, "/default/other", "http://peer", b"x", 1, "producer"))
    with_payload = encode.send_message(OutgoingMessage(0, 1, str(topic), "", b"x", 1, "p"))
    return {
        "wrong checksum": (good[:-1] + bytes([good[-1] ^ 1]), InvalidBatchError),
        "truncated": (good[:-5], InvalidBatchError),
        "empty": (b"", InvalidBatchError),
        "another topic": (payload_batch(TopicName("default", "other"), [b"x"]), InvalidBatchError),
        "no topic": (encode_payloads(b"", [b"x"]), InvalidBatchError),
        "shared is no message": (encode_payloads(b"\xff\xff", [b"x"]), InvalidBatchError),
        "shared has a payload": (encode_payloads(with_payload, [b"x"]), InvalidBatchError),
        "whole messages of another topic": (encode_messages([shared, other]), InvalidBatchError),
        "whole messages that are none": (encode_messages([shared, b"\xff\xff"]), InvalidBatchError),
        "too large a message": (payload_batch(topic, [b"x", bytes(MESSAGE_BYTES_MAX)]), MessageTooLargeError),
    }


@pytest.mark.parametrize("fault", list(wrong_bodies(TopicName("default", "orders"))))
async def test_wrong_batch_is_refused_and_nothing_after_it_is_stored(
    streams: StreamPeer, topic: TopicName, fault: str
) -> None:
    body, error = wrong_bodies(topic)[fault]
    line = await streams.opened(topic)
    await line.send(1, payload_batch(topic, [b"before"]))
    await line.send(2, body)
    await line.send(3, payload_batch(topic, [b"after"]))
    assert await line.answer() == PublishAcknowledged(1, (0,))
    refused = await line.answer()
    assert isinstance(refused, PublishRefused)
    assert (refused.sequence, type(refused.error)) == (2, error)
    with pytest.raises(UnavailableError, match="the stream ended"):
        await line.answer()
    again = await streams.opened(topic)
    await again.send(2, payload_batch(topic, [b"again"]))
    assert await again.stored(1) == [1]


async def test_largest_message_that_a_batch_may_hold_reaches_a_consumer(
    cell: Cell, streams: StreamPeer, topic: TopicName
) -> None:
    line = await streams.opened(topic)
    inbox = await cell.client.receive(await cell.client.subscribe(topic))
    await line.send(0, payload_batch(topic, [bytes(MESSAGE_BYTES_MAX - 100)]))
    assert len((await inbox.next()).payload) == MESSAGE_BYTES_MAX - 100


async def test_batch_out_of_turn_is_refused(streams: StreamPeer, topic: TopicName) -> None:
    line = await streams.opened(topic)
    await line.send(1, payload_batch(topic, [b"x"]))
    await line.send(3, payload_batch(topic, [b"x"]))
    with pytest.raises(InvalidRequestError, match="batch 2 was due and 3 came"):
        await line.stored(2)


async def test_non_reliable_topics_take_no_batches(cell: Cell, streams: StreamPeer, topic: TopicName) -> None:
    with pytest.raises(PreconditionFailedError, match="only reliable topics"):
        await streams.publish().open(topic, strategy=DispatchStrategy.NON_RELIABLE)
    await cell.client.create_producer(topic, strategy=DispatchStrategy.NON_RELIABLE)
    with pytest.raises(DispatchStrategyMismatchError):
        await streams.publish().open(topic)


async def test_opening_fails_as_creating_a_producer_does(streams: StreamPeer) -> None:
    with pytest.raises(NamespaceNotFoundError, match="create it first"):
        await streams.publish().open(TopicName("nowhere", "t"))


async def test_batch_before_the_opening_and_a_second_opening_are_refused(streams: StreamPeer, topic: TopicName) -> None:
    line = streams.publish()
    await line.send(0, payload_batch(topic, [b"x"]))
    with pytest.raises(InvalidRequestError, match="open it with the first message"):
        await line.answer()
    line = await streams.opened(topic)
    with pytest.raises(InvalidRequestError, match="open already"):
        await line.open(topic)


async def test_half_closed_stream_ends_once_all_is_answered(streams: StreamPeer, topic: TopicName) -> None:
    line = await streams.opened(topic)
    await line.send(0, payload_batch(topic, [b"x"]))
    await line.stream.half_close()
    assert await line.answer() == PublishAcknowledged(0, (0,))
    with pytest.raises(UnavailableError, match="ended"):
        await line.answer()


async def test_deleted_topic_ends_its_streams_and_says_so(cell: Cell, streams: StreamPeer, topic: TopicName) -> None:
    line = await streams.opened(topic)
    await line.send(0, payload_batch(topic, [b"x"]))
    await line.stored(1)
    await cell.admin.delete_topic(topic)
    with pytest.raises(InvalidRequestError, match="was deleted"):
        await line.stored(1)


async def test_stopping_broker_answers_what_it_stored_and_ends_the_stream(cell: Cell, topic: TopicName) -> None:
    channel = cell.carrier.connect(cell.broker.addresses.broker)
    line = await StreamPeer(channel).opened(topic)
    await line.send(0, payload_batch(topic, [b"x"]))
    assert await line.stored(1) == [0]
    await cell.broker.stop()
    with pytest.raises(ShuttingDownError):
        await line.stored(1)
    await channel.close()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=30)
@given(messages=st.lists(st.binary(max_size=200), min_size=1, max_size=5), opened=st.booleans())
async def test_random_bytes_are_refused_cleanly(
    streams: StreamPeer, topic: TopicName, messages: list[bytes], opened: bool
) -> None:
    line = await streams.opened(topic) if opened else streams.publish()
    with pytest.raises(DanubeError) as caught:
        for message in messages:
            await line.stream.send(message)
        await line.stream.send(encode.publish_batch(PublishBatch(99, b"never a batch")))
        await line.stored(1)
    assert caught.value.code != "INTERNAL"
    fresh = await streams.opened(topic)
    await fresh.send(0, payload_batch(topic, [b"x"]))
    assert len(await fresh.stored(1)) == 1
    fresh.close()
    line.close()
