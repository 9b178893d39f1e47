"""Client draining: sending clients away from a topic, a subscription, or a broker that shuts down.

All official clients survive one sequence, and each fails in others (`docs/draining.md` has the table):

1. publishes are refused, with a status on which clients look the topic up and send again, or stop if it was deleted;
2. nothing is delivered, and the consumer's stream stays open; its next health check is answered with CLOSE;
3. DRAIN_END_S later the stream ends with OK. Before CLOSE, that would make the Go client stop.

The stream of a client that says so (FOLLOWS_MOVES_KEY) ends at once when its topic has moved.

A consumer that checks no health within DRAIN_WAIT_S never will. Its stream then ends with an error, on which clients
that can reconnect do. So does every stream at once when the broker shuts down: no broker serves the topic yet, and
after CLOSE a client tries for three seconds at most, while one whose stream fails tries until the broker is back.
"""

from collections import OrderedDict
from dataclasses import dataclass
from enum import Enum

from danube.model.calls.client import FOLLOWS_MOVES_KEY, ClientKind, HealthStatus
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
"""After a CLOSE the Go and Rust clients leave a poller behind that attaches once more; NOT_FOUND ends it."""


class Cause(Enum):
    """The reason for a drain."""

    MOVED = "moved"
    """Another broker serves the topic, or this one opens it again."""
    DELETED = "deleted"
    """The topic or the subscription was deleted."""
    DISCONNECTED = "disconnected"
    """An administrator disconnected this one client; it may reconnect."""
    IN_DOUBT = "in doubt"
    """The outcome of a deletion is unknown: the topic refuses publishes and is read on."""
    CUT_OFF = "cut off"
    """The broker has lost its lease: others may serve its topics, and it takes no messages until it has one again."""
    GOING_DOWN = "going down"
    """The broker shuts down, and its topics wait for it or for another one."""


@dataclass(frozen=True, slots=True)
class ClientDrain:
    """A drain of all clients of a topic or a subscription, or of one client."""

    cause: Cause
    what: str
    """The topic, or the subscription of one, for error texts; the name of the topic is its last word."""

    @property
    def topic(self) -> str | None:
        """The topic; None for a drain of all that the broker has."""
        name = self.what.rpartition(" ")[2]
        return name if name.startswith("/") else None

    def publish_refusal(self) -> DanubeError:
        """The error of a publish.

        After INVALID_ARGUMENT all four clients raise at once, which is right for a deleted topic. After UNAVAILABLE
        they would create it again, and after NOT_FOUND the Java client would, without a pause.
        """
        match self.cause:
            case Cause.DELETED:
                return TopicDeletedError(f"{self.what} was deleted: create it again to go on")
            case Cause.IN_DOUBT:
                return UnavailableError(
                    f"{self.what} may have been deleted, the metadata did not say: delete it again, or have its broker"
                    " started again to see whether it is still there"
                )
            case Cause.CUT_OFF:
                return UnavailableError(
                    f"{self.what} is cut off from the cluster, and others may serve its topics: look it up again"
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
        """The error of a consumer that opens its stream again without subscribing.

        After UNAVAILABLE the Go, Rust and Java clients subscribe anew in the end; after NOT_FOUND the first two stop.
        """
        if self.cause is Cause.DELETED:
            return ConsumerNotFoundError(f"{self.what} was deleted: subscribe again to have a new one")
        return self._not_here()

    def _not_here(self) -> DanubeError:
        return TopicNotServedError(f"{self.what} is not served here any more: look it up again")


def going_down() -> ShuttingDownError:
    """The error of every call to a broker that shuts down."""
    return ShuttingDownError("this broker is going down: look the topic up again and retry")


@dataclass(slots=True)
class DisconnectReason:
    """The drain of one client, and how far it is. Time is an argument."""

    drain: ClientDrain | None
    """None for an unknown id."""
    began_s: float
    """Monotonic time."""
    closes: int = 0
    """The number of CLOSE answers."""
    closed_s: float | None = None
    """The time of the first CLOSE."""

    def may_close(self, now_s: float) -> bool:
        """Count a health check; answers whether it is answered with CLOSE, or else with NOT_FOUND."""
        if self.closes >= CLOSES_MAX:
            return False
        self.closes += 1
        if self.closed_s is None:
            self.closed_s = now_s
        return True

    @property
    def end_s(self) -> float:
        """The time at which the client's stream ends, as far as known."""
        if self.drain is not None and self.drain.cause is Cause.GOING_DOWN:
            return self.began_s
        return self.began_s + DRAIN_WAIT_S if self.closed_s is None else self.closed_s + DRAIN_END_S

    def stream_error(self) -> DanubeError | None:
        """The error with which the client's stream ends; None is OK, which only ever follows CLOSE."""
        if self.closed_s is not None or self.drain is None:
            return None
        return going_down() if self.drain.cause is Cause.GOING_DOWN else self.drain.receive_refusal()


Client = tuple[ClientKind, int]
"""A client's kind and id."""


@dataclass(slots=True, eq=False)
class _DrainedStream:
    """A consumer's stream that is open and silent."""

    reason: DisconnectReason
    stream: ServerStream
    timer: TimerHandle

    def end(self, error: DanubeError | None) -> None:
        self.timer.cancel()
        if error is None:
            self.stream.finish()
        else:
            self.stream.fail(error)


class DisconnectedClients:
    """The clients that are drained or were; the UNKNOWN_IDS_MAX most recent ones are remembered."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._reasons: OrderedDict[Client, DisconnectReason] = OrderedDict()
        self._streams: dict[int, _DrainedStream] = {}
        """By consumer, as many as had a stream; each for DRAIN_WAIT_S at most."""

    def drain_producer(self, identity: int, drain: ClientDrain) -> None:
        """Drain a producer at its next health check or message."""
        self._begin((ClientKind.PRODUCER, identity), drain)

    def drain_consumer(self, identity: int, drain: ClientDrain, stream: ServerStream | None) -> None:
        """Drain a consumer; its stream, which nobody else writes to, is ended when it is time."""
        former = self._streams.get(identity)
        if former is not None and stream is None:  # drained again before its stream has ended
            former.reason.drain = drain
            return
        self._end_stream(identity)
        reason = self._begin((ClientKind.CONSUMER, identity), drain)
        if stream is None:
            return
        drained = _DrainedStream(reason, stream, self._timer(identity, reason))
        follows = drain.cause is Cause.MOVED and FOLLOWS_MOVES_KEY in stream.caller.metadata
        if follows or drain.cause is Cause.GOING_DOWN:
            drained.end(reason.stream_error())
        else:
            self._streams[identity] = drained

    def reattached(self, kind: ClientKind, identity: int) -> None:
        """The client is attached (again): its drain is over, and a stream it left behind ends with OK."""
        self._reasons.pop((kind, identity), None)
        if kind is ClientKind.CONSUMER:
            self._end_stream(identity)

    def is_draining(self, kind: ClientKind, identity: int) -> bool:
        """Tell whether a client has a stream here that is to end."""
        return kind is ClientKind.CONSUMER and identity in self._streams

    def topic_of(self, kind: ClientKind, identity: int) -> str | None:
        """The topic of a client that is drained or was; None for an unknown id."""
        stream = self._streams.get(identity) if kind is ClientKind.CONSUMER else None
        drain = stream.reason.drain if stream is not None else self._drain((kind, identity))
        return drain.topic if drain is not None else None

    def health(self, kind: ClientKind, identity: int, *, is_foreign: bool = False) -> HealthStatus:
        """The answer to a client that is drained or not attached; it sets the end of its stream.

        A client of others (`is_foreign`) is answered as an unknown one, and not touched.

        Raises ProducerNotFoundError or ConsumerNotFoundError after CLOSES_MAX answers, and TopicNotFoundError for a
        producer of a deleted topic: after CLOSE it would attach again and create the topic.
        """
        if kind is ClientKind.PRODUCER and not is_foreign:
            self.refuse_deleted(kind, identity)
        drained = self._streams.get(identity) if kind is ClientKind.CONSUMER and not is_foreign else None
        reason = drained.reason if drained is not None else self._known((kind, ~identity if is_foreign else identity))
        was_closed = reason.closed_s is not None
        if not reason.may_close(self._clock.monotonic_s()):
            error = ProducerNotFoundError if kind is ClientKind.PRODUCER else ConsumerNotFoundError
            raise error(f"id {identity} is not attached to this broker: attach it again")
        if drained is not None and not was_closed:
            drained.timer.cancel()
            drained.timer = self._timer(identity, reason)
        return HealthStatus.CLOSE

    def refuse_deleted(self, kind: ClientKind, identity: int) -> None:
        """Raise TopicNotFoundError for a client whose topic was deleted, until it is attached again or forgotten."""
        drain = self._drain((kind, identity))
        if drain is not None and drain.cause is Cause.DELETED:
            raise drain.subscribe_refusal()

    def publish_refusal(self, producer_id: int) -> DanubeError:
        """The error of a producer that sends and is not attached."""
        drain = self._drain((ClientKind.PRODUCER, producer_id))
        if drain is not None:
            return drain.publish_refusal()
        return TopicNotServedError(
            f"producer {producer_id} is not attached to this broker: look the topic up and create it again"
        )

    def receive_refusal(self, consumer_id: int, *, is_foreign: bool = False) -> DanubeError:
        """The error of a consumer that receives and is unknown, or of others."""
        drain = self._drain((ClientKind.CONSUMER, consumer_id))
        if drain is not None and not is_foreign:
            return drain.receive_refusal()
        return ConsumerNotFoundError(f"the consumer with the id {consumer_id} does not exist here: subscribe again")

    def close(self, error: DanubeError) -> None:
        """The broker shuts down: streams of clients that got CLOSE end when it is time, the others now."""
        for identity, drained in list(self._streams.items()):
            if drained.reason.closed_s is None:
                del self._streams[identity]
                drained.end(error)

    def _begin(self, client: Client, drain: ClientDrain | None) -> DisconnectReason:
        reason = self._reasons[client] = DisconnectReason(drain, self._clock.monotonic_s())
        self._reasons.move_to_end(client)
        if len(self._reasons) > UNKNOWN_IDS_MAX:
            self._reasons.popitem(last=False)
        return reason

    def _known(self, client: Client) -> DisconnectReason:
        reason = self._reasons.get(client)
        if reason is None:
            return self._begin(client, None)
        self._reasons.move_to_end(client)
        return reason

    def _drain(self, client: Client) -> ClientDrain | None:
        reason = self._reasons.get(client)
        return reason.drain if reason is not None else None

    def _timer(self, identity: int, reason: DisconnectReason) -> TimerHandle:
        return self._clock.call_at(reason.end_s, lambda: self._due(identity))

    def _due(self, identity: int) -> None:
        drained = self._streams.pop(identity, None)
        if drained is not None:
            drained.end(drained.reason.stream_error())

    def _end_stream(self, identity: int) -> None:
        drained = self._streams.pop(identity, None)
        if drained is not None:
            drained.end(None)
