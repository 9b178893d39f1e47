"""What a hostile peer does on purpose; each time the neighbours notice nothing and the log tells of no failure."""

import asyncio

import pytest

from danube.model.calls.client import OutgoingMessage
from danube.model.calls.stream import PublishRefused
from danube.model.errors import AcknowledgeError, DanubeError, InvalidRequestError, LimitReachedError
from danube.model.limits.broker import KEY_FILTERS_MAX, MIB, RPC_METADATA_BYTES_MAX
from danube.model.message import consumer_id, producer_id
from danube.model.topic import TopicName
from danube.storage.batches.batch import encode_payloads
from danube.testing.peers.client import Peer
from danube.testing.peers.stream import StreamPeer, payload_batch
from danube.wire import encode
from danube.wire.gen.DanubeApi_pb2 import ConsumerRequest, HealthCheckRequest, StreamMessage
from danube.wire.raw import varint
from tests.fuzz.judge import Judge
from tests.fuzz.vocabulary import CALM, MEMBERS, RELIABLE

SEND = "/danube.ProducerService/SendMessage"
NUMBER_MAX = 2**64 - 1


SENT = OutgoingMessage(7, producer_id(RELIABLE, MEMBERS[0]), str(RELIABLE), "http://peer", b"x", 1, MEMBERS[0])


def message(bomb: StreamMessage) -> StreamMessage:
    """A message that the broker takes, with more in it."""
    found = StreamMessage.FromString(encode.send_message(SENT))
    found.MergeFrom(bomb)
    return found


@pytest.mark.parametrize(
    "bomb",
    [
        pytest.param(StreamMessage(attributes={f"a{n}": "v" for n in range(100_000)}), id="100,000 attributes"),
        pytest.param(StreamMessage(attributes={"k" * MIB: "v"}), id="an attribute of 1 MiB"),
        pytest.param(StreamMessage(routing_key="k" * MIB), id="a key of 1 MiB"),
        pytest.param(StreamMessage(producer_name="\x1b[2J\u202e" * 1_000), id="a name of control characters"),
    ],
)
async def test_a_bomb_that_fits_a_message_is_delivered_as_it_is(judge: Judge, bomb: StreamMessage) -> None:
    sent = message(bomb)
    peer = Peer(judge.channel)
    inbox = await peer.receive(await peer.subscribe(RELIABLE, MEMBERS[0], MEMBERS[0]))
    await peer.call(SEND, sent.SerializeToString())
    got = await inbox.next()
    assert (got.attributes, got.routing_key or "") == (dict(sent.attributes), sent.routing_key)
    inbox.close()


async def test_an_attribute_bomb_shared_by_a_batch_is_delivered_with_each_record(judge: Judge) -> None:
    peer, attributes = Peer(judge.channel), {f"a{n}": "v" for n in range(50_000)}
    inbox = await peer.receive(await peer.subscribe(RELIABLE, MEMBERS[0], MEMBERS[0]))
    shared = SENT._replace(payload=b"", attributes=attributes)
    line = await StreamPeer(judge.channel).opened(RELIABLE, MEMBERS[0])
    await line.send(1, encode_payloads(encode.send_message(shared), [b"a", b"b"]))
    await line.stored(1)
    got = await inbox.take(2)
    assert [(one.payload, one.attributes) for one in got] == [(b"a", attributes), (b"b", attributes)]
    line.close()
    inbox.close()


async def test_metadata_that_is_too_large_fails_its_call_alone(judge: Judge) -> None:
    with pytest.raises(LimitReachedError):
        await judge.channel.call(SEND, b"", metadata=[("x-bomb", "x" * RPC_METADATA_BYTES_MAX)])


async def test_messages_nested_without_end_are_an_invalid_argument(judge: Judge) -> None:
    nested = b""
    for _ in range(5_000):
        nested = b"\x0a" + varint(len(nested)) + nested
    for path in (SEND, "/danube.ProducerService/CreateProducer", "/danube.ConsumerService/Ack"):
        with pytest.raises(InvalidRequestError):
            await judge.channel.call(path, nested)


async def test_groups_nested_without_end_are_an_invalid_argument(judge: Judge) -> None:
    with pytest.raises(InvalidRequestError):
        await judge.channel.call(SEND, b"\xfb\x01" * 100_000)


async def test_an_acknowledgement_for_a_subscription_of_another_topic_moves_nothing(judge: Judge) -> None:
    peer = Peer(judge.channel)
    with pytest.raises(AcknowledgeError):
        await peer.acknowledge(RELIABLE, 0, "calm")
    await judge.check_neighbour()


async def test_acknowledgements_ahead_of_all_messages_hide_none_that_come_later(judge: Judge) -> None:
    peer = Peer(judge.channel)
    for offset in (judge.sent, judge.sent + 1, 2**63, NUMBER_MAX):
        await peer.acknowledge(CALM, offset, "calm")
        await peer.nack(CALM, offset, "calm", delay_s=1e15)
    for _ in range(3):
        await judge.check_neighbour()


async def test_a_sequence_number_that_has_no_next_one_is_an_invalid_argument(judge: Judge) -> None:
    line = await StreamPeer(judge.channel).opened(RELIABLE, MEMBERS[0])
    await line.send(NUMBER_MAX, payload_batch(RELIABLE, [b"last"]))
    with pytest.raises(InvalidRequestError, match="no next one"):
        await line.stored(1)


async def test_a_stream_at_its_last_sequence_number_still_learns_that_its_topic_is_gone(judge: Judge) -> None:
    line = await StreamPeer(judge.channel).opened(RELIABLE, MEMBERS[0])
    await line.send(NUMBER_MAX - 1, payload_batch(RELIABLE, [b"last"]))
    await line.stored(1)
    await judge.admin.delete_topic(RELIABLE)
    answer = await line.answer()
    assert isinstance(answer, PublishRefused)
    assert answer.sequence == NUMBER_MAX


async def test_streams_that_stay_half_open_cost_nothing_to_others(judge: Judge) -> None:
    paths = ("/danube.stream.StreamService/Publish", "/danube.ConsumerService/ReceiveMessages")
    idle = [judge.channel.stream(path) for path in paths for _ in range(500)]
    for _ in range(3):
        await judge.check_neighbour()
    for stream in idle:
        stream.cancel()


async def test_names_that_are_not_utf8_are_an_invalid_argument(judge: Judge) -> None:
    broken = b"\x12\x0d/default/\xff\xfe\xed\xa0"
    unary = (
        "danube.ProducerService/CreateProducer",
        "danube.Discovery/TopicLookup",
        "danube.ConsumerService/Subscribe",
    )
    for path in unary:
        with pytest.raises(InvalidRequestError):
            await judge.channel.call(f"/{path}", broken)


async def test_asking_about_unknown_ids_again_and_again_is_answered_each_time(judge: Judge) -> None:
    kinds = HealthCheckRequest.ClientType.values()
    requests = [
        HealthCheckRequest(id=number, client=kind).SerializeToString()
        for kind in kinds
        for number in (0, 1, 2**63, NUMBER_MAX) * 5
    ]
    calls = (judge.channel.call("/danube.HealthCheck/HealthCheck", request) for request in requests)
    ended = await asyncio.gather(*calls, return_exceptions=True)
    assert all(isinstance(one, bytes | DanubeError) for one in ended)


async def test_a_long_key_against_the_worst_filters_keeps_nobody_waiting(judge: Judge) -> None:
    peer, topic = Peer(judge.channel), TopicName("default", "keyed")
    sender = await peer.create_producer(topic, MEMBERS[0])
    filters = ["*" + "a?" * 120 + chr(ord("b") + number) for number in range(KEY_FILTERS_MAX)]
    request = ConsumerRequest(
        topic_name=str(topic),
        consumer_name="c",
        subscription="s",
        subscription_type=ConsumerRequest.SubscriptionType.KeyShared,
        key_filters=filters,
    )
    await peer.call("/danube.ConsumerService/Subscribe", request.SerializeToString())
    inbox = await peer.receive(consumer_id(topic, "s", "c"))
    sent = SENT._replace(topic=str(topic), producer_id=sender, routing_key="a" * 3 * MIB)
    await peer.call(SEND, encode.send_message(sent))
    await judge.check_neighbour()
    inbox.close()
