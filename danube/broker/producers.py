"""Producer sessions: which producers are attached, and to which topic.

An id follows from topic and name, so a message that names both revives its producer: after a restart running
producers go on without noticing.
"""

from dataclasses import dataclass

from danube.broker.topic import AnyTopic
from danube.broker.topics import Topics
from danube.model.audit import AUDIT_TOPIC
from danube.model.calls import CreateProducer, SendMessage
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
from danube.model.topic import DispatchStrategy, TopicName

_SWEEPS_TO_FORGET = int(SESSION_FORGET_S / SWEEP_INTERVAL_S)


@dataclass(slots=True)
class ProducerSession:
    """One attached producer."""

    producer_id: int
    topic: AnyTopic
    idle_sweeps: int = 0
    """Sweeps since it was last heard of."""


class Producers:
    """The producers of this broker."""

    def __init__(self, topics: Topics, *, auto_create_topics: bool) -> None:
        self._topics = topics
        self._auto_create = auto_create_topics
        self._sessions: dict[int, ProducerSession] = {}

    async def create(self, request: CreateProducer) -> int:
        """Attach a producer, creating its topic if that is allowed; answers its id, the same for the same name.

        Raises:
            DispatchStrategyMismatchError, TopicNotFoundError, NamespaceNotFoundError, TopicExistsError,
            PreconditionFailedError, LimitReachedError.
            NotPermittedError: to the audit log, which the broker writes alone.
        """
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
        return self._attach(topic, producer_id(request.topic, request.producer_name)).producer_id

    def topic_of(self, message: SendMessage) -> AnyTopic:
        """The topic that a message goes to.

        Raises TopicNotServedError when its producer or topic is not here: clients then look up and attach anew. Raises
        NotPermittedError as `create` does.
        """
        session = self._sessions.get(message.producer_id)
        if session is None:
            session = self._revive(message)
        elif session.topic.name != message.topic:
            raise TopicNotServedError(f"producer {message.producer_id} is not attached to {message.topic[:300]}")
        session.idle_sweeps = 0
        return session.topic

    def is_attached(self, identity: int) -> bool:
        """Whether this producer is known; asking counts as a sign of life."""
        session = self._sessions.get(identity)
        if session is not None:
            session.idle_sweeps = 0
        return session is not None

    def topic_closed(self, topic: AnyTopic) -> None:
        """Forget the producers of a topic that is gone."""
        for identity in topic.producers:
            self._sessions.pop(identity, None)
        topic.producers.clear()

    def sweep(self) -> None:
        """Forget those not heard of for SESSION_FORGET_S seconds; they revive by sending."""
        for session in list(self._sessions.values()):
            session.idle_sweeps += 1
            if session.idle_sweeps > _SWEEPS_TO_FORGET:
                del self._sessions[session.producer_id]
                session.topic.producers.discard(session.producer_id)

    async def _create_topic(self, request: CreateProducer) -> AnyTopic:
        if not self._auto_create:
            raise TopicNotFoundError(
                f"there is no topic {request.topic} and this broker does not create topics by itself: create it first"
            )
        return await self._topics.find_or_create(request.topic, request.strategy)

    def _revive(self, message: SendMessage) -> ProducerSession:
        topic = self._topics.find(message.topic)
        if topic is None or producer_id(topic.record.name, message.producer_name) != message.producer_id:
            raise TopicNotServedError(
                f"producer {message.producer_id} is not attached to this broker: look the topic up and create it again"
            )
        _refuse_audit_log(topic.record.name)
        return self._attach(topic, message.producer_id)

    def _attach(self, topic: AnyTopic, identity: int) -> ProducerSession:
        session = self._sessions.get(identity)
        if session is None:
            if len(topic.producers) >= PRODUCERS_PER_TOPIC_MAX:
                raise LimitReachedError(f"{topic.name} has {PRODUCERS_PER_TOPIC_MAX} producers, the most it may")
            session = self._sessions[identity] = ProducerSession(identity, topic)
            topic.producers.add(identity)
        return session


def _refuse_audit_log(name: TopicName) -> None:
    if name == AUDIT_TOPIC:
        raise NotPermittedError(f"{name} is the audit log, which the broker writes alone: publish to another topic")


def _word(strategy: DispatchStrategy) -> str:
    return "reliable" if strategy is DispatchStrategy.RELIABLE else "non-reliable"
