"""Everything that can happen to one subscription, as values."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Appended:
    """The topic is durable up to `durable_end` (not included)."""

    durable_end: int


@dataclass(frozen=True, slots=True)
class ConsumerAttached:
    """A consumer's stream opened. It gets at most `window` unacknowledged messages."""

    consumer_id: int
    window: int
    quantum: int = 1
    """How many messages a Shared subscription gives it before the next consumer's turn."""


@dataclass(frozen=True, slots=True)
class ConsumerDetached:
    """A consumer's stream ended: what it had unacknowledged goes to others, or to itself later."""

    consumer_id: int


@dataclass(frozen=True, slots=True)
class ConsumerPaused:
    """A consumer's stream has no room: send it nothing until it is resumed."""

    consumer_id: int


@dataclass(frozen=True, slots=True)
class ConsumerResumed:
    """A consumer's stream has room again."""

    consumer_id: int


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """Offsets `[start, end)` are done with. Unknown, late and repeated ones change nothing."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Nacked:
    """The consumer could not use this message: send it again, not before `delay_s`."""

    offset: int
    delay_s: float | None = None
    """At least this long; None leaves it to the redelivery rule."""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class TimerFired:
    """The time that the last SetTimer asked for has come."""


Event = (
    Appended
    | ConsumerAttached
    | ConsumerDetached
    | ConsumerPaused
    | ConsumerResumed
    | Acknowledged
    | Nacked
    | TimerFired
)
