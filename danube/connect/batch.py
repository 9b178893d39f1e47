"""Values that sinks and sources handle: records in batches of one partition, and records to be sent. Pure."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Self, TypeVar

from danube.client.message import Message
from danube.connect.failures import RefusedError
from danube.model.untrusted_json import decode_json

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Partition:
    """A plain topic, or one partition, as the cluster knows it."""

    topic: str
    topic_id: int = 0
    """Never used again, not even by a topic of the same name; 0 where the broker does not tell."""

    @property
    def key(self) -> str:
        """Its identity in one word, for the other side to keep a position under."""
        return f"{self.topic_id}:{self.topic}"


class Record(Generic[T]):
    """A received message with its decoded value."""

    __slots__ = ("message", "value")

    def __init__(self, message: Message, value: T) -> None:
        self.message = message
        """As the client has it."""
        self.value = value
        """By the schema of the sink; the payload's bytes without one."""

    @property
    def payload(self) -> bytes:
        """The bytes that were sent."""
        return self.message.payload

    @property
    def offset(self) -> int:
        """Its offset in the partition."""
        return self.message.offset

    @property
    def key(self) -> str:
        """The routing key; empty without one."""
        return self.message.routing_key

    @property
    def attributes(self) -> Mapping[str, str]:
        """Attributes set by the producer."""
        return self.message.attributes

    @property
    def time_ms(self) -> int:
        """Milliseconds since the epoch, by the producer's clock."""
        return self.message.publish_time

    def json(self) -> Any:  # noqa: ANN401 - JSON
        """The payload as JSON. Raises RefusedError for this record where it is none."""
        try:
            return decode_json(self.payload)
        except ValueError as error:
            raise RefusedError(f"the payload is not JSON: {error}", [self.offset]) from None

    def __repr__(self) -> str:
        return f"Record({self.message!r})"


@dataclass(frozen=True, slots=True)
class Batch(Generic[T]):
    """Records of one partition, in order: those from `start` to `end` (not included) that are to be written.

    It may have fewer records than offsets, and none: what was refused is left out, and the end is to be saved all the
    same.
    """

    partition: Partition
    start: int
    end: int
    records: Sequence[Record[T]]

    @property
    def topic(self) -> str:
        """The topic; of a partitioned one, the partition."""
        return self.partition.topic

    @property
    def values(self) -> list[T]:
        """The values of its records."""
        return [record.value for record in self.records]

    def after(self, position: int | None) -> Self:
        """The part that is not yet written where the other side has all below `position`."""
        if position is None or position <= self.start:
            return self
        start = min(position, self.end)
        return replace(self, start=start, records=[each for each in self.records if each.offset >= start])

    def without(self, offsets: Collection[int]) -> Self:
        """The same span with these records left out."""
        return replace(self, records=[record for record in self.records if record.offset not in offsets])

    def halves(self) -> tuple[Self, Self]:
        """Both halves of a batch of two or more records."""
        middle = len(self.records) // 2
        border = self.records[middle].offset
        first = replace(self, end=border, records=self.records[:middle])
        return first, replace(self, start=border, records=self.records[middle:])

    def __len__(self) -> int:
        return len(self.records)


@dataclass(frozen=True, slots=True)
class Out(Generic[T]):
    """A record that a source sends."""

    value: T
    """Bytes, text, a value of the source's schema, or whatever JSON can write."""
    position: Any = None
    """Where the source is after this record, as JSON; the source is asked for what follows it after a restart."""
    key: str | None = None
    """Routing key: one partition for each."""
    attributes: Mapping[str, str] = field(default_factory=dict)
