"""Model values -> protobuf bytes, by hand, for what is sent once per message or per batch.

A body is copied once, into the message.
"""

from collections.abc import Sequence

from danube.model.calls.client import Acknowledge, NegativeAcknowledge, OutgoingMessage
from danube.model.calls.stream import (
    FetchedBatch,
    PublishAcknowledged,
    PublishBatch,
    PublishOpen,
    PublishOpened,
    PublishRefused,
)
from danube.wire.client_messages import PUBLISH_OPEN, PUBLISH_OPENED
from danube.wire.gen import DanubeApi_pb2, DanubeStream_pb2
from danube.wire.raw import varint
from danube.wire.status import status_of

_PAYLOAD_TAG = b"\x1a"  # StreamMessage field 3, delimited
_STAMP_HEADS = tuple(bytes((0x12, 1 + size, 0x28)) for size in range(11))
"""By the size of the offset: StreamMessage field 2, its length, MsgID field 5."""
_SEQUENCE_TAG = b"\x08"  # PublishBatch field 1, a number
_BODY_TAG = b"\x12"  # PublishBatch field 2, delimited
_BATCH_TAG = b"\x12"  # PublishRequest field 2, delimited
_FETCHED_TAG = b"\x0a"  # FetchResponse field 1, delimited
_FETCHED_BODY_TAG = b"\x32"  # FetchedBatch field 6, delimited

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


# Acknowledgements


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


def echo(request_id: int) -> bytes:
    """The answer to SendMessage, Ack or Nack: three messages with one layout, the request id as field 1."""
    return b"\x08" + varint(request_id)


# Batches


def publish_open(call: PublishOpen) -> bytes:
    """A PublishRequest that opens."""
    return DanubeStream_pb2.PublishRequest(open=PUBLISH_OPEN.write(call)).SerializeToString()


def publish_batch(batch: PublishBatch) -> bytes:
    """A PublishRequest with a batch."""
    head = b"".join((_SEQUENCE_TAG, varint(batch.sequence), _BODY_TAG, varint(len(batch.body))))
    return b"".join((_BATCH_TAG, varint(len(head) + len(batch.body)), head, batch.body))


def publish_opened(answer: PublishOpened) -> bytes:
    """A PublishResponse to the opening."""
    return DanubeStream_pb2.PublishResponse(opened=PUBLISH_OPENED.write(answer)).SerializeToString()


def publish_acknowledged(answer: PublishAcknowledged) -> bytes:
    """A PublishResponse for batches that are stored."""
    acknowledged = DanubeStream_pb2.PublishAcknowledged(sequence=answer.sequence, base_offsets=answer.base_offsets)
    return DanubeStream_pb2.PublishResponse(acknowledged=acknowledged).SerializeToString()


def publish_refused(answer: PublishRefused) -> bytes:
    """A PublishResponse for a batch that is not stored; of an error that is not public it says nothing."""
    status = status_of(answer.error)
    refused = DanubeStream_pb2.PublishRefused(
        sequence=answer.sequence, code=status.error_code, message=status.message, retryable=answer.error.retryable
    )
    return DanubeStream_pb2.PublishResponse(refused=refused).SerializeToString()


def fetched(batches: Sequence[FetchedBatch], tag: bytes = _FETCHED_TAG) -> bytes:
    """A FetchResponse; with `tag`, the field of another message that has such batches."""
    parts: list[bytes] = []
    for batch in batches:
        head = _fetched_head(batch)
        parts += (tag, varint(len(head) + len(batch.body)), head, batch.body)
    return b"".join(parts)


def _fetched_head(batch: FetchedBatch) -> bytes:
    fields = DanubeStream_pb2.FetchedBatch(
        base_offset=batch.base_offset,
        count=batch.count,
        append_time_ms=batch.append_time_ms,
        first=batch.first,
        end=batch.end,
    )
    return b"".join((fields.SerializeToString(), _FETCHED_BODY_TAG, varint(len(batch.body))))
