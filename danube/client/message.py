"""A received message, as applications see it: it reads like the `StreamMessage` of danube-client 0.5.0."""

from collections.abc import Mapping, Sequence
from itertools import count, repeat
from operator import itemgetter
from typing import Any, NamedTuple, Self

from danube.model.calls.client import ReceivedMessage
from danube.model.errors import UnrecoverableError


class MessageId(NamedTuple):
    """Names one message of one topic."""

    producer_id: int
    topic_name: str
    """Of a partitioned topic, the partition."""
    broker_addr: str
    topic_offset: int
    """0 throughout on a topic that is not reliable."""


class Message(tuple[ReceivedMessage, int, bytes]):
    """One message. Optional fields that it lacks read as empty or 0; `HasField` tells which it has.

    A tuple underneath, because those of a batch are made by the thousand: what they share, offset, payload.
    """

    __slots__ = ()

    def __new__(cls, received: ReceivedMessage) -> Self:
        return tuple.__new__(cls, (received, received.offset, received.payload))

    @classmethod
    def of_batch(cls, shared: ReceivedMessage, first_offset: int, payloads: Sequence[bytes]) -> "list[Message]":
        """The messages of a batch of payloads."""
        fields = zip(repeat(shared), count(first_offset), payloads, strict=False)
        return list(map(tuple.__new__, repeat(cls), fields))

    payload: bytes = property(itemgetter(2), doc="The bytes that were sent.")  # type: ignore[assignment]
    offset: int = property(itemgetter(1), doc="Its offset in its topic.")  # type: ignore[assignment]

    @property
    def value(self) -> Any:  # noqa: ANN401 - whatever the schema describes
        """The payload, decoded by the schema of the consumer. Raises PayloadInvalidError for one that does not follow
        it, DanubeError where its schema could not be read, and UnrecoverableError without a schema.
        """
        decoder = self[0].decoder
        if decoder is None:
            raise UnrecoverableError("the consumer has no schema: build it with_schema(), or read the payload")
        return decoder.decode(self[0], self[2])

    def decoded_by(self, shared: ReceivedMessage) -> Self:
        """The same message with `shared` for what it shares: with a decoder."""
        return tuple.__new__(type(self), (shared, self[1], self[2]))

    @property
    def topic(self) -> str:
        """Its topic; of a partitioned one, the partition."""
        return self[0].topic

    @property
    def received(self) -> ReceivedMessage:
        """The same message as a plain value."""
        shared, offset, payload = self
        if shared.payload is payload and shared.offset == offset:
            return shared
        return shared._replace(offset=offset, payload=payload)

    @property
    def msg_id(self) -> MessageId:
        """Its topic and its offset there."""
        shared = self[0]
        return MessageId(shared.producer_id, shared.topic, shared.broker_addr, self[1])

    @property
    def attributes(self) -> Mapping[str, str]:
        """Attributes set by the producer."""
        return self[0].attributes

    @property
    def producer_name(self) -> str:
        """The name of its producer."""
        return self[0].producer_name

    @property
    def publish_time(self) -> int:
        """Milliseconds since the epoch, by the producer's clock."""
        return self[0].publish_time_ms

    @property
    def request_id(self) -> int:
        """The producer's count."""
        return self[0].request_id

    @property
    def subscription_name(self) -> str:
        """Always empty, as official brokers leave it."""
        return ""

    @property
    def routing_key(self) -> str:
        """The key it was sent with."""
        return self[0].routing_key or ""

    @property
    def schema_id(self) -> int:
        """The subject it was written with."""
        return self[0].schema_id or 0

    @property
    def schema_version(self) -> int:
        """The version of that subject."""
        return self[0].schema_version or 0

    def HasField(self, field_name: str) -> bool:  # noqa: N802 - the name that protobuf messages have
        """Tell whether an optional field is present: `routing_key`, `schema_id` or `schema_version`."""
        if field_name == "msg_id":
            return True
        if field_name not in {"routing_key", "schema_id", "schema_version"}:
            raise ValueError(f"a message has no optional field {field_name!r}")
        return getattr(self[0], field_name) is not None

    def __reduce__(self) -> tuple[type[Self], tuple[ReceivedMessage]]:
        """Pickled, for another process: without the decoder, so `value` is not there."""
        return type(self), (self._detached()._replace(decoder=None),)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return type(self)(self._detached())

    def _detached(self) -> ReceivedMessage:
        """Nothing of it is shared with another message."""
        return self.received._replace(attributes=dict(self.attributes))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Message) and self.received == other.received

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((self[0].topic, self[1], self[0].request_id))

    def __repr__(self) -> str:
        return f"Message(topic={self.topic!r}, offset={self.offset}, payload={self.payload[:64]!r})"
