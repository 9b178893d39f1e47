"""A received message, as applications see it: it reads like the `StreamMessage` of danube-client 0.5.0."""

from collections.abc import Mapping
from typing import NamedTuple

from danube.model.calls.client import ReceivedMessage


class MessageId(NamedTuple):
    """Names one message of one topic."""

    producer_id: int
    topic_name: str
    """Of a partitioned topic, the partition."""
    broker_addr: str
    topic_offset: int
    """0 throughout on a topic that is not reliable."""


class Message:
    """One message. Optional fields that it lacks read as empty or 0; `HasField` tells which it has."""

    __slots__ = ("received",)

    def __init__(self, received: ReceivedMessage) -> None:
        self.received = received
        """The same message as a plain value."""

    @property
    def payload(self) -> bytes:
        """The bytes that were sent."""
        return self.received.payload

    @property
    def msg_id(self) -> MessageId:
        """Its topic and its offset there."""
        received = self.received
        return MessageId(received.producer_id, received.topic, received.broker_addr, received.offset)

    @property
    def attributes(self) -> Mapping[str, str]:
        """Attributes set by the producer."""
        return self.received.attributes

    @property
    def producer_name(self) -> str:
        """The name of its producer."""
        return self.received.producer_name

    @property
    def publish_time(self) -> int:
        """Milliseconds since the epoch, by the producer's clock."""
        return self.received.publish_time_ms

    @property
    def request_id(self) -> int:
        """The producer's count."""
        return self.received.request_id

    @property
    def subscription_name(self) -> str:
        """Always empty, as official brokers leave it."""
        return ""

    @property
    def routing_key(self) -> str:
        """The key it was sent with."""
        return self.received.routing_key or ""

    @property
    def schema_id(self) -> int:
        """The subject it was written with."""
        return self.received.schema_id or 0

    @property
    def schema_version(self) -> int:
        """The version of that subject."""
        return self.received.schema_version or 0

    def HasField(self, field_name: str) -> bool:  # noqa: N802 - the name that protobuf messages have
        """Tell whether an optional field is present: `routing_key`, `schema_id` or `schema_version`."""
        if field_name == "msg_id":
            return True
        if field_name not in {"routing_key", "schema_id", "schema_version"}:
            raise ValueError(f"a message has no optional field {field_name!r}")
        return getattr(self.received, field_name) is not None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Message) and self.received == other.received

    def __hash__(self) -> int:
        return hash((self.received.topic, self.received.offset, self.received.request_id))

    def __repr__(self) -> str:
        received = self.received
        return f"Message(topic={received.topic!r}, offset={received.offset}, payload={received.payload[:64]!r})"
