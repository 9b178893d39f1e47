"""What the records of the cluster hold, and how each is written as a value: compact JSON with its format's version.

Fields may be added within a version when they have a default; a record of a newer version is refused, never guessed at.
"""

import json
from dataclasses import dataclass
from enum import Enum
from typing import TypeVar

from danube.metadata import keys
from danube.metadata.store import Entry
from danube.model.errors import MetadataError
from danube.model.subscription import SubscriptionType
from danube.model.topic import DispatchStrategy, TopicName

RECORD_VERSION = 1

E = TypeVar("E", bound=Enum)


@dataclass(frozen=True, slots=True)
class NamespaceRecord:
    """A namespace."""

    name: str


@dataclass(frozen=True, slots=True)
class TopicRecord:
    """A plain topic or one partition."""

    name: TopicName
    topic_id: int
    """Never given out again, not even to a topic of the same name."""
    strategy: DispatchStrategy
    epoch: int
    """Counts owners: whoever opens the topic's log does so under an epoch that no one had before."""
    created_ms: int
    schema_subject: str | None = None


@dataclass(frozen=True, slots=True)
class SubscriptionRecord:
    """A subscription of one topic."""

    topic: TopicName
    name: str
    subscription_id: int
    type: SubscriptionType
    created_ms: int


@dataclass(frozen=True, slots=True)
class ConsumerRecord:
    """A consumer of one subscription, connected or not."""

    topic: TopicName
    subscription: str
    name: str
    consumer_id: int
    key_filters: tuple[str, ...]
    created_ms: int


def encode_namespace() -> bytes:
    """The value of a namespace: its name is in the key."""
    return _encode()


def decode_namespace(entry: Entry) -> NamespaceRecord:
    """The namespace that an entry holds. Raises MetadataError, as all of these do."""
    _Fields(entry)
    return NamespaceRecord(keys.parse_namespace(entry.key))


def encode_topic(record: TopicRecord) -> bytes:
    """The value of a topic."""
    return _encode(
        topic_id=record.topic_id,
        strategy=record.strategy.name,
        epoch=record.epoch,
        created_ms=record.created_ms,
        schema_subject=record.schema_subject,
    )


def decode_topic(entry: Entry) -> TopicRecord:
    """The topic that an entry holds."""
    fields = _Fields(entry)
    return TopicRecord(
        name=keys.parse_topic(entry.key),
        topic_id=fields.number("topic_id"),
        strategy=fields.choice("strategy", DispatchStrategy),
        epoch=fields.number("epoch"),
        created_ms=fields.number("created_ms"),
        schema_subject=fields.text_or_none("schema_subject"),
    )


def encode_subscription(record: SubscriptionRecord) -> bytes:
    """The value of a subscription."""
    return _encode(subscription_id=record.subscription_id, type=record.type.name, created_ms=record.created_ms)


def decode_subscription(entry: Entry) -> SubscriptionRecord:
    """The subscription that an entry holds."""
    fields = _Fields(entry)
    topic, name = keys.parse_subscription(entry.key)
    return SubscriptionRecord(
        topic=topic,
        name=name,
        subscription_id=fields.number("subscription_id"),
        type=fields.choice("type", SubscriptionType),
        created_ms=fields.number("created_ms"),
    )


def encode_consumer(record: ConsumerRecord) -> bytes:
    """The value of a consumer."""
    return _encode(consumer_id=record.consumer_id, key_filters=list(record.key_filters), created_ms=record.created_ms)


def decode_consumer(entry: Entry) -> ConsumerRecord:
    """The consumer that an entry holds."""
    fields = _Fields(entry)
    topic, subscription, name = keys.parse_consumer(entry.key)
    return ConsumerRecord(
        topic=topic,
        subscription=subscription,
        name=name,
        consumer_id=fields.number("consumer_id"),
        key_filters=fields.texts("key_filters"),
        created_ms=fields.number("created_ms"),
    )


def encode_counter(last: int) -> bytes:
    """The value of a counter whose last number is `last`."""
    return _encode(last=last)


def decode_counter(entry: Entry | None) -> int:
    """The last number that a counter gave out; 0 when it is not there yet."""
    return _Fields(entry).number("last") if entry is not None else 0


def encode_partitioned(indexes: frozenset[int]) -> bytes:
    """The value that says which partitions a base topic has."""
    return _encode(indexes=sorted(indexes))


def decode_partitioned(entry: Entry | None) -> frozenset[int]:
    """Which partitions a base topic has; none when there is no entry."""
    return frozenset(_Fields(entry).numbers("indexes")) if entry is not None else frozenset()


def _encode(**fields: object) -> bytes:
    return json.dumps({"version": RECORD_VERSION, **fields}, ensure_ascii=False, separators=(",", ":")).encode()


class _Fields:
    """The fields of a value, each asked for by name and type."""

    def __init__(self, entry: Entry) -> None:
        self._key = entry.key
        try:
            parsed = json.loads(entry.value)
        except ValueError as error:
            raise self._damaged("no JSON") from error
        self._fields: dict[str, object] = parsed if isinstance(parsed, dict) else {}
        version = self.number("version")
        if version > RECORD_VERSION:
            raise MetadataError(
                f"metadata key {self._key} was written by a newer Danube (record version {version}, this one reads up"
                f" to {RECORD_VERSION}): upgrade this broker"
            )

    def number(self, name: str) -> int:
        value = self._fields.get(name)
        if not isinstance(value, int):
            raise self._damaged(f"no number {name!r}")
        return value

    def numbers(self, name: str) -> tuple[int, ...]:
        values = self._fields.get(name)
        if not isinstance(values, list) or not all(isinstance(value, int) for value in values):
            raise self._damaged(f"no numbers {name!r}")
        return tuple(values)

    def text_or_none(self, name: str) -> str | None:
        value = self._fields.get(name)
        if value is not None and not isinstance(value, str):
            raise self._damaged(f"no text {name!r}")
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        values = self._fields.get(name)
        if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
            raise self._damaged(f"no texts {name!r}")
        return tuple(values)

    def choice(self, name: str, choices: type[E]) -> E:
        text = self._fields.get(name)
        if not isinstance(text, str) or text not in choices.__members__:
            raise self._damaged(f"no {choices.__name__} {name!r}")
        return choices[text]

    def _damaged(self, what: str) -> MetadataError:
        return MetadataError(
            f"metadata key {self._key} does not hold what it should ({what}): restore the metadata from a backup"
        )
