"""Model values -> protobuf bytes, for `danube.stream`: requests for clients, answers for brokers.

What carries a body is put together by hand: the body is copied once, into the message.
"""

from collections.abc import Sequence

from danube.model.calls.stream import (
    Bounds,
    Fetch,
    FetchedBatch,
    PublishAcknowledged,
    PublishBatch,
    PublishOpen,
    PublishOpened,
    PublishRefused,
    TopicBounds,
)
from danube.wire.encode import schema_reference
from danube.wire.fetch_start import set_start
from danube.wire.gen import DanubeStream_pb2
from danube.wire.raw import varint
from danube.wire.status import status_of

_SEQUENCE_TAG = b"\x08"  # PublishBatch field 1, a number
_BODY_TAG = b"\x12"  # PublishBatch field 2, delimited
_BATCH_TAG = b"\x12"  # PublishRequest field 2, delimited
_FETCHED_TAG = b"\x0a"  # FetchResponse field 1, delimited
_FETCHED_BODY_TAG = b"\x32"  # FetchedBatch field 6, delimited


# Requests


def publish_open(call: PublishOpen) -> bytes:
    """A PublishRequest that opens."""
    opening = DanubeStream_pb2.PublishOpen(
        topic_name=str(call.topic),
        producer_name=call.producer_name,
        dispatch_strategy=call.strategy,
        schema_ref=schema_reference(call.schema) if call.schema else None,
        deduplication_key=call.deduplication_key,
        access=call.access,
        epoch=call.epoch,
    )
    return DanubeStream_pb2.PublishRequest(open=opening).SerializeToString()


def publish_batch(batch: PublishBatch) -> bytes:
    """A PublishRequest with a batch."""
    head = b"".join((_SEQUENCE_TAG, varint(batch.sequence), _BODY_TAG, varint(len(batch.body))))
    return b"".join((_BATCH_TAG, varint(len(head) + len(batch.body)), head, batch.body))


def fetch(call: Fetch) -> bytes:
    """A FetchRequest."""
    message = DanubeStream_pb2.FetchRequest(
        topic_name=str(call.topic), end_offset=call.end, follow=call.follow, bytes_max=call.bytes_max
    )
    set_start(message, call.start)
    return message.SerializeToString()


def bounds(call: Bounds) -> bytes:
    """A BoundsRequest."""
    request = DanubeStream_pb2.BoundsRequest(topic_name=str(call.topic), append_times_ms=call.append_times_ms)
    return request.SerializeToString()


def close_producer(producer_id: int) -> bytes:
    """A CloseProducerRequest."""
    return DanubeStream_pb2.CloseProducerRequest(producer_id=producer_id).SerializeToString()


def close_consumer(consumer_id: int) -> bytes:
    """A CloseConsumerRequest."""
    return DanubeStream_pb2.CloseConsumerRequest(consumer_id=consumer_id).SerializeToString()


# Answers


def publish_opened(answer: PublishOpened) -> bytes:
    """A PublishResponse to the opening."""
    opened = DanubeStream_pb2.PublishOpened(
        producer_id=answer.producer_id,
        window_bytes=answer.window_bytes,
        batch_bytes_max=answer.batch_bytes_max,
        numbering_id=answer.numbering_id,
        batches_max=answer.batches_max,
        epoch=answer.epoch,
    )
    return DanubeStream_pb2.PublishResponse(opened=opened).SerializeToString()


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


def fetched(batches: Sequence[FetchedBatch]) -> bytes:
    """A FetchResponse."""
    parts: list[bytes] = []
    for batch in batches:
        head = _fetched_head(batch)
        parts += (_FETCHED_TAG, varint(len(head) + len(batch.body)), head, batch.body)
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


def topic_bounds(answer: TopicBounds) -> bytes:
    """A BoundsResponse."""
    return DanubeStream_pb2.BoundsResponse(
        topic_id=answer.topic_id,
        start_offset=answer.start_offset,
        end_offset=answer.end_offset,
        offsets=answer.offsets,
    ).SerializeToString()
