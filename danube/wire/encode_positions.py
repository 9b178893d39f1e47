"""Model values -> protobuf bytes, for `danube.control.Positions`."""

from collections.abc import Iterable

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
from danube.model.calls.stream import FetchStart
from danube.model.policies import SubscriptionName
from danube.model.topic import TopicName
from danube.wire.fetch_start import set_start
from danube.wire.gen import DanubeControl_pb2

# Requests


def create_subscription(call: CreateSubscription) -> bytes:
    """A CreateSubscriptionRequest."""
    message = DanubeControl_pb2.CreateSubscriptionRequest(
        topic=str(call.name.topic),
        subscription=call.name.subscription,
        subscription_type=call.type,
        start=_start(call.start),
    )
    return message.SerializeToString()


def seek(call: SeekSubscription) -> bytes:
    """A SeekRequest."""
    message = DanubeControl_pb2.SeekRequest(
        topic=str(call.name.topic), subscription=call.name.subscription, to=_start(call.to)
    )
    return message.SerializeToString()


def subscription(name: SubscriptionName) -> bytes:
    """A SubscriptionRequest."""
    message = DanubeControl_pb2.SubscriptionRequest(topic=str(name.topic), subscription=name.subscription)
    return message.SerializeToString()


def peek(call: PeekMessages) -> bytes:
    """A PeekRequest."""
    message = DanubeControl_pb2.PeekRequest(
        topic=str(call.topic), start=_start(call.start), count=call.count, payload_bytes_max=call.payload_bytes_max
    )
    return message.SerializeToString()


def add_partitions(call: AddPartitions) -> bytes:
    """An AddPartitionsRequest."""
    return DanubeControl_pb2.AddPartitionsRequest(topic=str(call.base), count=call.count).SerializeToString()


def list_connections(topic: TopicName) -> bytes:
    """A ListConnectionsRequest."""
    return DanubeControl_pb2.ListConnectionsRequest(topic=str(topic)).SerializeToString()


def disconnect_client(call: DisconnectClient) -> bytes:
    """A DisconnectClientRequest."""
    message = DanubeControl_pb2.DisconnectClientRequest(topic=str(call.topic), client_id=call.client_id)
    return message.SerializeToString()


def _start(start: FetchStart) -> DanubeControl_pb2.StartPosition:
    message = DanubeControl_pb2.StartPosition()
    set_start(message, start)
    return message


# Answers


def position(answer: SubscriptionPosition) -> bytes:
    """A SubscriptionPosition."""
    return DanubeControl_pb2.SubscriptionPosition(position=answer.position, lag=answer.lag).SerializeToString()


def peeked(page: PeekedPage) -> bytes:
    """A PeekResponse."""
    message = DanubeControl_pb2.PeekResponse(
        messages=[_peeked(each) for each in page.messages], start_offset=page.start_offset, end_offset=page.end_offset
    )
    return message.SerializeToString()


def _peeked(message: PeekedMessage) -> DanubeControl_pb2.PeekedMessage:
    return DanubeControl_pb2.PeekedMessage(
        offset=message.offset,
        append_time_ms=message.append_time_ms,
        publish_time_ms=message.publish_time_ms,
        producer_name=message.producer_name,
        routing_key=message.routing_key,
        attributes=[DanubeControl_pb2.Attribute(name=name, value=value) for name, value in message.attributes],
        payload=message.payload,
        payload_size=message.payload_size,
        schema_id=message.schema_id,
        schema_version=message.schema_version,
    )


def partitions(names: Iterable[TopicName]) -> bytes:
    """An AddPartitionsResponse."""
    return DanubeControl_pb2.AddPartitionsResponse(partitions=[str(name) for name in names]).SerializeToString()


def connections(answer: tuple[tuple[Connection, ...], int]) -> bytes:
    """A ListConnectionsResponse."""
    shown, count = answer
    message = DanubeControl_pb2.ListConnectionsResponse(
        connections=[
            DanubeControl_pb2.Connection(
                topic=str(each.topic),
                client_id=each.client_id,
                name=each.name,
                subscription=each.subscription,
                takeovers=each.takeovers,
                held_off=each.held_off,
                rival=each.rival,
            )
            for each in shown
        ],
        connection_count=count,
    )
    return message.SerializeToString()


def disconnected(_: None = None) -> bytes:
    """A DisconnectClientResponse."""
    return DanubeControl_pb2.DisconnectClientResponse().SerializeToString()
