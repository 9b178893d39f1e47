"""Clients that have left or have to: the streams they still hold, and what they hear when they come with an old id."""

from collections import OrderedDict
from dataclasses import dataclass

from danube.broker.clients.drain import Cause, ClientDrain, DisconnectReason
from danube.model.calls.client import ClientKind, HealthStatus
from danube.model.errors import ConsumerNotFoundError, DanubeError, ProducerNotFoundError, TopicNotServedError
from danube.model.limits.broker import UNKNOWN_IDS_MAX
from danube.rpc.carrier import ServerStream
from danube.runtime.clock import Clock, TimerHandle

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
