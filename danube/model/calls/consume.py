"""Streaming consumption, as values: one class for each message of `danube.stream`'s Consume."""

from dataclasses import dataclass
from typing import NamedTuple

from danube.model.calls.client import Subscribe
from danube.model.calls.stream import FetchedBatch, FetchFrom, FetchStart
from danube.model.errors import DanubeError
from danube.model.ranges import OffsetRange


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumeOpen:
    """Subscribe and receive batches."""

    subscribe: Subscribe
    start: FetchStart = FetchFrom.LATEST
    """Position of a subscription that this call creates."""
    credit_bytes: int


class NackedRange(NamedTuple):
    """Messages `start` to `end` (not included) that could not be used."""

    start: int
    end: int
    delay_s: float | None = None
    """Not sent again before; None leaves it to the subscription's policy."""
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumeUpdate:
    """Credit and answers of a consumer."""

    credit_bytes: int = 0
    """Beside what was given before."""
    generation: int = 0
    """Of the messages that are answered."""
    acknowledged_below: int | None = None
    acknowledged: tuple[OffsetRange, ...] = ()
    nacked: tuple[NackedRange, ...] = ()
    sequence: int = 0
    """Not 0: to be confirmed."""
    answers_seen: int = 0
    """Answers with batches that arrived on the stream: what is answered is in these, or of an earlier stream."""
    close: bool = False
    """Nothing follows: the consumer leaves in good order."""


@dataclass(frozen=True, slots=True)
class ConsumeOpened:
    """The consumer is subscribed."""

    consumer_id: int


@dataclass(frozen=True, slots=True)
class ConsumeBatches:
    """Batches with messages for a consumer."""

    generation: int
    batches: tuple[FetchedBatch, ...]


@dataclass(frozen=True, slots=True)
class ConsumeConfirmed:
    """All updates up to `sequence` are applied."""

    sequence: int


@dataclass(frozen=True, slots=True)
class ConsumeAssigned:
    """The consumer gets messages now."""


@dataclass(frozen=True, slots=True)
class ConsumeFenced:
    """Another client has the consumer's place."""

    error: DanubeError


@dataclass(frozen=True, slots=True)
class ConsumeMoved:
    """The topic is served elsewhere."""

    connect_url: str = ""
    """Empty: look the topic up."""
    broker_url: str = ""
    proxy: bool = False


ConsumeEvent = ConsumeAssigned | ConsumeFenced | ConsumeMoved
ConsumeResponse = ConsumeOpened | ConsumeBatches | ConsumeConfirmed | ConsumeEvent
