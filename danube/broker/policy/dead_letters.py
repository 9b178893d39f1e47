"""Dead letters: copies of exhausted messages in another topic.

A copy is durable before the original counts as acknowledged. A crash in between leads to another copy later, so a dead
letter may exist twice, and none is missing.
"""

import asyncio
import logging
from collections.abc import Callable
from functools import partial

from danube.broker.clients.remote_publishes import RemotePublishes
from danube.broker.dispatch.events import DeadLetter, DeadLettered, DeadLetterFailed, Event
from danube.broker.topics.local_topics import Topics
from danube.broker.topics.topic import ReliableTopic
from danube.metadata.records.catalog import TopicRecord
from danube.model.calls.client import OutgoingMessage, ReceivedMessage
from danube.model.errors import DanubeError, PreconditionFailedError, TopicNotFoundError
from danube.model.limits.broker import DEAD_LETTER_SOURCES_MAX, DEAD_LETTERS_IN_FLIGHT_MAX, READ_BYTES_MAX
from danube.model.topic import DispatchStrategy, TopicName
from danube.runtime.tasks import TaskScope, outcome_of
from danube.storage.batches.batch import RecordKind, RecordView
from danube.storage.log.topic_log import TopicLog
from danube.wire.decode import received_message
from danube.wire.encode import record_of_payload, send_message

_log = logging.getLogger(__name__)

OnOutcome = Callable[[Event], None]
"""Gets the outcome of a dead letter, once."""


class DeadLetters:
    """Publishes the dead letters of this broker."""

    def __init__(self, topics: Topics, tasks: TaskScope, remote: RemotePublishes, *, auto_create_topics: bool) -> None:
        self._topics = topics
        self._remote = remote
        self._tasks = tasks
        self._auto_create = auto_create_topics
        self._at_once = asyncio.Semaphore(DEAD_LETTERS_IN_FLIGHT_MAX)
        self._failing: set[tuple[str, str]] = set()
        """Topics and subscriptions whose last dead letter failed: each is logged when it begins and when it ends."""

    def send(self, topic: ReliableTopic, subscription: str, on_outcome: OnOutcome, wanted: DeadLetter) -> None:
        """Publish the copy of one message of a subscription of `topic`; report the outcome, unless the broker ends."""
        self._tasks.spawn(self._send(topic, subscription, wanted, on_outcome), f"dead letter {wanted.offset}")

    async def _send(self, topic: ReliableTopic, subscription: str, wanted: DeadLetter, on_outcome: OnOutcome) -> None:
        source = (topic.name, subscription)
        async with self._at_once:
            try:
                message = await _read(topic.log, wanted.offset)
                copy = partial(encode_copy, message, topic.name, subscription, wanted)
                await self._publish(TopicName.parse(wanted.topic), copy)
            except DanubeError as error:
                if source not in self._failing:
                    if len(self._failing) >= DEAD_LETTER_SOURCES_MAX:
                        self._failing.clear()
                    self._failing.add(source)
                    _log.error(
                        "message %d of %s, subscription %r, cannot go to dead letter topic %s and is kept: %s",
                        *(wanted.offset, topic.name, subscription, wanted.topic, error),
                    )
                on_outcome(DeadLetterFailed(wanted.offset))
                return
        if source in self._failing:
            self._failing.discard(source)
            _log.warning("messages of %s, subscription %r, go to dead letter topic %s again", *source, wanted.topic)
        on_outcome(DeadLettered(wanted.offset))

    async def _publish(self, name: TopicName, copy: Callable[[int | None], bytes]) -> None:
        """Publish the copy, to another broker where that serves the topic."""
        topic, record = self._topics.find(str(name)), self._topics.find_remote(name)
        if topic is None and record is not None:
            _check_reliable(record)
            await self._remote.publish(record, copy)
            return
        if topic is None:
            if not self._auto_create:
                raise TopicNotFoundError(f"there is no topic {name} and this broker does not create topics: create it")
            topic = await self._topics.find_or_create(name, DispatchStrategy.RELIABLE, is_here=True)
        _check_reliable(topic.record)
        await outcome_of(partial(topic.publish, copy(None)))


def _check_reliable(record: TopicRecord) -> None:
    if record.strategy is not DispatchStrategy.RELIABLE:
        raise PreconditionFailedError(f"{record.name} is not reliable and would not keep it: name another topic")


def encode_copy(
    message: ReceivedMessage, topic: str, subscription: str, wanted: DeadLetter, producer_id: int | None = None
) -> bytes:
    """The copy, as an encoded StreamMessage: payload, key and schema unchanged, its origin in the attributes.

    `producer_id` publishes it; the original's where none is given.
    """
    origin = {
        "x-original-topic": topic,
        "x-original-subscription": subscription,
        "x-original-topic-offset": str(wanted.offset),
        "x-original-producer-id": str(message.producer_id),
        "x-original-broker-addr": message.broker_addr,
        "x-poison-policy": "dead_letter",
        "x-delivery-attempt": str(wanted.attempt),
    }
    if wanted.reason:
        origin["x-failure-reason"] = wanted.reason
    return send_message(
        OutgoingMessage(
            request_id=message.request_id,
            producer_id=message.producer_id if producer_id is None else producer_id,
            topic=wanted.topic,
            broker_addr=message.broker_addr,
            payload=message.payload,
            publish_time_ms=message.publish_time_ms,
            producer_name=message.producer_name,
            attributes={**message.attributes, **origin},
            schema_id=message.schema_id,
            schema_version=message.schema_version,
            routing_key=message.routing_key,
        )
    )


async def _read(log: TopicLog, offset: int) -> ReceivedMessage:
    batch = (log.read_hot(offset, READ_BYTES_MAX) or await log.read(offset, READ_BYTES_MAX))[0]
    view = RecordView(batch.body)
    index = offset - batch.base_offset
    (record,) = view.slice(index, index + 1)
    if view.header.kind is RecordKind.PAYLOADS:
        record = record_of_payload(view.shared, record)
    return received_message(record)
