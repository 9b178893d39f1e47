"""Instructions of the dispatch engine, as values."""

from dataclasses import dataclass

from danube.model.subscription import Cursor


@dataclass(frozen=True, slots=True)
class Send:
    """Send offsets `[start, end)` to this consumer; `attempt` counts from 1."""

    consumer_id: int
    start: int
    end: int
    attempt: int = 1


@dataclass(frozen=True, slots=True)
class SaveCursor:
    """The subscription stands here now; the driver may skip all but the last of these."""

    cursor: Cursor


@dataclass(frozen=True, slots=True)
class SetTimer:
    """Wake the engine at this monotonic time; replaces the timer asked for before. None calls it off."""

    at_s: float | None


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """Copy this exhausted message durably to the dead letter topic, then report the outcome.

    The answer is DeadLettered or DeadLetterFailed, once and at any time. Until then the message stays open: it is not
    sent, and the cursor does not pass it. At most DEAD_LETTERS_AT_ONCE_MAX of a subscription are under way.
    """

    offset: int
    attempt: int
    """How often it was sent."""
    reason: str
    """Why it failed the last time: the consumer's words (untrusted, at most FAILURE_REASON_BYTES_MAX), or a timeout."""
    topic: str
    """The dead letter topic of the policy."""


@dataclass(frozen=True, slots=True)
class ReadKeys:
    """Report the keys of `[start, end)`, or of the first of them, by KeysRead; replaces what was asked for before."""

    start: int
    end: int


Instruction = Send | SaveCursor | SetTimer | DeadLetter | ReadKeys


def add_send(out: list[Instruction], send: Send) -> None:
    """Add a send, joined to the one before if they go on from each other."""
    last = out[-1] if out else None
    if isinstance(last, Send) and (last.consumer_id, last.end, last.attempt) == (
        send.consumer_id,
        send.start,
        send.attempt,
    ):
        out[-1] = Send(send.consumer_id, last.start, send.end, send.attempt)
    else:
        out.append(send)
