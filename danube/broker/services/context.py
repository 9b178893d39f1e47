"""Context of a call: the parts of the broker that services use."""

from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from danube.broker.clients.consumers import Consumers
from danube.broker.clients.moves import Moves
from danube.broker.clients.producers import Producers
from danube.broker.control import Control
from danube.broker.policy.admission import Admission
from danube.broker.rates.quotas import Quotas
from danube.broker.security.gate import Gate
from danube.broker.telemetry.metrics import RpcCounts, Validations
from danube.broker.topics.drain import DisconnectedClients
from danube.broker.topics.local_topics import Topics
from danube.broker.topics.topic import ReliableTopic
from danube.model.calls.client import ClientKind, SendMessage
from danube.model.errors import DanubeError, InternalError
from danube.model.plans.plan import Effect
from danube.model.security.grants import Permission
from danube.rpc.carrier import UnaryCall
from danube.runtime.clock import Clock
from danube.runtime.tasks import TaskScope
from danube.security.decision import topic_target
from danube.wire import decode


def _answers() -> str | None:
    """No object store, which could be silent."""
    return None


async def _no_need() -> None:
    """Nothing to free."""


class SentMessage:
    """The message that the gate looked into, kept for the handler, which runs next: it is decoded once."""

    __slots__ = ("_message", "_request")

    def __init__(self) -> None:
        self._request = b""
        self._message: SendMessage | None = None

    def look(self, request: bytes) -> SendMessage:
        """The message, which stays until `take`. Raises InvalidRequestError."""
        message = decode.send_message(request)
        self._request, self._message = request, message
        return message

    def take(self, request: bytes) -> SendMessage:
        """The message, and nothing stays. Raises InvalidRequestError."""
        message = self._message
        if message is None or self._request is not request:
            return decode.send_message(request)
        self._request, self._message = b"", None
        return message


@dataclass(slots=True, kw_only=True)
class ServiceContext:
    """The broker, as its services see it."""

    topics: Topics
    producers: Producers
    consumers: Consumers
    disconnected_clients: DisconnectedClients
    moves: Moves
    admission: Admission
    control: Control
    counts: RpcCounts
    validations: Validations
    """Checks of messages against schemas."""
    clock: Clock
    tasks: TaskScope
    silence: Callable[[], str | None] = _answers
    """Answers the reason while the object store does not answer."""
    make_room: Callable[[], Coroutine[Any, Any, None]] = _no_need
    """Called before a deletion, which needs disk space itself."""
    gate: Gate | None = None
    """Authenticates and authorizes every call; None while security is off."""
    quotas: Quotas = field(default_factory=Quotas)
    sent: SentMessage = field(default_factory=SentMessage)
    broker_url: str = ""
    """Identity of this broker, with scheme; known once it listens."""
    connect_url: str = ""
    """URL that clients dial; differs from `broker_url` behind a proxy."""
    closing: DanubeError | None = None
    """Error of every call once the broker stops."""

    def reaches(self, permission: Permission, effect: Effect, topic: str) -> bool:
        """Tell whether the caller of now may do this to a topic that an id leads to."""
        return self.gate is None or self.gate.allows(permission, effect, topic_target(topic))

    def is_foreign(self, kind: ClientKind, identity: int) -> bool:
        """Tell whether a client is one of a topic that the caller of now may not use: it is answered as unknown."""
        is_producer = kind is ClientKind.PRODUCER
        clients: Producers | Consumers = self.producers if is_producer else self.consumers
        topic = clients.topic_name_of(identity) or self.disconnected_clients.topic_of(kind, identity)
        permission = Permission.PRODUCE if is_producer else Permission.CONSUME
        return topic is not None and not self.reaches(permission, Effect.READ, topic)

    async def weigh(self) -> None:
        """Count what each namespace stores here, for its quota."""
        if self.quotas.is_on:
            stored: Counter[str] = Counter()
            for topic in self.topics:
                if isinstance(topic, ReliableTopic):
                    stored[topic.record.name.namespace] += topic.log.body_bytes
            self.quotas.weigh(stored, self.clock.monotonic_s())

    def answer_later(self, call: UnaryCall, name: str, work: Callable[[], Coroutine[Any, Any, bytes]]) -> None:
        """Answer `call` with the result of `work`, or with the DanubeError it raises."""
        self.tasks.spawn(_answer(call, work), name)


async def _answer(call: UnaryCall, work: Callable[[], Coroutine[Any, Any, bytes]]) -> None:
    try:
        call.reply(await work())
    except DanubeError as error:
        call.fail(error)
    except BaseException:
        call.fail(InternalError("internal error; the broker's log has the details"))
        raise
