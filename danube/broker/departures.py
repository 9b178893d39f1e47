"""Clients that have left or have to: the streams they still hold, and what they hear when they come with an old id."""

from collections import OrderedDict
from dataclasses import dataclass

from danube.broker.farewell import Cause, Farewell, Goodbye
from danube.model.calls import ClientKind, HealthStatus
from danube.model.errors import ConsumerNotFoundError, DanubeError, ProducerNotFoundError, TopicNotServedError
from danube.model.limits import UNKNOWN_IDS_MAX
from danube.rpc.carrier import ServerStream
from danube.runtime.clock import Clock, TimerHandle

Client = tuple[ClientKind, int]
"""What a client is and its id."""


@dataclass(slots=True, eq=False)
class _LastStream:
    """A consumer's stream that says nothing any more and is not ended yet."""

    goodbye: Goodbye
    stream: ServerStream
    timer: TimerHandle


class Departures:
    """Says farewell to one client at a time. Who left longest ago is forgotten first, and is then as never known."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._goodbyes: OrderedDict[Client, Goodbye] = OrderedDict()
        self._streams: dict[int, _LastStream] = {}
        """By consumer, as many as had a stream; each is here for FAREWELL_WAIT_S at most."""

    @property
    def open_streams(self) -> int:
        """How many streams wait for their end."""
        return len(self._streams)

    def producer_leaves(self, identity: int, farewell: Farewell) -> None:
        """Have a producer told to look its topic up, when it asks or sends."""
        self._begin((ClientKind.PRODUCER, identity), farewell)

    def consumer_leaves(self, identity: int, farewell: Farewell, stream: ServerStream | None) -> None:
        """The same of a consumer; its stream, to which nobody else writes any more, ends when it is time."""
        last = self._streams.get(identity)
        if last is not None and stream is None:  # it has to leave again, before it has left
            last.goodbye.farewell = farewell
            return
        self._end_stream(identity)
        goodbye = self._begin((ClientKind.CONSUMER, identity), farewell)
        if stream is None:
            return
        if farewell.cause is Cause.GOING_DOWN:
            _end(stream, goodbye.last_word())
            return
        self._streams[identity] = _LastStream(goodbye, stream, self._timer(identity, goodbye))

    def came_back(self, kind: ClientKind, identity: int) -> None:
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
        goodbye = last.goodbye if last is not None else self._known((kind, identity))
        told_before = goodbye.told_s is not None
        if not goodbye.ask(self._clock.monotonic_s()):
            error = ProducerNotFoundError if kind is ClientKind.PRODUCER else ConsumerNotFoundError
            raise error(f"id {identity} is not attached to this broker: attach it again")
        if last is not None and not told_before:
            last.timer.cancel()
            last.timer = self._timer(identity, goodbye)
        return HealthStatus.CLOSE

    def refuse_deleted(self, kind: ClientKind, identity: int) -> None:
        """Raise TopicNotFoundError for a client whose topic was deleted, until it is attached again or forgotten."""
        farewell = self._farewell((kind, identity))
        if farewell is not None and farewell.cause is Cause.DELETED:
            raise farewell.subscribe_refusal()

    def publish_refusal(self, producer_id: int) -> DanubeError:
        """Why a producer that is not attached cannot send."""
        farewell = self._farewell((ClientKind.PRODUCER, producer_id))
        if farewell is not None:
            return farewell.publish_refusal()
        return TopicNotServedError(
            f"producer {producer_id} is not attached to this broker: look the topic up and create it again"
        )

    def receive_refusal(self, consumer_id: int) -> DanubeError:
        """Why a consumer that is not known cannot receive."""
        farewell = self._farewell((ClientKind.CONSUMER, consumer_id))
        if farewell is not None:
            return farewell.receive_refusal()
        return ConsumerNotFoundError(f"the consumer with the id {consumer_id} does not exist here: subscribe again")

    def close(self, error: DanubeError) -> None:
        """The broker goes down: streams of clients that were told CLOSE end when it is time, the others now."""
        for identity, last in list(self._streams.items()):
            if last.goodbye.told_s is None:
                del self._streams[identity]
                last.timer.cancel()
                last.stream.fail(error)

    def _begin(self, client: Client, farewell: Farewell | None) -> Goodbye:
        goodbye = self._goodbyes[client] = Goodbye(farewell, self._clock.monotonic_s())
        self._goodbyes.move_to_end(client)
        if len(self._goodbyes) > UNKNOWN_IDS_MAX:
            self._goodbyes.popitem(last=False)
        return goodbye

    def _known(self, client: Client) -> Goodbye:
        goodbye = self._goodbyes.get(client)
        if goodbye is None:
            return self._begin(client, None)
        self._goodbyes.move_to_end(client)
        return goodbye

    def _farewell(self, client: Client) -> Farewell | None:
        goodbye = self._goodbyes.get(client)
        return goodbye.farewell if goodbye is not None else None

    def _timer(self, identity: int, goodbye: Goodbye) -> TimerHandle:
        return self._clock.call_at(goodbye.end_s, lambda: self._due(identity))

    def _due(self, identity: int) -> None:
        last = self._streams.pop(identity, None)
        if last is not None:
            _end(last.stream, last.goodbye.last_word())

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
