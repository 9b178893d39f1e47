"""How clients are sent away: what each is told, when its stream ends, and with what. No I/O; time is an argument.

All official clients come through one sequence, and each dies or spins in others (`docs/draining.md` has the table):

1. publishes are refused, with a status on which clients look the topic up and send again, or stop where it is gone;
2. nothing is delivered any more and the consumer's stream stays open; its next health check is answered with CLOSE;
3. FAREWELL_END_S later the stream ends with OK. The Go client takes an end that comes before CLOSE for the last word.

A consumer that asks for no health check within FAREWELL_WAIT_S never will. Its stream ends with an error then, on which
those that can come back do. So does every stream at once when the broker goes down: there is nowhere to go to yet, and
a client that is told CLOSE tries for three seconds at most, while one whose stream fails tries until it is back.
"""

from collections import OrderedDict
from dataclasses import dataclass
from enum import Enum

from danube.model.calls.client import ClientKind, HealthStatus
from danube.model.errors import (
    ConsumerNotFoundError,
    DanubeError,
    ProducerNotFoundError,
    ShuttingDownError,
    TopicDeletedError,
    TopicNotFoundError,
    TopicNotServedError,
    UnavailableError,
)
from danube.model.limits.broker import DRAIN_END_S, DRAIN_WAIT_S, UNKNOWN_IDS_MAX
from danube.rpc.carrier import ServerStream
from danube.runtime.clock import Clock, TimerHandle

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


Client = tuple[ClientKind, int]
"""What a client is and its id."""


@dataclass(slots=True, eq=False)
class _LastStream:
    """A consumer's stream that says nothing any more and is not ended yet."""

    disconnect_reason: DisconnectReason
    stream: ServerStream
    timer: TimerHandle


class DisconnectedClients:
    """Says farewell to one client at a time. Who left longest ago is forgotten first, and is then as never known."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._goodbyes: OrderedDict[Client, DisconnectReason] = OrderedDict()
        self._streams: dict[int, _LastStream] = {}
        """By consumer, as many as had a stream; each is here for FAREWELL_WAIT_S at most."""

    @property
    def open_streams(self) -> int:
        """How many streams wait for their end."""
        return len(self._streams)

    def producer_leaves(self, identity: int, drain: ClientDrain) -> None:
        """Have a producer told to look its topic up, when it asks or sends."""
        self._begin((ClientKind.PRODUCER, identity), drain)

    def consumer_leaves(self, identity: int, drain: ClientDrain, stream: ServerStream | None) -> None:
        """The same of a consumer; its stream, to which nobody else writes any more, ends when it is time."""
        last = self._streams.get(identity)
        if last is not None and stream is None:  # it has to leave again, before it has left
            last.disconnect_reason.drain = drain
            return
        self._end_stream(identity)
        disconnect_reason = self._begin((ClientKind.CONSUMER, identity), drain)
        if stream is None:
            return
        if drain.cause is Cause.GOING_DOWN:
            _end(stream, disconnect_reason.drain_end())
            return
        self._streams[identity] = _LastStream(disconnect_reason, stream, self._timer(identity, disconnect_reason))

    def reattached(self, kind: ClientKind, identity: int) -> None:
        """The client is attached (again): what it was told is over, and a stream it left behind ends with OK."""
        self._goodbyes.pop((kind, identity), None)
        if kind is ClientKind.CONSUMER:
            self._end_stream(identity)

    def is_leaving(self, kind: ClientKind, identity: int) -> bool:
        """Whether a client that may be known has a stream here that waits for its end."""
        return kind is ClientKind.CONSUMER and identity in self._streams

    def health(self, kind: ClientKind, identity: int) -> HealthStatus:
        """The answer to a client that is leaving or is not attached; it sets the end of its stream.

        Raises ProducerNotFoundError or ConsumerNotFoundError for one that was told CLOSE often enough, and
        TopicNotFoundError for a producer of a deleted topic: told CLOSE, it would attach again and create the topic.
        """
        if kind is ClientKind.PRODUCER:
            self.refuse_deleted(kind, identity)
        last = self._streams.get(identity) if kind is ClientKind.CONSUMER else None
        disconnect_reason = last.disconnect_reason if last is not None else self._known((kind, identity))
        told_before = disconnect_reason.told_s is not None
        if not disconnect_reason.ask(self._clock.monotonic_s()):
            error = ProducerNotFoundError if kind is ClientKind.PRODUCER else ConsumerNotFoundError
            raise error(f"id {identity} is not attached to this broker: attach it again")
        if last is not None and not told_before:
            last.timer.cancel()
            last.timer = self._timer(identity, disconnect_reason)
        return HealthStatus.CLOSE

    def refuse_deleted(self, kind: ClientKind, identity: int) -> None:
        """Raise TopicNotFoundError for a client whose topic was deleted, until it is attached again or forgotten."""
        drain = self._drain((kind, identity))
        if drain is not None and drain.cause is Cause.DELETED:
            raise drain.subscribe_refusal()

    def publish_refusal(self, producer_id: int) -> DanubeError:
        """Why a producer that is not attached cannot send."""
        drain = self._drain((ClientKind.PRODUCER, producer_id))
        if drain is not None:
            return drain.publish_refusal()
        return TopicNotServedError(
            f"producer {producer_id} is not attached to this broker: look the topic up and create it again"
        )

    def receive_refusal(self, consumer_id: int) -> DanubeError:
        """Why a consumer that is not known cannot receive."""
        drain = self._drain((ClientKind.CONSUMER, consumer_id))
        if drain is not None:
            return drain.receive_refusal()
        return ConsumerNotFoundError(f"the consumer with the id {consumer_id} does not exist here: subscribe again")

    def close(self, error: DanubeError) -> None:
        """The broker goes down: streams of clients that were told CLOSE end when it is time, the others now."""
        for identity, last in list(self._streams.items()):
            if last.disconnect_reason.told_s is None:
                del self._streams[identity]
                last.timer.cancel()
                last.stream.fail(error)

    def _begin(self, client: Client, drain: ClientDrain | None) -> DisconnectReason:
        disconnect_reason = self._goodbyes[client] = DisconnectReason(drain, self._clock.monotonic_s())
        self._goodbyes.move_to_end(client)
        if len(self._goodbyes) > UNKNOWN_IDS_MAX:
            self._goodbyes.popitem(last=False)
        return disconnect_reason

    def _known(self, client: Client) -> DisconnectReason:
        disconnect_reason = self._goodbyes.get(client)
        if disconnect_reason is None:
            return self._begin(client, None)
        self._goodbyes.move_to_end(client)
        return disconnect_reason

    def _drain(self, client: Client) -> ClientDrain | None:
        disconnect_reason = self._goodbyes.get(client)
        return disconnect_reason.drain if disconnect_reason is not None else None

    def _timer(self, identity: int, disconnect_reason: DisconnectReason) -> TimerHandle:
        return self._clock.call_at(disconnect_reason.end_s, lambda: self._due(identity))

    def _due(self, identity: int) -> None:
        last = self._streams.pop(identity, None)
        if last is not None:
            _end(last.stream, last.disconnect_reason.drain_end())

    def _end_stream(self, identity: int) -> None:
        last = self._streams.pop(identity, None)
        if last is not None:
            last.timer.cancel()
            last.stream.finish()


def _end(stream: ServerStream, error: DanubeError | None) -> None:
    if error is None:
        stream.finish()
    else:
        stream.fail(error)
