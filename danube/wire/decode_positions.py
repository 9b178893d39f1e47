"""Protobuf bytes -> model values, for `danube.control.Positions`. Rejects as `decode` does."""

from danube.model.calls.positions import (
    AddPartitions,
    Connection,
    CreateSubscription,
    DisconnectClient,
    PeekedMessage,
    PeekedPage,
    PeekMessages,
    SeekSubscription,
    SubscriptionPosition,
)
from danube.model.calls.stream import FetchFrom, FetchStart
from danube.model.errors import InvalidRequestError
from danube.model.limits.broker import PARTITIONS_MAX, PEEK_MESSAGES_DEFAULT, PEEK_MESSAGES_MAX, PEEK_PAYLOAD_BYTES_MAX
from danube.model.policies import SubscriptionName
from danube.model.subscription import SubscriptionType
from danube.model.topic import TopicName
from danube.wire.decode_policies import subscription_name
from danube.wire.fetch_start import start_of
from danube.wire.gen import DanubeControl_pb2
from danube.wire.interceptors import member, parse, topic_name

# Requests


def create_subscription(request: bytes) -> CreateSubscription:
    """A CreateSubscriptionRequest."""
    message = parse(DanubeControl_pb2.CreateSubscriptionRequest, request)
    return CreateSubscription(
        name=subscription_name(message.topic, message.subscription),
        type=member(SubscriptionType, message.subscription_type),
        start=_start(message.start),
    )


def seek(request: bytes) -> SeekSubscription:
    """A SeekRequest."""
    message = parse(DanubeControl_pb2.SeekRequest, request)
    if not message.HasField("to"):
        raise InvalidRequestError("the request does not say where to: send an offset, a time, earliest or latest")
    return SeekSubscription(name=subscription_name(message.topic, message.subscription), to=_start(message.to))


def subscription(request: bytes) -> SubscriptionName:
    """A SubscriptionRequest."""
    message = parse(DanubeControl_pb2.SubscriptionRequest, request)
    return subscription_name(message.topic, message.subscription)


def peek(request: bytes) -> PeekMessages:
    """A PeekRequest; what is beyond a bound becomes the bound."""
    message = parse(DanubeControl_pb2.PeekRequest, request)
    return PeekMessages(
        topic=topic_name(message.topic),
        start=_start(message.start),
        count=min(message.count or PEEK_MESSAGES_DEFAULT, PEEK_MESSAGES_MAX),
        payload_bytes_max=min(message.payload_bytes_max, PEEK_PAYLOAD_BYTES_MAX),
    )


def add_partitions(request: bytes) -> AddPartitions:
    """An AddPartitionsRequest."""
    message = parse(DanubeControl_pb2.AddPartitionsRequest, request)
    if not 1 <= message.count <= PARTITIONS_MAX:
        raise InvalidRequestError(f"{message.count} partitions cannot be added: use 1 to {PARTITIONS_MAX}")
    return AddPartitions(base=topic_name(message.topic), count=message.count)


def list_connections(request: bytes) -> TopicName:
    """A ListConnectionsRequest."""
    return topic_name(parse(DanubeControl_pb2.ListConnectionsRequest, request).topic)


def disconnect_client(request: bytes) -> DisconnectClient:
    """A DisconnectClientRequest."""
    message = parse(DanubeControl_pb2.DisconnectClientRequest, request)
    return DisconnectClient(topic=topic_name(message.topic), client_id=message.client_id)


def _start(message: DanubeControl_pb2.StartPosition) -> FetchStart:
    return start_of(message, FetchFrom.LATEST)


# Answers


def position(response: bytes) -> SubscriptionPosition:
    """A SubscriptionPosition."""
    message = parse(DanubeControl_pb2.SubscriptionPosition, response)
    return SubscriptionPosition(position=message.position, lag=message.lag)


def peeked(response: bytes) -> PeekedPage:
    """A PeekResponse."""
    message = parse(DanubeControl_pb2.PeekResponse, response)
    return PeekedPage(
        messages=tuple(_peeked(each) for each in message.messages),
        start_offset=message.start_offset,
        end_offset=message.end_offset,
    )


def _peeked(message: DanubeControl_pb2.PeekedMessage) -> PeekedMessage:
    return PeekedMessage(
        offset=message.offset,
        append_time_ms=message.append_time_ms,
        publish_time_ms=message.publish_time_ms,
        producer_name=message.producer_name,
        routing_key=message.routing_key if message.HasField("routing_key") else None,
        attributes=tuple((each.name, each.value) for each in message.attributes),
        payload=message.payload,
        payload_size=message.payload_size,
        schema_id=message.schema_id if message.HasField("schema_id") else None,
        schema_version=message.schema_version if message.HasField("schema_version") else None,
    )


def partitions(response: bytes) -> tuple[TopicName, ...]:
    """An AddPartitionsResponse."""
    return tuple(topic_name(name) for name in parse(DanubeControl_pb2.AddPartitionsResponse, response).partitions)


def connections(response: bytes) -> tuple[tuple[Connection, ...], int]:
    """A ListConnectionsResponse: those that are shown, and how many there are."""
    message = parse(DanubeControl_pb2.ListConnectionsResponse, response)
    shown = tuple(
        Connection(
            topic=topic_name(each.topic),
            client_id=each.client_id,
            name=each.name,
            subscription=each.subscription if each.HasField("subscription") else None,
            takeovers=each.takeovers,
            held_off=each.held_off,
            rival=each.rival,
        )
        for each in message.connections
    )
    return shown, message.connection_count
