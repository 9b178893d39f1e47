"""Calls of administrators about one topic's subscriptions, messages and connections, as values."""

from dataclasses import dataclass

from danube.model.calls.stream import FetchStart
from danube.model.policies import SubscriptionName
from danube.model.subscription import SubscriptionType
from danube.model.topic import TopicName


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateSubscription:
    """Create a subscription before a consumer subscribes."""

    name: SubscriptionName
    type: SubscriptionType
    start: FetchStart
    """Which message is its first; ignored on a topic that is not reliable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeekSubscription:
    """Move a subscription: messages from the new position on are unread, those before it acknowledged."""

    name: SubscriptionName
    to: FetchStart


@dataclass(frozen=True, slots=True, kw_only=True)
class SeekPreview:
    """A seek of one subscription as it would be at this moment."""

    topic_id: int
    subscription_id: int
    position: int
    target: int
    """The offset that it would be moved to."""
    unread: int
    """Messages passed over that are not acknowledged."""
    producers: int
    """Producers of the topic."""
    consumers: int
    """Connected consumers of the subscription."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SkipMessages:
    """Acknowledge messages unread: the next ones, or those that block."""

    name: SubscriptionName
    count: int = 0
    """Number of messages, the next ones; 0 means those that block the subscription."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionPosition:
    """Progress of a subscription."""

    position: int
    """Every offset below it is acknowledged."""
    lag: int
    """Messages that are durable and not acknowledged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PeekMessages:
    """Read stored messages without a subscription, which changes nothing."""

    topic: TopicName
    start: FetchStart
    count: int
    """Most messages of the answer; never more than PEEK_MESSAGES_MAX."""
    payload_bytes_max: int
    """Bytes of each payload in the answer; 0 leaves payloads out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PeekedMessage:
    """One stored message. All but offset and append time is what a client wrote, and not to be trusted."""

    offset: int
    append_time_ms: int
    """By the broker's clock."""
    publish_time_ms: int
    """By the producer's."""
    producer_name: str
    routing_key: str | None
    attributes: tuple[tuple[str, str], ...]
    """Sorted; those that fit in PEEK_ATTRIBUTES_BYTES_MAX."""
    payload: bytes
    """Its first bytes."""
    payload_size: int
    """Bytes of the whole."""
    schema_id: int | None = None
    schema_version: int | None = None
    attributes_left_out: int = 0
    """Those that did not fit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PeekedPage:
    """Messages in the order of their offsets."""

    messages: tuple[PeekedMessage, ...]
    start_offset: int
    """The first that can be read."""
    end_offset: int
    """After the last that is durable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPartitions:
    """Give a partitioned topic more partitions, like those it has."""

    base: TopicName
    count: int
    """Partitions to add."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """A producer that is attached, or a consumer with an open stream."""

    topic: TopicName
    client_id: int
    name: str
    subscription: str | None
    """None for a producer."""
    takeovers: int = 0
    """Recent takeovers of this consumer by a client of the same name."""
    held_off: int = 0
    """Recent times that a client which reconnected for it had to wait."""
    rival: str = ""
    """Address of the client that last lost it, or had to wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DisconnectClient:
    """Detach a producer, or end a consumer's stream; a client that runs reconnects."""

    topic: TopicName
    client_id: int
