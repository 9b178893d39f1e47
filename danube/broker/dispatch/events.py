"""Events of one subscription, and the instructions of its dispatch engine, as values."""

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from danube.broker.dispatch.redelivery import RedeliveryPolicy
from danube.model.calls.consume import ConsumeReport
from danube.model.limits.stream import CONSUME_MESSAGES_MAX
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


@dataclass(frozen=True, slots=True)
class AskReport:
    """Ask this consumer for Reported: messages that it was sent are overdue, unless they wait for its application."""

    consumer_id: int
    give_back: bool
    """True if another consumer has room for what waits there."""


@dataclass(frozen=True, slots=True)
class EndSilent:
    """This consumer did not report in time: it is lost."""

    consumer_id: int


Instruction = Send | SaveCursor | SetTimer | DeadLetter | ReadKeys | AskReport | EndSilent


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
    filters: tuple[str, ...] = ()
    """Patterns of the keys that it takes, in a Key-Shared subscription; none means every key."""
    by_batch: bool = False
    """True if it is sent ranges, one at a time: ConsumerResumed says that the last one was written. Keys go as ever."""
    is_paused: bool = False
    """True if it gets nothing before ConsumerResumed."""
    turn_max: int = CONSUME_MESSAGES_MAX
    """The most messages of the next range, by batch in a Shared subscription."""
    reports: bool = False
    """True if it answers AskReport; else a message is overdue when nothing sent before it was answered for so long."""


@dataclass(frozen=True, slots=True)
class ConsumerDetached:
    """A consumer's stream ended: what it had unacknowledged goes to others, or to itself later."""

    consumer_id: int
    is_lost: bool = False
    """True if it was not ended in good order: the consumer may have died of what it had longest."""
    unsent: tuple[Send, ...] = ()
    """What was never written to the stream of one that is lost."""


@dataclass(frozen=True, slots=True)
class ConsumerPaused:
    """A consumer's stream has no room: send it nothing until it is resumed."""

    consumer_id: int


@dataclass(frozen=True, slots=True)
class ConsumerResumed:
    """A consumer's stream has room again."""

    consumer_id: int
    turn_max: int = CONSUME_MESSAGES_MAX
    """As in ConsumerAttached."""


@dataclass(frozen=True, slots=True)
class Reported:
    """The answer to AskReport: what the application has. All else that was sent waits for it, and has more time."""

    consumer_id: int
    report: ConsumeReport


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """Offsets `[start, end)` are done with, as far as they were sent; unknown, late and repeated ones do nothing."""

    start: int
    end: int
    generation: int | None = None
    """The engine's when they were sent, where that is known: after a seek an older one does not count."""


@dataclass(frozen=True, slots=True)
class Nacked:
    """The consumer could not use a message, or those up to `end`: send them again, not before `delay_s`."""

    offset: int
    delay_s: float | None = None
    """At least this long; None leaves it to the redelivery rule."""
    reason: str = ""
    """The consumer's words, untrusted; kept for a dead letter."""
    generation: int | None = None
    """As in Acknowledged."""
    end: int | None = None
    """Not included; None means the one message."""


@dataclass(frozen=True, slots=True)
class TimerFired:
    """The time that the last SetTimer asked for has come."""

    taken_back: tuple[Send, ...] = ()
    """What was never written to its consumer's stream and, from now on, will not be: it is ready again, not failed."""


@dataclass(frozen=True, slots=True)
class PolicyChanged:
    """A new redelivery policy, by which blocked messages are judged again."""

    policy: RedeliveryPolicy


@dataclass(frozen=True, slots=True)
class WindowChanged:
    """Every consumer gets at most `window` unacknowledged messages from now on; what it has, it keeps."""

    window: int


@dataclass(frozen=True, slots=True)
class SkipBlocked:
    """An operator gives a blocked message up, or all of them: it counts as acknowledged."""

    offset: int | None = None
    """None means all; an offset that is not blocked changes nothing."""


@dataclass(frozen=True, slots=True)
class RetryBlocked:
    """An operator has a blocked message, or all of them, sent once more at once; failing again, it is judged again."""

    offset: int | None = None
    """As in SkipBlocked."""


@dataclass(frozen=True, slots=True)
class DeadLettered:
    """The copy of this message is durable in the dead letter topic: the original counts as acknowledged.

    For a message that no DeadLetter is under way for it changes nothing.
    """

    offset: int


@dataclass(frozen=True, slots=True)
class DeadLetterFailed:
    """The copy could not be made. The message is kept, and a DeadLetter for it comes again after a back-off."""

    offset: int


@dataclass(frozen=True, slots=True)
class Seek:
    """Go on from `position`, back or ahead: what was open or acknowledged before is forgotten, all at or above is sent.

    Acknowledgements of what was sent before the seek do not count, unless the same offset has been sent again and they
    do not say their generation. A position above the durable end is taken as that end. The caller sees to it that the
    position is not below the log's first offset.
    """

    position: int


class SkipReason(Enum):
    """Cause for which messages are passed over."""

    SKIPPED = "skipped"
    """By an administrator, or nobody can read them."""
    EXPIRED = "expired"
    """Older than the topic's policies allow."""
    TRIMMED = "trimmed"
    """Deleted by retention."""


@dataclass(frozen=True, slots=True)
class SkipRange:
    """Pass over `[start, end)`, sent or not, up to the durable end: all of it counts as acknowledged."""

    start: int
    end: int
    reason: SkipReason = SkipReason.SKIPPED


class KeyRun(NamedTuple):
    """Messages `[start, end)` one after the other that have the same effective key."""

    start: int
    end: int
    key: str


@dataclass(frozen=True, slots=True)
class KeysRead:
    """The answer to ReadKeys: runs without gaps from the offset that was asked for, as far as they were at hand."""

    runs: tuple[KeyRun, ...]


Event = (
    Appended
    | ConsumerAttached
    | ConsumerDetached
    | ConsumerPaused
    | ConsumerResumed
    | Acknowledged
    | Nacked
    | TimerFired
    | PolicyChanged
    | WindowChanged
    | SkipBlocked
    | RetryBlocked
    | DeadLettered
    | DeadLetterFailed
    | Seek
    | SkipRange
    | KeysRead
    | Reported
)
