"""Protobuf bytes -> model values, by hand, for what is sent once per message or per batch.

What the model rejects is rejected here: InvalidNameError for names, InvalidRequestError for bytes that are no such
message and for messages without their `msg_id`.
"""

from collections.abc import Sequence

from google.protobuf.message import DecodeError

from danube.model.calls.client import NO_ATTRIBUTES, Acknowledge, NegativeAcknowledge, ReceivedMessage, SendMessage
from danube.model.calls.stream import (
    FetchedBatch,
    PublishAcknowledged,
    PublishBatch,
    PublishOpen,
    PublishOpened,
    PublishRefused,
)
from danube.model.errors import InvalidBatchError, InvalidRequestError
from danube.model.limits.broker import KIB, RPC_STATUS_MESSAGE_CHARS_MAX
from danube.wire.client_messages import PUBLISH_OPEN, PUBLISH_OPENED
from danube.wire.gen import DanubeApi_pb2, DanubeStream_pb2
from danube.wire.parsing import member_name, parse, topic_name, undecodable
from danube.wire.raw import delimited_size
from danube.wire.status import StatusCode, error_from

_MEASURED_BYTES_MIN = 128 * KIB
"""From this size on, walking over a message costs less than the copy of its payload that the message class makes."""
_UINT64_MAX = 2**64 - 1

_StreamMessage = DanubeApi_pb2.StreamMessage
_parse_stream_message = _StreamMessage.FromString

# Messages


def send_message(request: bytes) -> SendMessage:
    """The parts of a StreamMessage that a broker needs; its payload is not copied."""
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
    """Key of an encoded StreamMessage on Key-Shared subscriptions: its routing key, else the name of its producer.

    Empty for bytes that are no such message: a client's batch may hold anything, and one record must not stop a topic.
    """
    try:
        parsed = _parse_stream_message(message)
    except DecodeError:
        return ""
    return parsed.routing_key if parsed.HasField("routing_key") else parsed.producer_name


def _payload_size(request: bytes) -> int:
    return delimited_size(request, _StreamMessage.PAYLOAD_FIELD_NUMBER)


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


def _no_msg_id() -> InvalidRequestError:
    return InvalidRequestError("the request has no msg_id; set it, with the topic's name in it")


# Acknowledgements


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


def echo(response: bytes) -> int:
    """The request id in the answer to SendMessage, Ack or Nack: all there is in it."""
    return parse(DanubeApi_pb2.MessageResponse, response).request_id


# Batches


def publish_request(request: bytes) -> PublishOpen | PublishBatch:
    """A PublishRequest."""
    message = parse(DanubeStream_pb2.PublishRequest, request)
    match message.WhichOneof("request"):
        case "batch":
            return PublishBatch(_sequence(message.batch.sequence), message.batch.body)
        case "open":
            return PUBLISH_OPEN.read(message.open)
    raise InvalidRequestError("an empty PublishRequest says nothing: open the stream or send a batch")


def _sequence(number: int) -> int:
    if number == _UINT64_MAX:
        raise InvalidRequestError(f"batch {number} has no next one: begin a stream with a smaller number")
    return number


def shared_schema(shared: bytes) -> tuple[int, int]:
    """Schema id and version in the shared part of a batch; 0 for none. Raises InvalidBatchError."""
    try:
        message = _parse_stream_message(shared)
    except DecodeError as error:
        raise InvalidBatchError("the shared part of the batch is no StreamMessage") from error
    return message.schema_id, message.schema_version


def schema_of_messages(records: Sequence[bytes]) -> tuple[tuple[int, int], list[bytes]]:
    """Schema id and version that the whole messages of a batch have, and their payloads.

    Raises InvalidBatchError where they have not all the same.
    """
    messages = [_parse_stream_message(record) for record in records]  # parsed before, when their topic was checked
    pairs = {(message.schema_id, message.schema_version) for message in messages}
    if len(pairs) != 1:
        raise InvalidBatchError("the messages of a batch have different schemas: send a batch for each")
    return pairs.pop(), [message.payload for message in messages]


def shared_topic(shared: bytes) -> str:
    """The topic that the shared part of a batch of payloads names.

    Raises InvalidBatchError when it is no StreamMessage, or brings a payload of its own.
    """
    try:
        message = parse(DanubeApi_pb2.StreamMessage, shared)
    except InvalidRequestError as error:
        raise InvalidBatchError(f"what the records of a batch share cannot be read: {error}") from error
    if message.payload:
        raise InvalidBatchError("what the records of a batch share must not have a payload: each record is one")
    return message.msg_id.topic_name


def message_topic(record: bytes) -> str:
    """The topic that a whole message of a batch names. Raises InvalidBatchError when it is no StreamMessage."""
    try:
        return parse(DanubeApi_pb2.StreamMessage, record).msg_id.topic_name
    except InvalidRequestError as error:
        raise InvalidBatchError(f"a record of a batch cannot be read: {error}") from error


def publish_response(response: bytes) -> PublishOpened | PublishAcknowledged | PublishRefused:
    """A PublishResponse."""
    message = parse(DanubeStream_pb2.PublishResponse, response)
    match message.WhichOneof("response"):
        case "acknowledged":
            return PublishAcknowledged(message.acknowledged.sequence, tuple(message.acknowledged.base_offsets))
        case "opened":
            return PUBLISH_OPENED.read(message.opened)
        case "refused":
            return _refused(message.refused)
    raise InvalidRequestError("the broker sent an empty PublishResponse: it speaks another version of the protocol")


def _refused(message: DanubeStream_pb2.PublishRefused) -> PublishRefused:
    """With the class of its code; of a code that is unknown here, one that is retryable when the broker says so."""
    status = StatusCode.UNAVAILABLE if message.retryable else StatusCode.INVALID_ARGUMENT
    text = message.message[:RPC_STATUS_MESSAGE_CHARS_MAX]
    return PublishRefused(message.sequence, error_from(status, text, message.code))


def fetched(response: bytes) -> list[FetchedBatch]:
    """A FetchResponse."""
    return [
        FetchedBatch(batch.base_offset, batch.count, batch.append_time_ms, batch.body, batch.first, batch.end)
        for batch in parse(DanubeStream_pb2.FetchResponse, response).batches
    ]
