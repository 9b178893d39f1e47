"""Dead letters of connectors: copies of refused records with their origin, stored before anything is acknowledged."""

from collections.abc import Mapping

from danube.client import DanubeClient, DispatchStrategy, Producer
from danube.client.message import Message
from danube.client.publish.pipelines import OutgoingRecord
from danube.model.limits.faces import CONNECT_REASON_CHARS_MAX

SUBSCRIPTION = "x-original-subscription"
_SCHEMA = "x-original-schema"
_ORIGIN = {"x-original-topic", SUBSCRIPTION, "x-original-topic-offset", _SCHEMA}
"""Attributes that stay as they are when a dead letter is refused again."""


class DeadLetterTopic:
    """The topic of one task's refused records; it is created when the first one goes there."""

    def __init__(self, client: DanubeClient, topic: str, producer_name: str, subscription: str) -> None:
        self.topic = topic
        self._client = client
        self._name = producer_name
        self._subscription = subscription
        self._producer: Producer | None = None

    async def store(self, message: Message, reason: str, attempts: int, time_ms: int) -> None:
        """Store a copy; it is durable on return. Raises DanubeError when it cannot be."""
        producer = await self._attached()
        attributes = origin(message, self._subscription, reason, attempts, time_ms)
        key = message.routing_key if message.HasField("routing_key") else None
        await producer.send_records([OutgoingRecord(message.payload, key, attributes)])

    async def close(self) -> None:
        """Detach from the topic."""
        if self._producer is not None:
            await self._producer.close()

    async def _attached(self) -> Producer:
        if self._producer is None:
            builder = self._client.new_producer().with_topic(self.topic).with_name(self._name)
            producer = builder.with_dispatch_strategy(DispatchStrategy.RELIABLE).build()
            await producer.create()
            self._producer = producer
        return self._producer


def origin(message: Message, subscription: str, reason: str, attempts: int, time_ms: int) -> Mapping[str, str]:
    """The attributes of a copy: its own, and those that the broker's own dead letters have."""
    told = {
        "x-original-topic": message.topic,
        SUBSCRIPTION: subscription,
        "x-original-topic-offset": str(message.offset),
        "x-poison-policy": "dead_letter",
        "x-delivery-attempt": str(attempts),
        "x-failure-reason": reason[:CONNECT_REASON_CHARS_MAX],
        "x-failure-time-ms": str(time_ms),
    }
    if message.schema_id:
        told[_SCHEMA] = f"{message.schema_id}:{message.schema_version}"
    before = {key: value for key, value in message.attributes.items() if key in _ORIGIN}
    return {**message.attributes, **told, **before}


def as_sent(letter: Message) -> Message:
    """A dead letter with the schema that its message had, as a sink's decoder wants it."""
    schema_id, _, version = letter.attributes.get(_SCHEMA, "").partition(":")
    if not (schema_id.isdecimal() and version.isdecimal()):
        return letter
    return letter.decoded_by(letter[0]._replace(schema_id=int(schema_id), schema_version=int(version)))
