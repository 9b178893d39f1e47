"""Calls that send and read whole batches, as values: one class per message of `danube.stream`.

Bodies are bytes in the format of `danube/storage/batches/batch.py`.
"""

from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import NamedTuple

from danube.model.calls.client import SchemaReference
from danube.model.errors import DanubeError
from danube.model.topic import DispatchStrategy, TopicName

# Publish


class ProducerAccess(IntEnum):
    """Other producers that a producer allows on its topic."""

    SHARED = 0
    """All."""
    EXCLUSIVE = 1
    """None; it is refused while another exclusive producer has the topic, or streams of batches to it are open."""
    EXCLUSIVE_TAKE_OVER = 2
    """None; the producer that has the topic is fenced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishOpen:
    """Attach a producer that will send batches."""

    topic: TopicName
    producer_name: str
    strategy: DispatchStrategy
    schema: SchemaReference | None = None
    deduplication_key: int = field(default=0, repr=False)
    """Not 0: repeated batches are recognised. Random for each producer state, and kept secret."""
    access: ProducerAccess = ProducerAccess.SHARED
    epoch: int = 0
    """Of an exclusive producer that reconnects: the epoch that it got."""


class PublishBatch(NamedTuple):
    """One batch on its way to the broker."""

    sequence: int
    """One more than that of the batch before it on the stream."""
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishOpened:
    """The answer to PublishOpen."""

    producer_id: int
    window_bytes: int
    """Of bodies that may be unacknowledged."""
    batch_bytes_max: int
    """Of one body."""
    numbering_id: int = 0
    """With de-duplication: the producer id in the header of each batch."""
    batches_max: int = 0
    """With de-duplication: how many batches may be unacknowledged."""
    epoch: int = 0
    """Of an exclusive producer: what it reconnects with."""
    takes_messages: bool = False
    """True if batches of whole messages are taken too."""
    codecs: tuple[int, ...] = ()
    """Of bodies that are taken, beside none."""


@dataclass(frozen=True, slots=True)
class PublishAcknowledged:
    """Every batch up to `sequence` is stored."""

    sequence: int
    base_offsets: tuple[int, ...]
    """The first offset of each batch that this acknowledges; the last one's is `sequence`."""


@dataclass(frozen=True, slots=True)
class PublishRefused:
    """This batch is not stored, nor is any after it; the stream is over."""

    sequence: int
    error: DanubeError


# Fetch


class FetchFrom(Enum):
    """Start of a read that is neither offset nor time."""

    EARLIEST = "earliest"
    """The first record."""
    LATEST = "latest"
    """After the last durable record."""


@dataclass(frozen=True, slots=True)
class FetchTime:
    """Start of a read: the first batch that was appended at this time or later."""

    append_time_ms: int
    """By the broker's clock."""


FetchStart = int | FetchTime | FetchFrom
"""Start of a read: an offset, or the way to find one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetch:
    """Read stored batches of one topic."""

    topic: TopicName
    start: FetchStart = FetchFrom.EARLIEST
    end: int | None = None
    """Not included. None is the end of what is durable when the call arrives, or with `follow` no end."""
    follow: bool = False
    """Also send what is appended later."""
    bytes_max: int = 0
    """Of bodies in one answer; 0 leaves it to the broker."""


@dataclass(frozen=True, slots=True)
class FetchedBatch:
    """One stored batch, and which of its records were asked for."""

    base_offset: int
    count: int
    append_time_ms: int
    body: bytes
    first: int
    """The first record asked for, counted from the batch's own first."""
    end: int
    """The record after the last one asked for."""


# Bounds


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Ask for the offsets that a topic has."""

    topic: TopicName
    append_times_ms: tuple[int, ...] = ()
    """By the broker's clock; BOUNDS_TIMES_MAX at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicBounds:
    """The answer to Bounds: the durable offsets at this moment."""

    topic_id: int
    """Never used again, not even by a topic of the same name."""
    start_offset: int
    """The first that can be read."""
    end_offset: int
    """After the last durable record."""
    offsets: tuple[int, ...] = ()
    """For each time, the first offset of the first batch appended then or later; `end_offset` when there is none."""
