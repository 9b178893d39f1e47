"""Requests and answers of the client port, as values.

Names in them are valid: decoding checks them (`TopicName`, `check_member_name`). The classes that exist once per
message are named tuples, which cost a third of a frozen dataclass to make.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

from danube.model.subscription import SubscriptionType
from danube.model.topic import DispatchStrategy, TopicName

NO_ATTRIBUTES: Mapping[str, str] = MappingProxyType({})


# Producers


class AccessMode(IntEnum):
    """Access that a producer of single messages asks for; it shares its topic in any case.

    Exclusive access takes a stream of batches, see `stream.ProducerAccess`.
    """

    SHARED = 0
    EXCLUSIVE = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaReference:
    """The schema that a producer writes with: the latest version of a subject, unless one of the others is set."""

    subject: str
    pinned_version: int | None = None
    """Exactly this version."""
    min_version: int | None = None
    """The latest, which must be this one or newer. Ignored when a version is pinned."""


FIRST_REQUEST_ID = 1
"""Request id of the CreateProducer of an application's new producer (the Rust client's has 0).

Every client counts a producer's requests. With a larger number its producer attaches again by itself.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateProducer:
    """Attach a producer to a topic; the same name gets the same id again."""

    request_id: int
    topic: TopicName
    producer_name: str
    strategy: DispatchStrategy
    access_mode: AccessMode = AccessMode.SHARED
    schema: SchemaReference | None = None

    @property
    def base(self) -> TopicName | None:
        """The partitioned topic whose partition a new topic of this name is to be.

        Every client names its producer of partition 3 `NAME-3`; with one partition alone, some name it as it is.
        """
        index = self.topic.partition_index
        is_partition = not index or self.producer_name.endswith(f"-{index}")
        return self.topic.base(is_plain=not is_partition)

    @property
    def schema_subject(self) -> str | None:
        """The subject of its schema, or None without a schema."""
        return self.schema.subject if self.schema else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerCreated:
    """The answer to CreateProducer."""

    request_id: int
    producer_id: int
    """From 1 to 2**63 - 1."""
    producer_name: str


class SendMessage(NamedTuple):
    """The parts of a sent message that a broker reads; it stores the request's bytes."""

    request_id: int
    producer_id: int
    topic: str
    """As sent: to be compared with the topic of the producer, which was checked when that was created."""
    producer_name: str
    payload_size: int
    """Bytes."""
    routing_key: str | None
    """None means that the producer's name is the key; an empty key is a key."""
    schema_id: int | None
    schema_version: int | None

    @property
    def key(self) -> str:
        """Key on Key-Shared subscriptions."""
        return self.producer_name if self.routing_key is None else self.routing_key


class OutgoingMessage(NamedTuple):
    """A message as a producer sends it."""

    request_id: int
    producer_id: int
    topic: str
    broker_addr: str
    """The broker's URL as the producer knows it."""
    payload: bytes
    publish_time_ms: int
    """By the producer's clock, since the epoch."""
    producer_name: str
    attributes: Mapping[str, str] = NO_ATTRIBUTES
    schema_id: int | None = None
    schema_version: int | None = None
    routing_key: str | None = None


class Decoder(Protocol):
    """Decodes payloads of received messages."""

    def decode(self, message: "ReceivedMessage", payload: bytes) -> Any:  # noqa: ANN401 - as the schema describes
        """The value of a payload. Raises DanubeError."""


class ReceivedMessage(NamedTuple):
    """A message as a consumer gets it."""

    request_id: int
    """Of the producer."""
    producer_id: int
    topic: str
    """The topic subscribed to: of a partitioned one, the partition."""
    broker_addr: str
    """The broker's URL as the producer knew it."""
    offset: int
    """0 throughout on a topic that is not reliable."""
    payload: bytes
    publish_time_ms: int
    """By the producer's clock, since the epoch."""
    producer_name: str
    attributes: Mapping[str, str] = NO_ATTRIBUTES
    schema_id: int | None = None
    schema_version: int | None = None
    routing_key: str | None = None
    decoder: Decoder | None = None
    """Of the consumer, where that has a schema."""


# Consumers


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscribe:
    """Join a subscription, which is created if need be; the same consumer name gets the same id again."""

    request_id: int
    topic: TopicName
    consumer_name: str
    subscription: str
    type: SubscriptionType
    key_filters: tuple[str, ...] = ()
    """Patterns with `*` and `?`; of Key-Shared subscriptions only. None given means every key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscribed:
    """The answer to Subscribe."""

    request_id: int
    consumer_id: int
    """From 1 to 2**63 - 1."""
    consumer_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Receive:
    """Open the stream of a consumer's messages."""

    request_id: int
    consumer_id: int


class Acknowledge(NamedTuple):
    """One message is done with. Official clients name it by its offset and do not say which consumer had it."""

    request_id: int
    topic: TopicName
    subscription: str
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NegativeAcknowledge:
    """One message could not be used: send it again."""

    request_id: int
    topic: TopicName
    subscription: str
    offset: int
    delay_s: float | None = None
    """Not before this long, to the millisecond; None leaves it to the subscription's rule."""
    reason: str | None = None


# Discovery and health


FOLLOWS_MOVES_KEY = "x-danube-follows-moves"
"""Metadata of a stream whose client looks its topic up once the stream fails, so that no health check is waited for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookup:
    """Ask for a topic's broker, or for a topic's partitions (the two calls share their request).

    The topic may be the base name of a partitioned one.
    """

    request_id: int
    topic: TopicName


class LookupKind(IntEnum):
    """Meaning of a LookupAnswer; official clients treat the first two alike."""

    REDIRECT = 0
    """Another broker serves the topic."""
    CONNECT = 1
    """The broker that answers serves it."""
    FAILED = 2
    """Never sent by a broker of today, which fails the call instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupAnswer:
    """The broker that serves a topic."""

    request_id: int
    kind: LookupKind
    connect_url: str
    """URL to dial, `http://host:port` or `https://host:port`: of a proxy if there is one."""
    broker_url: str
    """URL of the broker itself, in the same form; the value of `x-danube-broker-url`."""
    proxy: bool
    """Calls to `connect_url` must carry `x-danube-broker-url`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionsAnswer:
    """The topics behind a name: itself, or its partitions, or nothing."""

    request_id: int
    partitions: tuple[TopicName, ...]


class ClientKind(IntEnum):
    """Kind of client in a HealthCheck."""

    PRODUCER = 0
    CONSUMER = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthCheck:
    """Is this producer or consumer still attached here?"""

    request_id: int
    client: ClientKind
    id: int
    """Of the producer or consumer."""


class HealthStatus(IntEnum):
    """The answer to HealthCheck."""

    OK = 0
    CLOSE = 1
    """Look the topic up and attach again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Authenticate:
    """Exchange an API key for a token; only the Java client asks."""

    api_key: str = field(repr=False)
