"""How clients are sent away: what each is told, when its stream ends, and with what. No I/O; time is an argument.

All official clients come through one sequence, and each dies or spins in others (`docs/draining.md` has the table):

1. publishes are refused, with a status on which clients look the topic up and send again, or stop where it is gone;
2. nothing is delivered any more and the consumer's stream stays open; its next health check is answered with CLOSE;
3. FAREWELL_END_S later the stream ends with OK. The Go client takes an end that comes before CLOSE for the last word.

A consumer that asks for no health check within FAREWELL_WAIT_S never will. Its stream ends with an error then, on which
those that can come back do. So does every stream at once when the broker goes down: there is nowhere to go to yet, and
a client that is told CLOSE tries for three seconds at most, while one whose stream fails tries until it is back.
"""

from dataclasses import dataclass
from enum import Enum

from danube.model.errors import (
    ConsumerNotFoundError,
    DanubeError,
    ShuttingDownError,
    TopicDeletedError,
    TopicNotFoundError,
    TopicNotServedError,
    UnavailableError,
)
from danube.model.limits.broker import DRAIN_END_S, DRAIN_WAIT_S

CLOSES_MAX = 2
"""Each CLOSE has a leftover poller of the Go and Rust clients attach once more; NOT_FOUND ends it."""


class Cause(Enum):
    """Why clients have to go."""

    MOVED = "moved"
    """The topic goes on, on another broker or on this one anew."""
    DELETED = "deleted"
    """The topic or the subscription is no more."""
    DISCONNECTED = "disconnected"
    """An administrator sent this one client away; it may come back."""
    IN_DOUBT = "in doubt"
    """Nobody knows whether the topic was deleted: it takes nothing that might go with it, and is read on."""
    GOING_DOWN = "going down"
    """The broker ends, and its topics wait for it or for another one."""


@dataclass(frozen=True, slots=True)
class ClientDrain:
    """One reason to go, said to all clients of a topic, of a subscription, or to one client."""

    cause: Cause
    what: str
    """What they are sent away from: a topic, or a subscription of one."""

    def publish_refusal(self) -> DanubeError:
        """What a publish gets.

        After INVALID_ARGUMENT all four clients tell the application at once. For a topic that is gone this is right:
        after UNAVAILABLE they would create it again, and after NOT_FOUND the Java client would, without a pause.
        """
        match self.cause:
            case Cause.DELETED:
                return TopicDeletedError(f"{self.what} was deleted: create it again to go on")
            case Cause.IN_DOUBT:
                return UnavailableError(
                    f"{self.what} may have been deleted, the metadata did not say: delete it again, or have its broker"
                    " started again to see whether it is still there"
                )
            case Cause.GOING_DOWN:
                return going_down()
            case _:
                return self._not_here()

    def subscribe_refusal(self) -> DanubeError:
        """The answer to a Subscribe under way, an opening stream of batches, and a producer that attaches again."""
        match self.cause:
            case Cause.DELETED:
                return TopicNotFoundError(f"{self.what} was deleted just now: create it first")
            case Cause.GOING_DOWN:
                return going_down()
            case _:
                return self._not_here()

    def receive_refusal(self) -> DanubeError:
        """What a consumer gets that opens its stream again instead of asking where to go.

        UNAVAILABLE makes the Go, Rust and Java clients subscribe anew in the end; after NOT_FOUND the first two stop.
        """
        if self.cause is Cause.DELETED:
            return ConsumerNotFoundError(f"{self.what} was deleted: subscribe again to have a new one")
        return self._not_here()

    def _not_here(self) -> DanubeError:
        return TopicNotServedError(f"{self.what} is not served here any more: look it up again")


def going_down() -> ShuttingDownError:
    """What every call gets from a broker that goes down."""
    return ShuttingDownError("this broker is going down: look the topic up again and retry")


@dataclass(slots=True)
class DisconnectReason:
    """What one client that is not attached any more has been told."""

    drain: ClientDrain | None
    """None for an id that nobody here knows."""
    began_s: float
    """Monotonic time."""
    closes: int = 0
    """How often it was told CLOSE."""
    told_s: float | None = None
    """When it was told first."""

    def ask(self, now_s: float) -> bool:
        """It asks for its health: whether it is told CLOSE, which counts, or that nobody knows it."""
        if self.closes >= CLOSES_MAX:
            return False
        self.closes += 1
        if self.told_s is None:
            self.told_s = now_s
        return True

    @property
    def end_s(self) -> float:
        """When its stream ends, by what it has been told so far."""
        if self.drain is not None and self.drain.cause is Cause.GOING_DOWN:
            return self.began_s
        return self.began_s + DRAIN_WAIT_S if self.told_s is None else self.told_s + DRAIN_END_S

    def drain_end(self) -> DanubeError | None:
        """What its stream ends with; None is OK, which only ever follows CLOSE."""
        if self.told_s is not None or self.drain is None:
            return None
        if self.drain.cause is Cause.GOING_DOWN:
            return going_down()
        return self.drain.receive_refusal()
