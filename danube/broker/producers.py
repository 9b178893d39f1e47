"""Producer sessions: which producers are attached, and to which topic.

An id follows from topic and name, so a message that names both revives its producer: after a restart running
producers go on without noticing.
"""

from collections.abc import Callable
from dataclasses import dataclass

from danube.broker.access import Hold, ProducerAccesses
from danube.broker.departures import Departures
from danube.broker.farewell import Cause, Farewell
from danube.broker.topic import AnyTopic, ReliableTopic
from danube.broker.topics import Topics
from danube.model.audit import AUDIT_TOPIC
from danube.model.calls import AccessMode, ClientKind, CreateProducer, SendMessage
from danube.model.errors import (
    DispatchStrategyMismatchError,
    LimitReachedError,
    NotPermittedError,
    PreconditionFailedError,
    TopicNotFoundError,
    TopicNotServedError,
)
from danube.model.limits import PRODUCERS_PER_TOPIC_MAX, SESSION_FORGET_S, SWEEP_INTERVAL_S
from danube.model.message import producer_id
from danube.model.stream import ProducerAccess, PublishOpen
from danube.model.topic import DispatchStrategy, TopicName

_SWEEPS_TO_FORGET = int(SESSION_FORGET_S / SWEEP_INTERVAL_S)


@dataclass(slots=True)
class ProducerSession:
    """One attached producer."""

    producer_id: int
    name: str
    topic: AnyTopic
    idle_sweeps: int = 0
    """Sweeps since it was last heard of."""
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
        self, topics: Topics, access: ProducerAccesses, departures: Departures, *, auto_create_topics: bool
    ) -> None:
        self._topics = topics
        self._access = access
        self._departures = departures
        self._auto_create = auto_create_topics
        self._sessions: dict[int, ProducerSession] = {}

    async def create(self, request: CreateProducer) -> int:
        """Attach a producer, creating its topic if that is allowed; answers its id, the same for the same name.

        Raises:
            DispatchStrategyMismatchError, TopicNotFoundError, NamespaceNotFoundError, TopicExistsError,
            PreconditionFailedError, LimitReachedError.
            NotPermittedError: to the audit log, which the broker writes alone.
            TopicHeldError: an exclusive producer has the topic, and this one does not say that it will be exclusive.
        """
        session = await self._find_or_attach(request)
        session.stays = True
        return session.producer_id

    async def _find_or_attach(self, request: CreateProducer) -> ProducerSession:
        _refuse_audit_log(request.topic)
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
        InvalidRequestError to a producer whose topic was deleted, NotPermittedError as `create` does, and
        TopicHeldError while an exclusive producer has the topic.
        """
        session = self._sessions.get(message.producer_id)
        if session is None:
            session = self._revive(message)
            session.stays = True
        elif session.topic.name != message.topic:
            raise TopicNotServedError(f"producer {message.producer_id} is not attached to {message.topic[:300]}")
        self._access.refuse_if_held(session.topic)
        session.idle_sweeps = 0
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
        """Whether this producer is known; asking counts as a sign of life."""
        session = self._sessions.get(identity)
        if session is not None:
            session.idle_sweeps = 0
        return session is not None

    def attached_to(self, topic: AnyTopic) -> list[ProducerSession]:
        """The producers of a topic, by name."""
        return sorted((self._sessions[identity] for identity in topic.producers), key=lambda session: session.name)

    def send_away(self, session: ProducerSession) -> None:
        """Forget a producer; it is back with its next message. Streams of batches that it has go on."""
        if not session.streams:
            self._forget(session)
            farewell = Farewell(Cause.DISCONNECTED, session.topic.name)
            self._departures.producer_leaves(session.producer_id, farewell)

    def topic_closed(self, topic: AnyTopic, farewell: Farewell) -> None:
        """Forget the producers of a topic that is gone, and have them told."""
        for identity in topic.producers:
            self._sessions.pop(identity, None)
            self._departures.producer_leaves(identity, farewell)
        topic.producers.clear()

    def sweep(self) -> None:
        """Forget those not heard of for SESSION_FORGET_S seconds; they revive by sending."""
        for session in list(self._sessions.values()):
            session.idle_sweeps += 1
            if session.idle_sweeps > _SWEEPS_TO_FORGET and not session.streams:
                self._forget(session)

    def _close_stream(self, stream: "ProducerStream") -> None:
        if stream.hold is not None:
            self._access.release(stream.hold)
        self._stream_ended(stream.producer)

    def _stream_ended(self, session: ProducerSession) -> None:
        session.streams -= 1
        if not session.streams and not session.stays:
            self._forget(session)

    def _forget(self, session: ProducerSession) -> None:
        if self._sessions.get(session.producer_id) is session:
            del self._sessions[session.producer_id]
            session.topic.producers.discard(session.producer_id)

    async def _create_topic(self, request: CreateProducer) -> AnyTopic:
        self._topics.refuse_elsewhere(request.topic)
        if not self._auto_create:
            raise TopicNotFoundError(
                f"there is no topic {request.topic} and this broker does not create topics by itself: create it first"
            )
        return await self._topics.find_or_create(request.topic, request.strategy)

    def _revive(self, message: SendMessage) -> ProducerSession:
        topic = self._topics.find(message.topic)
        if topic is None or producer_id(topic.record.name, message.producer_name) != message.producer_id:
            raise self._departures.publish_refusal(message.producer_id)
        _refuse_audit_log(topic.record.name)
        if _is_full(topic):  # on a send this has to say "attach again": any other status is sent again for ever
            raise TopicNotServedError(
                f"producer {message.producer_id} is not attached to {topic.name}, which has all it may: create it"
            )
        return self._attach(topic, message.producer_id, message.producer_name)

    def _attach(self, topic: AnyTopic, identity: int, name: str) -> ProducerSession:
        session = self._sessions.get(identity)
        if session is None:
            if _is_full(topic):
                raise LimitReachedError(f"{topic.name} has {len(topic.producers)} producers, the most it may")
            session = self._sessions[identity] = ProducerSession(identity, name, topic)
            topic.producers.add(identity)
            self._departures.came_back(ClientKind.PRODUCER, identity)
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


def _is_full(topic: AnyTopic) -> bool:
    most = topic.limits.max_producers_per_topic or PRODUCERS_PER_TOPIC_MAX
    return len(topic.producers) >= min(most, PRODUCERS_PER_TOPIC_MAX)


def _refuse_audit_log(name: TopicName) -> None:
    if name.is_of(AUDIT_TOPIC):
        raise NotPermittedError(f"{name} is the audit log, which the broker writes alone: publish to another topic")


def _reliable(topic: AnyTopic) -> ReliableTopic:
    if not isinstance(topic, ReliableTopic):
        raise PreconditionFailedError(f"{topic.name} is not reliable: it keeps no messages and takes no batches")
    return topic


def _word(strategy: DispatchStrategy) -> str:
    return "reliable" if strategy is DispatchStrategy.RELIABLE else "non-reliable"
