"""Events of a run, as producers, consumers and readers of the log see them from outside."""

from dataclasses import dataclass
from enum import Enum, auto

from danube.model.subscription import Cursor


class Keeps(Enum):
    """The part of a topic that retention must leave."""

    EVERYTHING = auto()
    UNREAD = auto()  # all that a subscription has not acknowledged
    NEWEST = auto()  # something; the first messages may go though nobody got them


@dataclass(frozen=True, slots=True)
class TopicBegun:
    """A topic exists for the first time. A topic without this event keeps everything."""

    topic: str
    keeps: Keeps


@dataclass(frozen=True, slots=True)
class TopicDeleted:
    """A topic was deleted: nothing is expected of it any more."""

    topic: str


@dataclass(frozen=True, slots=True)
class Sent:
    """A producer handed a message over, once. Its text is unique in the run."""

    topic: str
    producer: str
    message: str


@dataclass(frozen=True, slots=True)
class AppendAcknowledged:
    """The producer was told that the message is stored at this offset."""

    topic: str
    message: str
    offset: int


@dataclass(frozen=True, slots=True)
class Subscribed:
    """A subscription began: it is owed everything from offset `start` on."""

    topic: str
    subscription: str
    start: int = 0
    exclusive: bool = True  # whether one consumer gets all of it, in order


@dataclass(frozen=True, slots=True)
class Delivered:
    """A consumer got a message, for the first time or again."""

    topic: str
    subscription: str
    offset: int
    message: str


@dataclass(frozen=True, slots=True)
class DeliveryAcknowledged:
    """A consumer is done with the message at this offset."""

    topic: str
    subscription: str
    offset: int


@dataclass(frozen=True, slots=True)
class Restarted:
    """The broker died and another life began."""

    cause: str


@dataclass(frozen=True, slots=True)
class LogFound:
    """The whole log as it was read: every offset with its message, in the order of the reads."""

    topic: str
    records: tuple[tuple[int, str], ...]
    start: int = 0  # the log start offset


@dataclass(frozen=True, slots=True)
class CursorFound:
    """The cursor of a subscription after a restart; None when the subscription is unknown."""

    topic: str
    subscription: str
    cursor: Cursor | None


@dataclass(frozen=True, slots=True)
class Failed:
    """Something failed without a fault that explains it."""

    topic: str
    what: str


Event = (
    TopicBegun
    | TopicDeleted
    | Sent
    | AppendAcknowledged
    | Subscribed
    | Delivered
    | DeliveryAcknowledged
    | Restarted
    | LogFound
    | CursorFound
    | Failed
)
