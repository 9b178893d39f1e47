"""Protobuf bytes -> model values, for the calls of the client port: requests for brokers, answers for clients.

What the model rejects is rejected here: InvalidNameError for names, InvalidRequestError for bytes that are no such
message, for enum numbers without a meaning and for messages without their `msg_id`.
"""

from google.protobuf.message import DecodeError

from danube.model.calls.client import (
    NO_ATTRIBUTES,
    AccessMode,
    Acknowledge,
    Authenticate,
    ClientKind,
    CreateProducer,
    HealthCheck,
    HealthStatus,
    Lookup,
    LookupAnswer,
    LookupKind,
    NegativeAcknowledge,
    PartitionsAnswer,
    ProducerCreated,
    Receive,
    ReceivedMessage,
    SchemaReference,
    SendMessage,
    Subscribe,
    Subscribed,
)
from danube.model.errors import InvalidRequestError
from danube.model.limits.broker import KIB
from danube.model.subscription import SubscriptionType
from danube.model.topic import DispatchStrategy
from danube.wire.gen import DanubeApi_pb2, DanubeAuth_pb2
from danube.wire.interceptors import member, member_name, parse, topic_name, undecodable
from danube.wire.raw import delimited_size

_MEASURED_BYTES_MIN = 128 * KIB
"""From here on walking over a message costs less than the copy of its payload that asking for it makes."""

_StreamMessage = DanubeApi_pb2.StreamMessage
_parse_stream_message = _StreamMessage.FromString


# Requests


def create_producer(request: bytes) -> CreateProducer:
    """A ProducerRequest."""
    message = parse(DanubeApi_pb2.ProducerRequest, request)
    return CreateProducer(
        request_id=message.request_id,
        topic=topic_name(message.topic_name),
        producer_name=member_name("producer", message.producer_name),
        strategy=member(DispatchStrategy, message.dispatch_strategy),
        access_mode=member(AccessMode, message.producer_access_mode),
        schema=schema_reference(message.schema_ref) if message.HasField("schema_ref") else None,
    )


def schema_reference(message: DanubeApi_pb2.SchemaReference) -> SchemaReference:
    """A SchemaReference within a request."""
    return SchemaReference(
        subject=member_name("schema subject", message.subject),
        pinned_version=message.pinned_version if message.HasField("pinned_version") else None,
        min_version=message.min_version if message.HasField("min_version") else None,
    )


def send_message(request: bytes) -> SendMessage:
    """The parts of a StreamMessage that a broker goes by; its payload is not copied."""
    try:
        message = _parse_stream_message(request)
    except DecodeError as error:
        raise undecodable(_StreamMessage) from error
    if not message.HasField("msg_id"):
        raise _no_msg_id()
    msg_id = message.msg_id
    return SendMessage(
        message.request_id,
        msg_id.producer_id,
        msg_id.topic_name,
        message.producer_name,
        len(message.payload) if len(request) < _MEASURED_BYTES_MIN else _payload_size(request),
        message.routing_key if message.HasField("routing_key") else None,
        message.schema_id or None,
        message.schema_version or None,
    )


def effective_key(message: bytes) -> str:
    """What Key-Shared goes by: the routing key of an encoded StreamMessage, else the name of its producer.

    Empty for bytes that are no such message: a client's batch may hold anything, and one record must not stop a topic.
    """
    try:
        parsed = _parse_stream_message(message)
    except DecodeError:
        return ""
    return parsed.routing_key if parsed.HasField("routing_key") else parsed.producer_name


def _payload_size(request: bytes) -> int:
    return delimited_size(request, _StreamMessage.PAYLOAD_FIELD_NUMBER)


def _no_msg_id() -> InvalidRequestError:
    return InvalidRequestError("the request has no msg_id; set it, with the topic's name in it")


def subscribe(request: bytes) -> Subscribe:
    """A ConsumerRequest."""
    message = parse(DanubeApi_pb2.ConsumerRequest, request)
    return Subscribe(
        request_id=message.request_id,
        topic=topic_name(message.topic_name),
        consumer_name=member_name("consumer", message.consumer_name),
        subscription=member_name("subscription", message.subscription),
        type=member(SubscriptionType, message.subscription_type),
        key_filters=tuple(message.key_filters),
    )


def receive(request: bytes) -> Receive:
    """A ReceiveRequest."""
    message = parse(DanubeApi_pb2.ReceiveRequest, request)
    return Receive(request_id=message.request_id, consumer_id=message.consumer_id)


def acknowledge(request: bytes) -> Acknowledge:
    """An AckRequest."""
    message = parse(DanubeApi_pb2.AckRequest, request)
    if not message.HasField("msg_id"):
        raise _no_msg_id()
    msg_id = message.msg_id
    return Acknowledge(
        message.request_id,
        topic_name(msg_id.topic_name),
        member_name("subscription", message.subscription_name),
        msg_id.topic_offset,
    )


def negative_acknowledge(request: bytes) -> NegativeAcknowledge:
    """A NackRequest."""
    message = parse(DanubeApi_pb2.NackRequest, request)
    if not message.HasField("msg_id"):
        raise _no_msg_id()
    return NegativeAcknowledge(
        request_id=message.request_id,
        topic=topic_name(message.msg_id.topic_name),
        subscription=member_name("subscription", message.subscription_name),
        offset=message.msg_id.topic_offset,
        delay_s=message.delay_ms / 1000 if message.HasField("delay_ms") else None,
        reason=message.reason if message.HasField("reason") else None,
    )


def lookup(request: bytes) -> Lookup:
    """A TopicLookupRequest: of TopicLookup and of TopicPartitions."""
    message = parse(DanubeApi_pb2.TopicLookupRequest, request)
    return Lookup(request_id=message.request_id, topic=topic_name(message.topic))


def health_check(request: bytes) -> HealthCheck:
    """A HealthCheckRequest."""
    message = parse(DanubeApi_pb2.HealthCheckRequest, request)
    return HealthCheck(request_id=message.request_id, client=member(ClientKind, message.client), id=message.id)


def authenticate(request: bytes) -> Authenticate:
    """An AuthRequest."""
    return Authenticate(api_key=parse(DanubeAuth_pb2.AuthRequest, request).api_key)


# Answers


def echo(response: bytes) -> int:
    """The request id in the answer to SendMessage, Ack or Nack: all there is in it."""
    return parse(DanubeApi_pb2.MessageResponse, response).request_id


def producer_created(response: bytes) -> ProducerCreated:
    """A ProducerResponse."""
    message = parse(DanubeApi_pb2.ProducerResponse, response)
    return ProducerCreated(
        request_id=message.request_id, producer_id=message.producer_id, producer_name=message.producer_name
    )


def subscribed(response: bytes) -> Subscribed:
    """A ConsumerResponse."""
    message = parse(DanubeApi_pb2.ConsumerResponse, response)
    return Subscribed(
        request_id=message.request_id, consumer_id=message.consumer_id, consumer_name=message.consumer_name
    )


def received_message(response: bytes) -> ReceivedMessage:
    """A StreamMessage off a consumer's stream."""
    message = parse(_StreamMessage, response)
    if not message.HasField("msg_id"):
        raise _no_msg_id()
    msg_id = message.msg_id
    attributes = message.attributes
    return ReceivedMessage(
        message.request_id,
        msg_id.producer_id,
        msg_id.topic_name,
        msg_id.broker_addr,
        msg_id.topic_offset,
        message.payload,
        message.publish_time,
        message.producer_name,
        dict(attributes) if attributes else NO_ATTRIBUTES,
        message.schema_id if message.HasField("schema_id") else None,
        message.schema_version if message.HasField("schema_version") else None,
        message.routing_key if message.HasField("routing_key") else None,
    )


def lookup_answer(response: bytes) -> LookupAnswer:
    """A TopicLookupResponse."""
    message = parse(DanubeApi_pb2.TopicLookupResponse, response)
    return LookupAnswer(
        request_id=message.request_id,
        kind=member(LookupKind, message.response_type),
        connect_url=message.connect_url,
        broker_url=message.broker_url,
        proxy=message.proxy,
    )


def partitions_answer(response: bytes) -> PartitionsAnswer:
    """A TopicPartitionsResponse."""
    message = parse(DanubeApi_pb2.TopicPartitionsResponse, response)
    return PartitionsAnswer(request_id=message.request_id, partitions=tuple(map(topic_name, message.partitions)))


def health_status(response: bytes) -> HealthStatus:
    """A HealthCheckResponse."""
    return member(HealthStatus, parse(DanubeApi_pb2.HealthCheckResponse, response).status)


def token(response: bytes) -> str:
    """The token in an AuthResponse."""
    return parse(DanubeAuth_pb2.AuthResponse, response).token
