"""What observers see of a subscription's dispatch, as values."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ConsumerView:
    """What an observer sees of an attached consumer."""

    consumer_id: int
    window: int
    in_flight: int
    """Messages it has and has not acknowledged."""
    is_paused: bool


@dataclass(slots=True)
class PassedOver:
    """Messages that count as acknowledged though nobody acknowledged them, since the engine began."""

    dropped: int = 0
    """By the poison policy."""
    dead_lettered: int = 0
    skipped: int = 0
    """By an operator."""
