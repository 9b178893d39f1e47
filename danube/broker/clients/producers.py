"""Producer sessions: the producers of this broker's topics.

An id follows from topic and name, so a message, which names both, restores its producer after a restart.

A producer is connected while it has a stream of batches open, and for PRODUCER_GONE_S after it attached, sent a message
or checked its health. Only connected ones count. Others are known for SESSION_FORGET_S more, and their next call
connects them again where there is room.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from danube.broker.schemas.versions import SchemaVersions
from danube.broker.telemetry.system_topics import refuse_producer, refuse_publishing
from danube.broker.topics.drain import Cause, ClientDrain, DisconnectedClients
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
from danube.model.schema import TopicSchema
from danube.model.topic import DispatchStrategy
from danube.runtime.clock import Clock, TimerHandle


@dataclass(slots=True)
class ProducerSession:
    """One known producer."""

    producer_id: int
    name: str
    topic: AnyTopic
    seen_s: float = 0.0
    """Monotonic time of its last call."""
    timer: TimerHandle | None = None
    """Checks whether it is still connected; None while it is not."""
    streams: int = 0
    """Open streams of batches."""
    sends_messages: bool = False
    """True if it sends single messages too: then the end of its streams does not end the session."""


@dataclass(frozen=True, slots=True, eq=False)
class ProducerStream:
    """A producer's stream of batches."""

    producer: ProducerSession
    topic: ReliableTopic
    hold: Hold | None
    """Of an exclusive producer."""
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
        schemas: SchemaVersions,
        auto_create_topics: bool,
    ) -> None:
        self._topics = topics
        self._access = access
        self._disconnected_clients = disconnected_clients
        self._clock = clock
        self._schemas = schemas
        self._auto_create = auto_create_topics
        self._sessions: dict[int, ProducerSession] = {}

    async def create(self, request: CreateProducer) -> int:
        """Attach a producer, creating its topic if that is allowed; answers its id, which follows from its name.

        Raises:
            DispatchStrategyMismatchError, NamespaceNotFoundError, TopicExistsError, PreconditionFailedError,
            LimitReachedError.
            TopicNotFoundError: there is none, and none is created; also for a client that attaches by itself to a
                deleted topic.
            NotPermittedError: to a system topic, which brokers write alone.
            TopicHeldError: an exclusive producer has the topic, and this one asks for shared access.
        """
        if request.request_id <= FIRST_REQUEST_ID:  # asked for by the application, not by the client itself
            self._disconnected_clients.reattached(
                ClientKind.PRODUCER, producer_id(request.topic, request.producer_name)
            )
        session = await self._find_or_attach(request)
        session.sends_messages = True
        return session.producer_id

    async def _find_or_attach(self, request: CreateProducer) -> ProducerSession:
        refuse_producer(request)
        schema = None
        if request.schema is not None:
            there = self._topics.find(str(request.topic))
            schema = await self._schemas.require(request.schema, there.record.schema_subject if there else None)
        topic = self._topics.find(str(request.topic)) or await self._create_topic(request)
        if topic.record.strategy is not request.strategy:
            raise DispatchStrategyMismatchError(
                f"topic {request.topic} is {_word(topic.record.strategy)} and the producer asks for "
                f"{_word(request.strategy)}: create it with the topic's dispatch strategy"
            )
        if schema is not None:
            subject, version = schema
            await self._bind(topic, subject.name)
            self._schemas.used(topic.record.name, (subject.schema_id, version))
        if request.access_mode is AccessMode.SHARED:
            self._access.refuse_if_held(topic)
        return self._attach(topic, producer_id(request.topic, request.producer_name), request.producer_name)

    async def _bind(self, topic: AnyTopic, subject: str) -> None:
        """Have a topic without a subject follow this one. Raises PreconditionFailedError where it follows another."""

        def bound(schema: TopicSchema) -> TopicSchema:
            if schema.subject not in {None, subject}:
                raise PreconditionFailedError(
                    f"{topic.name} follows the subject {schema.subject} and the producer asks for {subject}: use the"
                    " topic's subject, or another topic"
                )
            return replace(schema, subject=subject)

        if bound(topic.record.schema) != topic.record.schema:
            await self._topics.change_topic_schema(topic.record.name, bound)

    def topic_of(self, message: SendMessage) -> AnyTopic:
        """The topic that a message goes to.

        Raises TopicNotServedError when its producer or topic is not here: clients then look up and attach anew. Raises
        TopicDeletedError to a producer whose topic was deleted, NotPermittedError as `create` does, and
        TopicHeldError while an exclusive producer has the topic.
        """
        session = self._sessions.get(message.producer_id)
        if session is None:
            session = self._restore(message)
            session.sends_messages = True
        elif session.topic.name != message.topic:
            raise TopicNotServedError(f"producer {message.producer_id} is not attached to {message.topic[:300]}")
        elif session.timer is not None:  # connected, as nearly all are
            session.seen_s = self._clock.monotonic_s()
        elif not self._touch(session):
            raise _no_room(session.topic, message.producer_id)
        self._access.refuse_if_held(session.topic)
        return session.topic

    def topic_name_of(self, producer_id: int) -> str | None:
        """The topic of an attached producer; None for one that is not attached here."""
        session = self._sessions.get(producer_id)
        return None if session is None else session.topic.name

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
        """Tell whether this producer is connected; the call counts, and connects a known one."""
        session = self._sessions.get(identity)
        return session is not None and self._touch(session)

    def closed(self, identity: int) -> None:
        """A producer was closed. Open streams of batches continue, and another process under its name reconnects with
        its next call.
        """
        session = self._sessions.get(identity)
        if session is not None and session.streams:
            session.sends_messages = False
        elif session is not None:
            self._disconnect(session)

    def attached_to(self, topic: AnyTopic) -> list[ProducerSession]:
        """The connected producers of a topic, by name."""
        return sorted((self._sessions[identity] for identity in topic.producers), key=lambda session: session.name)

    def disconnect(self, session: ProducerSession) -> None:
        """Drain a producer without streams of batches; it reattaches with its next message."""
        if not session.streams:
            self._forget(session)
            drain = ClientDrain(Cause.DISCONNECTED, session.topic.name)
            self._disconnected_clients.drain_producer(session.producer_id, drain)

    def drain_topic(self, topic: AnyTopic, drain: ClientDrain) -> None:
        """Forget the producers of a closed topic, and drain them."""
        for identity in (*topic.producers, *topic.disconnected_producers):
            session = self._sessions.get(identity)
            if session is not None:
                self._forget(session)
            self._disconnected_clients.drain_producer(identity, drain)

    def sweep(self) -> None:
        """Forget producers without a call for SESSION_FORGET_S; a message restores them."""
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
        if not session.streams and not session.sends_messages:
            self._forget(session)

    def _touch(self, session: ProducerSession) -> bool:
        """Record a call of a known producer; answers whether it is connected: a topic may have no room for it."""
        session.seen_s = self._clock.monotonic_s()
        if session.timer is None and not _is_full(session.topic):
            self._connect(session)
        return session.timer is not None

    def _connect(self, session: ProducerSession) -> None:
        session.topic.disconnected_producers.pop(session.producer_id, None)
        session.topic.producers.add(session.producer_id)
        self._disconnected_clients.reattached(ClientKind.PRODUCER, session.producer_id)
        self._check_later(session, session.seen_s)

    def _check_later(self, session: ProducerSession, seen_s: float) -> None:
        session.timer = self._clock.call_at(seen_s + PRODUCER_GONE_S, lambda: self._check(session))

    def _check(self, session: ProducerSession) -> None:
        """Disconnect a producer without a recent call; others are checked again later."""
        now_s = self._clock.monotonic_s()
        seen_s = now_s if session.streams else session.seen_s
        if now_s < seen_s + PRODUCER_GONE_S:
            self._check_later(session, seen_s)
        else:
            self._disconnect(session)

    def _disconnect(self, session: ProducerSession) -> None:
        """Stop counting it; it stays known, since a health check names no topic."""
        disconnected = session.topic.disconnected_producers
        self._end(session)
        disconnected[session.producer_id] = None
        if len(disconnected) > PRODUCERS_AWAY_PER_TOPIC_MAX:
            self._forget(self._sessions[next(iter(disconnected))])

    def _forget(self, session: ProducerSession) -> None:
        if self._sessions.get(session.producer_id) is session:
            del self._sessions[session.producer_id]
            self._end(session)

    def _end(self, session: ProducerSession) -> None:
        if session.timer is not None:
            session.timer.cancel()
        session.timer = None
        session.topic.producers.discard(session.producer_id)
        session.topic.disconnected_producers.pop(session.producer_id, None)

    async def _create_topic(self, request: CreateProducer) -> AnyTopic:
        self._topics.refuse_remote(request.topic)
        self._disconnected_clients.refuse_deleted(
            ClientKind.PRODUCER, producer_id(request.topic, request.producer_name)
        )
        if not self._auto_create:
            raise TopicNotFoundError(
                f"there is no topic {request.topic} and this broker does not create topics by itself: create it first"
            )
        return await self._topics.find_or_create(request.topic, request.strategy, base=request.base)

    def _restore(self, message: SendMessage) -> ProducerSession:
        topic = self._topics.find(message.topic)
        if topic is None or producer_id(topic.record.name, message.producer_name) != message.producer_id:
            raise self._disconnected_clients.publish_refusal(message.producer_id)
        refuse_publishing(topic.record.name)
        if _is_full(topic):
            raise _no_room(topic, message.producer_id)
        return self._attach(topic, message.producer_id, message.producer_name)

    def _attach(self, topic: AnyTopic, identity: int, name: str) -> ProducerSession:
        session = self._sessions.get(identity) or ProducerSession(identity, name, topic)
        if not self._touch(session):
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
