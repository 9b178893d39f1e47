"""Model values -> protobuf bytes, for the calls of the client port: requests for clients, answers for brokers."""

from danube.model.calls.client import (
    Acknowledge,
    Authenticate,
    CreateProducer,
    HealthCheck,
    HealthStatus,
    Lookup,
    LookupAnswer,
    NegativeAcknowledge,
    OutgoingMessage,
    PartitionsAnswer,
    ProducerCreated,
    Receive,
    SchemaReference,
    Subscribe,
    Subscribed,
)
from danube.wire.gen import DanubeApi_pb2, DanubeAuth_pb2
from danube.wire.raw import varint

_PAYLOAD_TAG = b"\x1a"  # StreamMessage field 3, delimited
_STAMP_HEADS = tuple(bytes((0x12, 1 + size, 0x28)) for size in range(11))
"""By the size of the offset: StreamMessage field 2, its length, MsgID field 5."""


# Messages


def send_message(message: OutgoingMessage) -> bytes:
    """A StreamMessage as a producer sends it."""
    stream_message = DanubeApi_pb2.StreamMessage(
        request_id=message.request_id,
        payload=message.payload,
        publish_time=message.publish_time_ms,
        producer_name=message.producer_name,
    )
    msg_id = stream_message.msg_id
    msg_id.producer_id = message.producer_id
    msg_id.topic_name = message.topic
    msg_id.broker_addr = message.broker_addr
    _set_optional(stream_message, message)
    return stream_message.SerializeToString()


def _set_optional(stream_message: DanubeApi_pb2.StreamMessage, message: OutgoingMessage) -> None:
    """Touch only what is there, which halves the cost of a plain message."""
    if message.attributes:
        stream_message.attributes.update(message.attributes)
    if message.schema_id is not None:
        stream_message.schema_id = message.schema_id
    if message.schema_version is not None:
        stream_message.schema_version = message.schema_version
    if message.routing_key is not None:
        stream_message.routing_key = message.routing_key


def stamp_offset(offset: int) -> bytes:
    """A suffix that gives any encoded StreamMessage this offset, whatever was in it: the last value counts.

    It leaves the rest as it is, because a parser merges a message field that comes twice.
    """
    number = varint(offset)
    return _STAMP_HEADS[len(number)] + number


def record_of_payload(shared: bytes, payload: bytes) -> bytes:
    """A StreamMessage of a payload and of everything else, encoded beforehand (by `send_message`, payload empty)."""
    return b"".join((shared, _PAYLOAD_TAG, varint(len(payload)), payload))


# Requests


def create_producer(call: CreateProducer) -> bytes:
    """A ProducerRequest."""
    message = DanubeApi_pb2.ProducerRequest(
        request_id=call.request_id,
        producer_name=call.producer_name,
        topic_name=str(call.topic),
        schema_ref=schema_reference(call.schema) if call.schema else None,
        producer_access_mode=call.access_mode,
        dispatch_strategy=call.strategy,
    )
    return message.SerializeToString()


def schema_reference(schema: SchemaReference) -> DanubeApi_pb2.SchemaReference:
    """The message itself, to be put into a request."""
    message = DanubeApi_pb2.SchemaReference(subject=schema.subject)
    if schema.pinned_version is not None:
        message.pinned_version = schema.pinned_version
    elif schema.min_version is not None:
        message.min_version = schema.min_version
    else:
        message.use_latest = True
    return message


def subscribe(call: Subscribe) -> bytes:
    """A ConsumerRequest."""
    message = DanubeApi_pb2.ConsumerRequest(
        request_id=call.request_id,
        topic_name=str(call.topic),
        consumer_name=call.consumer_name,
        subscription=call.subscription,
        subscription_type=call.type,
        key_filters=call.key_filters,
    )
    return message.SerializeToString()


def receive(call: Receive) -> bytes:
    """A ReceiveRequest."""
    return DanubeApi_pb2.ReceiveRequest(request_id=call.request_id, consumer_id=call.consumer_id).SerializeToString()


def acknowledge(call: Acknowledge) -> bytes:
    """An AckRequest."""
    message = DanubeApi_pb2.AckRequest(
        request_id=call.request_id,
        msg_id=DanubeApi_pb2.MsgID(topic_name=str(call.topic), topic_offset=call.offset),
        subscription_name=call.subscription,
    )
    return message.SerializeToString()


def negative_acknowledge(call: NegativeAcknowledge) -> bytes:
    """A NackRequest."""
    message = DanubeApi_pb2.NackRequest(
        request_id=call.request_id,
        msg_id=DanubeApi_pb2.MsgID(topic_name=str(call.topic), topic_offset=call.offset),
        subscription_name=call.subscription,
        delay_ms=None if call.delay_s is None else round(call.delay_s * 1000),
        reason=call.reason,
    )
    return message.SerializeToString()


def lookup(call: Lookup) -> bytes:
    """A TopicLookupRequest: for TopicLookup and for TopicPartitions."""
    return DanubeApi_pb2.TopicLookupRequest(request_id=call.request_id, topic=str(call.topic)).SerializeToString()


def health_check(call: HealthCheck) -> bytes:
    """A HealthCheckRequest."""
    message = DanubeApi_pb2.HealthCheckRequest(request_id=call.request_id, client=call.client, id=call.id)
    return message.SerializeToString()


def authenticate(call: Authenticate) -> bytes:
    """An AuthRequest."""
    return DanubeAuth_pb2.AuthRequest(api_key=call.api_key).SerializeToString()


# Answers


def echo(request_id: int) -> bytes:
    """The answer to SendMessage, Ack or Nack: three messages with one layout, the request id as field 1."""
    return b"\x08" + varint(request_id)


def producer_created(answer: ProducerCreated) -> bytes:
    """A ProducerResponse."""
    message = DanubeApi_pb2.ProducerResponse(
        request_id=answer.request_id, producer_id=answer.producer_id, producer_name=answer.producer_name
    )
    return message.SerializeToString()


def subscribed(answer: Subscribed) -> bytes:
    """A ConsumerResponse."""
    message = DanubeApi_pb2.ConsumerResponse(
        request_id=answer.request_id, consumer_id=answer.consumer_id, consumer_name=answer.consumer_name
    )
    return message.SerializeToString()


def lookup_answer(answer: LookupAnswer) -> bytes:
    """A TopicLookupResponse. Raises ValueError for a URL without a scheme: official clients use them as they are."""
    for url in (answer.connect_url, answer.broker_url):
        if not url.startswith(("http://", "https://")):
            raise ValueError(f"{url!r} is not a URL that clients can use: it must start with http:// or https://")
    message = DanubeApi_pb2.TopicLookupResponse(
        request_id=answer.request_id,
        response_type=answer.kind,
        connect_url=answer.connect_url,
        broker_url=answer.broker_url,
        proxy=answer.proxy,
    )
    return message.SerializeToString()


def partitions_answer(answer: PartitionsAnswer) -> bytes:
    """A TopicPartitionsResponse."""
    message = DanubeApi_pb2.TopicPartitionsResponse(
        request_id=answer.request_id, partitions=[str(topic) for topic in answer.partitions]
    )
    return message.SerializeToString()


def health_status(status: HealthStatus) -> bytes:
    """A HealthCheckResponse."""
    return DanubeApi_pb2.HealthCheckResponse(status=status).SerializeToString()


def token(text: str) -> bytes:
    """An AuthResponse."""
    return DanubeAuth_pb2.AuthResponse(token=text).SerializeToString()
