"""Peeking at stored messages: a few, truncated; nothing changes."""

import logging
from collections.abc import Iterator

from danube.broker.control.topics import served_topic
from danube.broker.topics.local_topics import Topics
from danube.broker.topics.subscription_creation import offset_of
from danube.broker.topics.topic import ReliableTopic
from danube.model.calls.positions import PeekedMessage, PeekedPage, PeekMessages
from danube.model.errors import PreconditionFailedError, StorageError, StorageUnavailableError
from danube.model.limits.broker import PEEK_ATTRIBUTES_BYTES_MAX, PEEK_BYTES_MAX, READ_BYTES_MAX
from danube.storage.batches.batch import RecordKind, RecordView
from danube.storage.batches.stored_batch import StoredBatch
from danube.storage.log.topic_log import TopicLog
from danube.wire.decode import received_message
from danube.wire.encode import record_of_payload

_log = logging.getLogger(__name__)


class Peeking:
    """Reads stored messages of this broker's topics without a subscription."""

    def __init__(self, topics: Topics) -> None:
        self._topics = topics

    async def peek(self, wanted: PeekMessages) -> PeekedPage:
        """Messages from an offset on, in order: `count` at most, and about PEEK_BYTES_MAX bytes.

        Raises TopicNotFoundError, PreconditionFailedError on a non-reliable topic, InvalidRequestError for an offset
        that does not exist, StorageUnavailableError.
        """
        topic = served_topic(self._topics, wanted.topic)
        if not isinstance(topic, ReliableTopic):
            raise PreconditionFailedError(f"{wanted.topic} is not reliable: it keeps no messages")
        topic.check_readable()
        log, end = topic.log, topic.log.durable_end
        at = await offset_of(wanted.start, log)
        found: list[PeekedMessage] = []
        size = 0
        while at < end and len(found) < wanted.count and size < PEEK_BYTES_MAX:
            for batch in await _read(log, at):
                for message in _messages(batch, at, wanted.count - len(found), wanted.payload_bytes_max):
                    if size >= PEEK_BYTES_MAX:
                        break
                    found.append(message)
                    size += len(message.payload) + PEEK_ATTRIBUTES_BYTES_MAX
                    at = message.offset + 1
        return PeekedPage(messages=tuple(found), start_offset=log.start_offset, end_offset=end)


async def _read(log: TopicLog, offset: int) -> list[StoredBatch]:
    try:
        return await log.read(offset, READ_BYTES_MAX)
    except StorageError as error:
        _log.error("cannot read offset %d of topic id %d: %s", offset, log.topic_id, error)
        raise StorageUnavailableError(f"offset {offset} cannot be read; the broker's log says why") from error


def _messages(batch: StoredBatch, start: int, count: int, payload_bytes_max: int) -> Iterator[PeekedMessage]:
    """At most `count` messages of the batch, from offset `start` on."""
    view = RecordView(batch.body)
    first = max(0, start - batch.base_offset)
    records = view.slice(first, min(batch.count, first + count))
    for offset, record in enumerate(records, batch.base_offset + first):
        whole = record_of_payload(view.shared, record) if view.header.kind is RecordKind.PAYLOADS else record
        yield _peeked(whole, offset, batch.append_time_ms, payload_bytes_max)


def _peeked(record: bytes, offset: int, append_time_ms: int, payload_bytes_max: int) -> PeekedMessage:
    message = received_message(record)
    shown = tuple(_fitting(sorted(message.attributes.items())))
    return PeekedMessage(
        offset=offset,
        append_time_ms=append_time_ms,
        publish_time_ms=message.publish_time_ms,
        producer_name=message.producer_name,
        routing_key=message.routing_key,
        attributes=shown,
        attributes_left_out=len(message.attributes) - len(shown),
        payload=message.payload[:payload_bytes_max],
        payload_size=len(message.payload),
        schema_id=message.schema_id,
        schema_version=message.schema_version,
    )


def _fitting(attributes: list[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """The attributes that fit; a long one does not keep those behind it from being shown."""
    left = PEEK_ATTRIBUTES_BYTES_MAX
    for name, value in attributes:
        size = len(name.encode()) + len(value.encode())
        if size <= left:
            left -= size
            yield name, value
