"""Producer sessions: which producers are attached, and to which topic.

An id follows from topic and name, so a message that names both revives its producer: after a restart running
producers go on without noticing.

A producer is connected while it has a stream of batches open, and for PRODUCER_GONE_S after each other sign of life: a
call that attaches it, a message, a health check. Only connected ones are counted. One that closed, or fell silent, is
known for SESSION_FORGET_S more, and its next sign of life connects it again where there is room.
"""

from collections.abc import Callable
from dataclasses import dataclass

from danube.broker.clients.drain import Cause, ClientDrain, DisconnectedClients
from danube.broker.telemetry.system_topics import refuse_producer, refuse_publishing
from danube.broker.topics.local_topics import Topics
from danube.broker.topics.producer_access import Hold, ProducerAccesses
from danube.broker.topics.topic import AnyTopic, ReliableTopic
from danube.model.calls.client import FIRST_REQUEST_ID, AccessMode, ClientKind, CreateProducer, SendMessage
from danube.model.calls.stream import ProducerAccess, PublishOpen
from danube.model.errors import (
    DispatchStrategyMismatchError,
    LimitReachedError,
    PreconditionFailedError,
    TopicNotFoundError,
    TopicNotServedError,
)
from danube.model.limits.broker import (
    PRODUCER_GONE_S,
    PRODUCERS_AWAY_PER_TOPIC_MAX,
    PRODUCERS_PER_TOPIC_MAX,
    SESSION_FORGET_S,
)
from danube.model.message import producer_id
from danube.model.topic import DispatchStrategy
from danube.runtime.clock import Clock, TimerHandle


@dataclass(slots=True)
class ProducerSession:
    """One known producer."""

    producer_id: int
    name: str
    topic: AnyTopic
    seen_s: float = 0.0
    """Monotonic time of its last sign of life."""
    timer: TimerHandle | None = None
    """Looks whether it is still there; None while it is not connected."""
    streams: int = 0
    """Of batches, open now."""
    stays: bool = False
    """Whether it sends single messages too: then the end of its streams is not its own."""


@dataclass(frozen=True, slots=True, eq=False)
class ProducerStream:
    """A producer's stream of batches and what it may do."""

    producer: ProducerSession
    topic: ReliableTopic
    hold: Hold | None
    """Of an exclusive one."""
    _close: Callable[["ProducerStream"], None]

    def close(self) -> None:
        """The stream has ended. To be called once."""
        self._close(self)


class Producers:
    """The producers of this broker."""

    def __init__(
        self,
        topics: Topics,
        access: ProducerAccesses,
        disconnected_clients: DisconnectedClients,
        clock: Clock,
        *,
        auto_create_topics: bool,
    ) -> None:
        self._topics = topics
        self._access = access
        self._disconnected_clients = disconnected_clients
        self._clock = clock
        self._auto_create = auto_create_topics
        self._sessions: dict[int, ProducerSession] = {}

    async def create(self, request: CreateProducer) -> int:
        """Attach a producer, creating its topic if that is allowed; answers its id, the same for the same name.

        Raises:
            DispatchStrategyMismatchError, NamespaceNotFoundError, TopicExistsError, PreconditionFailedError,
            LimitReachedError.
            TopicNotFoundError: there is none, and none is created; also for a client that attaches again by itself to
                a topic that was deleted.
            NotPermittedError: to a system topic, which brokers write alone.
            TopicHeldError: an exclusive producer has the topic, and this one does not say that it will be exclusive.
        """
        if request.request_id <= FIRST_REQUEST_ID:  # the application asks, and no client by itself
            self._disconnected_clients.reattached(
                ClientKind.PRODUCER, producer_id(request.topic, request.producer_name)
            )
        session = await self._find_or_attach(request)
        session.stays = True
        return session.producer_id

    async def _find_or_attach(self, request: CreateProducer) -> ProducerSession:
        refuse_producer(request)
        if request.schema_subject is not None:
            raise PreconditionFailedError(
                f"schema subject {request.schema_subject!r} is not registered: there is no schema registry yet; "
                "create the producer without a schema"
            )
        topic = self._topics.find(str(request.topic)) or await self._create_topic(request)
        if topic.record.strategy is not request.strategy:
            raise DispatchStrategyMismatchError(
                f"topic {request.topic} is {_word(topic.record.strategy)} and the producer asks for "
                f"{_word(request.strategy)}: create it with the topic's dispatch strategy"
            )
        if request.access_mode is AccessMode.SHARED:
            self._access.refuse_if_held(topic)
        return self._attach(topic, producer_id(request.topic, request.producer_name), request.producer_name)

    def topic_of(self, message: SendMessage) -> AnyTopic:
        """The topic that a message goes to.

        Raises TopicNotServedError when its producer or topic is not here: clients then look up and attach anew. Raises
        TopicDeletedError to a producer whose topic was deleted, NotPermittedError as `create` does, and
        TopicHeldError while an exclusive producer has the topic.
        """
        session = self._sessions.get(message.producer_id)
        if session is None:
            session = self._revive(message)
            session.stays = True
        elif session.topic.name != message.topic:
            raise TopicNotServedError(f"producer {message.producer_id} is not attached to {message.topic[:300]}")
        elif not self._is_heard(session):
            raise _no_room(session.topic, message.producer_id)
        self._access.refuse_if_held(session.topic)
        return session.topic

    async def open_stream(self, wanted: PublishOpen) -> "ProducerStream":
        """Attach a producer for as long as its stream of batches is open; `close` what is answered when it ends.

        Its session with the topic has to begin before anything else happens. Raises as `create`, and TopicHeldError,
        ProducerFencedError, MetadataError.
        """
        attached = await self._find_or_attach(_creation(wanted))
        attached.streams += 1
        try:
            topic = _reliable(attached.topic)
            hold = await self._access.claim(topic, wanted)
        except BaseException:
            self._stream_ended(attached)
            raise
        return ProducerStream(attached, topic, hold, self._close_stream)

    def is_attached(self, identity: int) -> bool:
        """Whether this producer is connected; asking counts as a sign of life, which connects one that is known."""
        session = self._sessions.get(identity)
        return session is not None and self._is_heard(session)

    def closed(self, identity: int) -> None:
        """A producer says that it is closed. Where another process goes on under its name, that one is connected again
        by its next sign of life; a stream of batches that is open goes on.
        """
        session = self._sessions.get(identity)
        if session is not None and session.streams:
            session.stays = False
        elif session is not None:
            self._disconnect(session)

    def attached_to(self, topic: AnyTopic) -> list[ProducerSession]:
        """The connected producers of a topic, by name."""
        return sorted((self._sessions[identity] for identity in topic.producers), key=lambda session: session.name)

    def send_away(self, session: ProducerSession) -> None:
        """Forget a producer; it is back with its next message. Streams of batches that it has go on."""
        if not session.streams:
            self._forget(session)
            drain = ClientDrain(Cause.DISCONNECTED, session.topic.name)
            self._disconnected_clients.producer_leaves(session.producer_id, drain)

    def topic_closed(self, topic: AnyTopic, drain: ClientDrain) -> None:
        """Forget the producers of a topic that is gone, and have them told."""
        for identity in (*topic.producers, *topic.producers_away):
            session = self._sessions.get(identity)
            if session is not None:
                self._forget(session)
            self._disconnected_clients.producer_leaves(identity, drain)

    def sweep(self) -> None:
        """Forget those not heard of for SESSION_FORGET_S seconds; they revive by sending."""
        now_s = self._clock.monotonic_s()
        for session in list(self._sessions.values()):
            if session.timer is None and now_s >= session.seen_s + SESSION_FORGET_S:
                self._forget(session)

    def _close_stream(self, stream: "ProducerStream") -> None:
        if stream.hold is not None:
            self._access.release(stream.hold)
        self._stream_ended(stream.producer)

    def _stream_ended(self, session: ProducerSession) -> None:
        session.streams -= 1
        session.seen_s = self._clock.monotonic_s()
        if not session.streams and not session.stays:
            self._forget(session)

    def _is_heard(self, session: ProducerSession) -> bool:
        """Whether a known producer that gave a sign of life is connected: one that was not may find no room."""
        session.seen_s = self._clock.monotonic_s()
        if session.timer is None and not _is_full(session.topic):
            self._connect(session)
        return session.timer is not None

    def _connect(self, session: ProducerSession) -> None:
        session.topic.producers_away.pop(session.producer_id, None)
        session.topic.producers.add(session.producer_id)
        self._disconnected_clients.reattached(ClientKind.PRODUCER, session.producer_id)
        self._look_later(session, session.seen_s)

    def _look_later(self, session: ProducerSession, heard_s: float) -> None:
        session.timer = self._clock.call_at(heard_s + PRODUCER_GONE_S, lambda: self._look(session))

    def _look(self, session: ProducerSession) -> None:
        """Whether a producer is still there; one that is, is looked at again when it may be gone."""
        now_s = self._clock.monotonic_s()
        heard_s = now_s if session.streams else session.seen_s
        if now_s < heard_s + PRODUCER_GONE_S:
            self._look_later(session, heard_s)
        else:
            self._disconnect(session)

    def _disconnect(self, session: ProducerSession) -> None:
        """It counts no more, and is still known: its next sign of life names no topic if it is a health check."""
        away = session.topic.producers_away
        self._end(session)
        away[session.producer_id] = None
        if len(away) > PRODUCERS_AWAY_PER_TOPIC_MAX:
            self._forget(self._sessions[next(iter(away))])

    def _forget(self, session: ProducerSession) -> None:
        if self._sessions.get(session.producer_id) is session:
            del self._sessions[session.producer_id]
            self._end(session)

    def _end(self, session: ProducerSession) -> None:
        if session.timer is not None:
            session.timer.cancel()
        session.timer = None
        session.topic.producers.discard(session.producer_id)
        session.topic.producers_away.pop(session.producer_id, None)

    async def _create_topic(self, request: CreateProducer) -> AnyTopic:
        self._topics.refuse_remote(request.topic)
        self._disconnected_clients.refuse_deleted(
            ClientKind.PRODUCER, producer_id(request.topic, request.producer_name)
        )
        if not self._auto_create:
            raise TopicNotFoundError(
                f"there is no topic {request.topic} and this broker does not create topics by itself: create it first"
            )
        return await self._topics.find_or_create(request.topic, request.strategy)

    def _revive(self, message: SendMessage) -> ProducerSession:
        topic = self._topics.find(message.topic)
        if topic is None or producer_id(topic.record.name, message.producer_name) != message.producer_id:
            raise self._disconnected_clients.publish_refusal(message.producer_id)
        refuse_publishing(topic.record.name)
        if _is_full(topic):
            raise _no_room(topic, message.producer_id)
        return self._attach(topic, message.producer_id, message.producer_name)

    def _attach(self, topic: AnyTopic, identity: int, name: str) -> ProducerSession:
        session = self._sessions.get(identity) or ProducerSession(identity, name, topic)
        if not self._is_heard(session):
            raise LimitReachedError(f"{topic.name} has {len(topic.producers)} producers, the most it may")
        self._sessions[identity] = session
        return session


def _creation(wanted: PublishOpen) -> CreateProducer:
    shared = wanted.access is ProducerAccess.SHARED
    return CreateProducer(
        request_id=0,
        topic=wanted.topic,
        producer_name=wanted.producer_name,
        strategy=wanted.strategy,
        access_mode=AccessMode.SHARED if shared else AccessMode.EXCLUSIVE,
        schema=wanted.schema,
    )


def _no_room(topic: AnyTopic, identity: int) -> TopicNotServedError:
    """On a send this has to say "attach again": any other status is sent again for ever."""
    return TopicNotServedError(f"producer {identity} is not attached to {topic.name}, which has all it may: create it")


def _is_full(topic: AnyTopic) -> bool:
    most = topic.limits.max_producers_per_topic or PRODUCERS_PER_TOPIC_MAX
    return len(topic.producers) >= min(most, PRODUCERS_PER_TOPIC_MAX)


def _reliable(topic: AnyTopic) -> ReliableTopic:
    if not isinstance(topic, ReliableTopic):
        raise PreconditionFailedError(f"{topic.name} is not reliable: it keeps no messages and takes no batches")
    return topic


def _word(strategy: DispatchStrategy) -> str:
    return "reliable" if strategy is DispatchStrategy.RELIABLE else "non-reliable"
