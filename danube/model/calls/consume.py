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
    credit_messages: int | None = None
    """None is any number."""
    reports: bool = False
    """Says what its application has when asked."""


class TakenRange(NamedTuple):
    """Messages `start` to `end` (not included) that the application took so long ago."""

    start: int
    end: int
    age_s: float


@dataclass(frozen=True, slots=True)
class ConsumeReport:
    """Messages that the application of a consumer has; everything else waits for it."""

    held: tuple[TakenRange, ...] = ()
    is_busy: bool = False
    """It has not asked for more since it took some."""
    gave_back: bool = False
    """It dropped what had not been consumed, and the credit before this is void."""
    returned: tuple[OffsetRange, ...] = ()


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
    credit_messages: int = 0
    report: ConsumeReport | None = None
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


@dataclass(frozen=True, slots=True)
class ConsumeAsk:
    """The consumer is to report."""

    give_back: bool = False
    """And to give back what its application has not taken."""


ConsumeEvent = ConsumeAssigned | ConsumeFenced | ConsumeMoved | ConsumeAsk
ConsumeResponse = ConsumeOpened | ConsumeBatches | ConsumeConfirmed | ConsumeEvent
