"""What decoding refuses, and with which error."""

from collections.abc import Callable

import pytest
from google.protobuf.message import Message

from danube.model.calls.client import SchemaReference, SendMessage
from danube.model.errors import InvalidNameError, InvalidRequestError
from danube.model.limits.broker import MIB, PARTITIONS_MAX
from danube.model.topic import DispatchStrategy
from danube.wire import decode, decode_admin, decode_control
from danube.wire.gen import DanubeAdmin_pb2 as admin
from danube.wire.gen import DanubeApi_pb2 as api
from danube.wire.gen import DanubeControl_pb2 as control

GARBAGE = b"\xff\xff\xff"
NO_UTF8 = b"\x2a\x01\xff"  # StreamMessage field 5, one byte that is no text

DECODERS: dict[Callable[[bytes], object], str] = {
    decode.create_producer: "ProducerRequest",
    decode.send_message: "StreamMessage",
    decode.subscribe: "ConsumerRequest",
    decode.receive: "ReceiveRequest",
    decode.acknowledge: "AckRequest",
    decode.negative_acknowledge: "NackRequest",
    decode.lookup: "TopicLookupRequest",
    decode.health_check: "HealthCheckRequest",
    decode.authenticate: "AuthRequest",
    decode.echo: "MessageResponse",
    decode.producer_created: "ProducerResponse",
    decode.subscribed: "ConsumerResponse",
    decode.received_message: "StreamMessage",
    decode.lookup_answer: "TopicLookupResponse",
    decode.partitions_answer: "TopicPartitionsResponse",
    decode.health_status: "HealthCheckResponse",
    decode.token: "AuthResponse",
    decode_admin.create_topic: "NewTopicRequest",
    decode_admin.create_partitioned_topic: "PartitionedTopicRequest",
    decode_admin.topic: "TopicRequest",
    decode_admin.unsubscribe: "SubscriptionRequest",
    decode_admin.namespace: "NamespaceRequest",
    decode_admin.broker: "BrokerRequest",
    decode_admin.success: "TopicResponse",
    decode_admin.topics: "TopicInfoListResponse",
    decode_admin.topic_details: "DescribeTopicResponse",
    decode_admin.subscriptions: "SubscriptionListResponse",
    decode_admin.namespaces: "NamespaceListResponse",
    decode_admin.namespace_topics: "TopicListResponse",
    decode_admin.policies: "PolicyResponse",
    decode_admin.brokers: "BrokerListResponse",
    decode_admin.leader: "BrokerResponse",
    decode_control.describe_topics: "DescribeTopicsRequest",
    decode_control.topics_page: "DescribeTopicsResponse",
    decode_control.broker_description: "DescribeBrokerResponse",
}


@pytest.mark.parametrize("decoder", DECODERS)
def test_bytes_that_are_no_such_message_are_refused_by_its_name(decoder: Callable[[bytes], object]) -> None:
    with pytest.raises(InvalidRequestError, match=f"not a valid {DECODERS[decoder]} message"):
        decoder(GARBAGE)


def test_text_that_is_no_utf8_is_refused() -> None:
    with pytest.raises(InvalidRequestError, match="not a valid StreamMessage"):
        decode.send_message(NO_UTF8)


@pytest.mark.parametrize(
    "decoder", [decode.send_message, decode.received_message, decode.acknowledge, decode.negative_acknowledge]
)
def test_message_without_an_id_is_refused(decoder: Callable[[bytes], object]) -> None:
    with pytest.raises(InvalidRequestError, match="no msg_id"):
        decoder(api.AckRequest(request_id=1).SerializeToString())


@pytest.mark.parametrize(
    ("decoder", "message"),
    [
        (decode.create_producer, api.ProducerRequest(topic_name="/a/t", producer_name="p", dispatch_strategy=2)),
        (decode.create_producer, api.ProducerRequest(topic_name="/a/t", producer_name="p", producer_access_mode=9)),
        (
            decode.subscribe,
            api.ConsumerRequest(topic_name="/a/t", consumer_name="c", subscription="s", subscription_type=4),
        ),
        (decode.health_check, api.HealthCheckRequest(client=2)),
        (decode_admin.create_topic, admin.NewTopicRequest(name="/a/t", dispatch_strategy=-1)),
        (decode.lookup_answer, api.TopicLookupResponse(response_type=3)),
    ],
)
def test_enum_numbers_without_a_meaning_are_refused(decoder: Callable[[bytes], object], message: Message) -> None:
    with pytest.raises(InvalidRequestError, match="use one of 0"):
        decoder(message.SerializeToString())


@pytest.mark.parametrize("name", ["", "t", "default/t", "//t", "/default/", "/default/a.b", "/a/b/c"])
def test_bad_topic_names_are_refused_wherever_they_stand(name: str) -> None:
    msg_id = api.MsgID(topic_name=name)
    for decoder, message in (
        (decode.create_producer, api.ProducerRequest(topic_name=name, producer_name="p")),
        (decode.subscribe, api.ConsumerRequest(topic_name=name, consumer_name="c", subscription="s")),
        (decode.acknowledge, api.AckRequest(msg_id=msg_id, subscription_name="s")),
        (decode.negative_acknowledge, api.NackRequest(msg_id=msg_id, subscription_name="s")),
        (decode.lookup, api.TopicLookupRequest(topic=name)),
        (decode_admin.create_topic, admin.NewTopicRequest(name=name)),
        (decode_admin.create_partitioned_topic, admin.PartitionedTopicRequest(base_name=name, partitions=1)),
        (decode_admin.topic, admin.TopicRequest(name=name)),
        (decode_admin.unsubscribe, admin.SubscriptionRequest(topic=name, subscription="s")),
        (decode_control.describe_topics, control.DescribeTopicsRequest(topics=["/a/t", name])),
    ):
        with pytest.raises(InvalidNameError):
            decoder(message.SerializeToString())


@pytest.mark.parametrize("name", ["", "new\nline", "x" * 256])
def test_bad_member_names_are_refused_wherever_they_stand(name: str) -> None:
    for decoder, message in (
        (decode.create_producer, api.ProducerRequest(topic_name="/a/t", producer_name=name)),
        (decode.subscribe, api.ConsumerRequest(topic_name="/a/t", consumer_name=name, subscription="s")),
        (decode.subscribe, api.ConsumerRequest(topic_name="/a/t", consumer_name="c", subscription=name)),
        (decode.acknowledge, api.AckRequest(msg_id=api.MsgID(topic_name="/a/t"), subscription_name=name)),
        (
            decode.create_producer,
            api.ProducerRequest(
                topic_name="/a/t", producer_name="p", schema_ref=api.SchemaReference(subject=name, use_latest=True)
            ),
        ),
    ):
        with pytest.raises(InvalidNameError):
            decoder(message.SerializeToString())


def test_bad_namespace_is_refused() -> None:
    with pytest.raises(InvalidNameError):
        decode_admin.namespace(admin.NamespaceRequest(name="a/b").SerializeToString())


@pytest.mark.parametrize("partitions", [0, PARTITIONS_MAX + 1])
def test_partition_counts_out_of_bounds_are_refused(partitions: int) -> None:
    request = admin.PartitionedTopicRequest(base_name="/a/t", partitions=partitions)
    with pytest.raises(InvalidRequestError, match=f"1 to {PARTITIONS_MAX}"):
        decode_admin.create_partitioned_topic(request.SerializeToString())


def test_schema_reference_without_a_version_means_the_latest() -> None:
    request = api.ProducerRequest(topic_name="/a/t", producer_name="p", schema_ref=api.SchemaReference(subject="s"))
    call = decode.create_producer(request.SerializeToString())
    assert (call.schema, call.schema_subject) == (SchemaReference(subject="s"), "s")


@pytest.mark.parametrize(("sent", "key"), [(None, "p"), ("", ""), ("k", "k")])
def test_key_is_the_routing_key_even_if_empty_and_else_the_producers_name(sent: str | None, key: str) -> None:
    message = api.StreamMessage(msg_id=api.MsgID(), producer_name="p", routing_key=sent)
    assert decode.send_message(message.SerializeToString()).key == key


def test_large_payload_is_measured_to_the_byte() -> None:
    message = api.StreamMessage(request_id=1, msg_id=api.MsgID(topic_name="/a/t"), payload=bytes(MIB), routing_key="k")
    assert decode.send_message(message.SerializeToString()) == SendMessage(1, 0, "/a/t", "", MIB, "k", None, None)


def test_delivery_that_is_unknown_reads_as_not_reliable() -> None:
    answer = admin.TopicInfoListResponse(topics=[admin.TopicInfo(name="/a/t", delivery="?")])
    (info,) = decode_admin.topics(answer.SerializeToString())
    assert (info.strategy, info.broker_id) == (DispatchStrategy.NON_RELIABLE, None)
