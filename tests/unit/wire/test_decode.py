"""What decoding refuses, and with which error."""

from collections.abc import Callable

import pytest
from google.protobuf.message import Message

from danube.model.calls.client import SchemaReference, SendMessage
from danube.model.errors import InvalidNameError, InvalidRequestError
from danube.model.limits.broker import MIB, PARTITIONS_MAX
from danube.model.topic import DispatchStrategy
from danube.wire import admin_messages, client_messages, control_messages, decode
from danube.wire.gen import DanubeAdmin_pb2 as admin
from danube.wire.gen import DanubeApi_pb2 as api
from danube.wire.gen import DanubeControl_pb2 as control

GARBAGE = b"\xff\xff\xff"
NO_UTF8 = b"\x2a\x01\xff"  # StreamMessage field 5, one byte that is no text

DECODERS: dict[Callable[[bytes], object], str] = {
    client_messages.CREATE_PRODUCER.decode: "ProducerRequest",
    decode.send_message: "StreamMessage",
    client_messages.SUBSCRIBE.decode: "ConsumerRequest",
    client_messages.RECEIVE.decode: "ReceiveRequest",
    decode.acknowledge: "AckRequest",
    decode.negative_acknowledge: "NackRequest",
    client_messages.LOOKUP.decode: "TopicLookupRequest",
    client_messages.HEALTH_CHECK.decode: "HealthCheckRequest",
    client_messages.AUTHENTICATE.decode: "AuthRequest",
    decode.echo: "MessageResponse",
    client_messages.PRODUCER_CREATED.decode: "ProducerResponse",
    client_messages.SUBSCRIBED.decode: "ConsumerResponse",
    decode.received_message: "StreamMessage",
    client_messages.LOOKUP_ANSWER.decode: "TopicLookupResponse",
    client_messages.PARTITIONS_ANSWER.decode: "TopicPartitionsResponse",
    client_messages.HEALTH_STATUS.decode: "HealthCheckResponse",
    client_messages.TOKEN.decode: "AuthResponse",
    admin_messages.CREATE_TOPIC.decode: "NewTopicRequest",
    admin_messages.CREATE_PARTITIONED_TOPIC.decode: "PartitionedTopicRequest",
    admin_messages.TOPIC.decode: "TopicRequest",
    admin_messages.UNSUBSCRIBE.decode: "SubscriptionRequest",
    admin_messages.NAMESPACE.decode: "NamespaceRequest",
    admin_messages.BROKER.decode: "BrokerRequest",
    admin_messages.DONE.decode: "TopicResponse",
    admin_messages.TOPICS.decode: "TopicInfoListResponse",
    admin_messages.TOPIC_DETAILS.decode: "DescribeTopicResponse",
    admin_messages.SUBSCRIPTIONS.decode: "SubscriptionListResponse",
    admin_messages.NAMESPACES.decode: "NamespaceListResponse",
    admin_messages.NAMESPACE_TOPICS.decode: "TopicListResponse",
    admin_messages.POLICIES.decode: "PolicyResponse",
    admin_messages.BROKERS.decode: "BrokerListResponse",
    admin_messages.LEADER.decode: "BrokerResponse",
    control_messages.DESCRIBE_TOPICS.decode: "DescribeTopicsRequest",
    control_messages.TOPICS_PAGE.decode: "DescribeTopicsResponse",
    control_messages.BROKER_DESCRIPTION.decode: "DescribeBrokerResponse",
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
        (
            client_messages.CREATE_PRODUCER.decode,
            api.ProducerRequest(topic_name="/a/t", producer_name="p", dispatch_strategy=2),
        ),
        (
            client_messages.CREATE_PRODUCER.decode,
            api.ProducerRequest(topic_name="/a/t", producer_name="p", producer_access_mode=9),
        ),
        (
            client_messages.SUBSCRIBE.decode,
            api.ConsumerRequest(topic_name="/a/t", consumer_name="c", subscription="s", subscription_type=4),
        ),
        (client_messages.HEALTH_CHECK.decode, api.HealthCheckRequest(client=2)),
        (admin_messages.CREATE_TOPIC.decode, admin.NewTopicRequest(name="/a/t", dispatch_strategy=-1)),
        (client_messages.LOOKUP_ANSWER.decode, api.TopicLookupResponse(response_type=3)),
    ],
)
def test_enum_numbers_without_a_meaning_are_refused(decoder: Callable[[bytes], object], message: Message) -> None:
    with pytest.raises(InvalidRequestError, match="use one of 0"):
        decoder(message.SerializeToString())


@pytest.mark.parametrize("name", ["", "t", "default/t", "//t", "/default/", "/default/a.b", "/a/b/c"])
def test_bad_topic_names_are_refused_wherever_they_stand(name: str) -> None:
    msg_id = api.MsgID(topic_name=name)
    for decoder, message in (
        (client_messages.CREATE_PRODUCER.decode, api.ProducerRequest(topic_name=name, producer_name="p")),
        (client_messages.SUBSCRIBE.decode, api.ConsumerRequest(topic_name=name, consumer_name="c", subscription="s")),
        (decode.acknowledge, api.AckRequest(msg_id=msg_id, subscription_name="s")),
        (decode.negative_acknowledge, api.NackRequest(msg_id=msg_id, subscription_name="s")),
        (client_messages.LOOKUP.decode, api.TopicLookupRequest(topic=name)),
        (admin_messages.CREATE_TOPIC.decode, admin.NewTopicRequest(name=name)),
        (admin_messages.CREATE_PARTITIONED_TOPIC.decode, admin.PartitionedTopicRequest(base_name=name, partitions=1)),
        (admin_messages.TOPIC.decode, admin.TopicRequest(name=name)),
        (admin_messages.UNSUBSCRIBE.decode, admin.SubscriptionRequest(topic=name, subscription="s")),
        (control_messages.DESCRIBE_TOPICS.decode, control.DescribeTopicsRequest(topics=["/a/t", name])),
    ):
        with pytest.raises(InvalidNameError):
            decoder(message.SerializeToString())


@pytest.mark.parametrize("name", ["", "new\nline", "x" * 256])
def test_bad_member_names_are_refused_wherever_they_stand(name: str) -> None:
    for decoder, message in (
        (client_messages.CREATE_PRODUCER.decode, api.ProducerRequest(topic_name="/a/t", producer_name=name)),
        (
            client_messages.SUBSCRIBE.decode,
            api.ConsumerRequest(topic_name="/a/t", consumer_name=name, subscription="s"),
        ),
        (
            client_messages.SUBSCRIBE.decode,
            api.ConsumerRequest(topic_name="/a/t", consumer_name="c", subscription=name),
        ),
        (decode.acknowledge, api.AckRequest(msg_id=api.MsgID(topic_name="/a/t"), subscription_name=name)),
        (
            client_messages.CREATE_PRODUCER.decode,
            api.ProducerRequest(
                topic_name="/a/t", producer_name="p", schema_ref=api.SchemaReference(subject=name, use_latest=True)
            ),
        ),
    ):
        with pytest.raises(InvalidNameError):
            decoder(message.SerializeToString())


def test_bad_namespace_is_refused() -> None:
    with pytest.raises(InvalidNameError):
        admin_messages.NAMESPACE.decode(admin.NamespaceRequest(name="a/b").SerializeToString())


@pytest.mark.parametrize("partitions", [0, PARTITIONS_MAX + 1])
def test_partition_counts_out_of_bounds_are_refused(partitions: int) -> None:
    request = admin.PartitionedTopicRequest(base_name="/a/t", partitions=partitions)
    with pytest.raises(InvalidRequestError, match=f"1 to {PARTITIONS_MAX}"):
        admin_messages.CREATE_PARTITIONED_TOPIC.decode(request.SerializeToString())


def test_schema_reference_without_a_version_means_the_latest() -> None:
    request = api.ProducerRequest(topic_name="/a/t", producer_name="p", schema_ref=api.SchemaReference(subject="s"))
    call = client_messages.CREATE_PRODUCER.decode(request.SerializeToString())
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
    (info,) = admin_messages.TOPICS.decode(answer.SerializeToString())
    assert (info.strategy, info.broker_id) == (DispatchStrategy.NON_RELIABLE, None)
