"""Protobuf bytes -> model values, for `danube.stream`: requests for brokers, answers for clients.

What the model rejects is rejected here, as in `decode`.
"""

from danube.model.calls.stream import (
    Bounds,
    Fetch,
    FetchedBatch,
    FetchFrom,
    ProducerAccess,
    PublishAcknowledged,
    PublishBatch,
    PublishOpen,
    PublishOpened,
    PublishRefused,
    TopicBounds,
)
from danube.model.errors import InvalidBatchError, InvalidRequestError
from danube.model.limits.broker import BOUNDS_TIMES_MAX, RPC_STATUS_MESSAGE_CHARS_MAX
from danube.model.topic import DispatchStrategy
from danube.wire.decode import schema_reference
from danube.wire.fetch_start import start_of
from danube.wire.gen import DanubeApi_pb2, DanubeStream_pb2
from danube.wire.interceptors import member, member_name, parse, topic_name
from danube.wire.status import StatusCode, error_from

_UINT64_MAX = 2**64 - 1

# Requests


def publish_request(request: bytes) -> PublishOpen | PublishBatch:
    """A PublishRequest."""
    message = parse(DanubeStream_pb2.PublishRequest, request)
    match message.WhichOneof("request"):
        case "batch":
            return PublishBatch(_sequence(message.batch.sequence), message.batch.body)
        case "open":
            return _publish_open(message.open)
    raise InvalidRequestError("an empty PublishRequest says nothing: open the stream or send a batch")


def _sequence(number: int) -> int:
    if number == _UINT64_MAX:
        raise InvalidRequestError(f"batch {number} has no next one: begin a stream with a smaller number")
    return number


def _publish_open(message: DanubeStream_pb2.PublishOpen) -> PublishOpen:
    return PublishOpen(
        topic=topic_name(message.topic_name),
        producer_name=member_name("producer", message.producer_name),
        strategy=member(DispatchStrategy, message.dispatch_strategy),
        schema=schema_reference(message.schema_ref) if message.HasField("schema_ref") else None,
        deduplication_key=message.deduplication_key,
        access=member(ProducerAccess, message.access),
        epoch=message.epoch,
    )


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


def fetch(request: bytes) -> Fetch:
    """A FetchRequest."""
    message = parse(DanubeStream_pb2.FetchRequest, request)
    return Fetch(
        topic=topic_name(message.topic_name),
        start=start_of(message, FetchFrom.EARLIEST),
        end=message.end_offset if message.HasField("end_offset") else None,
        follow=message.follow,
        bytes_max=message.bytes_max,
    )


def bounds(request: bytes) -> Bounds:
    """A BoundsRequest."""
    message = parse(DanubeStream_pb2.BoundsRequest, request)
    times = tuple(message.append_times_ms)
    if len(times) > BOUNDS_TIMES_MAX:
        raise InvalidRequestError(f"Bounds asks for {len(times)} times, the limit is {BOUNDS_TIMES_MAX}: ask in parts")
    return Bounds(topic=topic_name(message.topic_name), append_times_ms=times)


def close_producer(request: bytes) -> int:
    """The id in a CloseProducerRequest."""
    return parse(DanubeStream_pb2.CloseProducerRequest, request).producer_id


def close_consumer(request: bytes) -> int:
    """A CloseConsumerRequest: the consumer's id."""
    return parse(DanubeStream_pb2.CloseConsumerRequest, request).consumer_id


# Answers


def publish_response(response: bytes) -> PublishOpened | PublishAcknowledged | PublishRefused:
    """A PublishResponse."""
    message = parse(DanubeStream_pb2.PublishResponse, response)
    match message.WhichOneof("response"):
        case "acknowledged":
            return PublishAcknowledged(message.acknowledged.sequence, tuple(message.acknowledged.base_offsets))
        case "opened":
            opened = message.opened
            return PublishOpened(
                producer_id=opened.producer_id,
                window_bytes=opened.window_bytes,
                batch_bytes_max=opened.batch_bytes_max,
                numbering_id=opened.numbering_id,
                batches_max=opened.batches_max,
                epoch=opened.epoch,
            )
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


def topic_bounds(response: bytes) -> TopicBounds:
    """A BoundsResponse."""
    message = parse(DanubeStream_pb2.BoundsResponse, response)
    return TopicBounds(
        topic_id=message.topic_id,
        start_offset=message.start_offset,
        end_offset=message.end_offset,
        offsets=tuple(message.offsets),
    )
