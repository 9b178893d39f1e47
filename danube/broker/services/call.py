"""Entries of the call catalogue: resource, permission, effect and handler of a call."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, TypeVar

from danube.broker.control import Control
from danube.broker.security.gate import Gate
from danube.broker.services.context import ServiceContext
from danube.model.errors import UnsupportedError
from danube.model.plans.plan import Effect
from danube.model.security.principal import Principal
from danube.rpc.carrier import StreamFactory, UnaryCall, UnaryHandler
from danube.security.decision import CLUSTER, Target, topic_target
from danube.wire.codec import Codec
from danube.wire.parsing import texts_of

Wanted = TypeVar("Wanted")
Answer = TypeVar("Answer")
MakeHandler = Callable[[ServiceContext], UnaryHandler]
MakeStream = Callable[[ServiceContext], StreamFactory]
FindTargets = Callable[[ServiceContext, bytes], Sequence[Target]]
"""Objects that a request names, before it is handled; none: it touches nothing. Raises InvalidRequestError."""
Authorize = Callable[[Gate, Principal, bytes], None]

_TOPIC_FIELDS = ("topic", "topic_name", "name", "base_name", "topics")
_NAMESPACE_FIELDS = ("namespace", "name")


class Resource(StrEnum):
    """Object of a call, and the scope of its permission."""

    CLUSTER = "cluster"
    BROKER = "broker"
    NAMESPACE = "namespace"
    TOPIC = "topic"
    SUBJECT = "subject"
    """Of the schema registry."""


class Action(StrEnum):
    """Permission that a call takes, by the original's names."""

    EVERYBODY = "-"
    """None, and no proof of who calls: the calls that answer a proof."""
    ANY_CALLER = ""
    """None, but proof of who calls."""
    LOOKUP = "Lookup"
    PRODUCE = "Produce"
    CONSUME = "Consume"
    REPLICATE = "Replicate"
    """For the brokers of the cluster alone."""
    APPROVE = "Approve"
    MANAGE_TOPIC = "ManageTopic"
    MANAGE_NAMESPACE = "ManageNamespace"
    MANAGE_BROKER = "ManageBroker"
    MANAGE_SCHEMA = "ManageSchema"
    MANAGE_CLUSTER = "ManageCluster"


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One entry, with one of the three handlers."""

    resource: Resource
    action: Action
    effect: Effect
    unary: MakeHandler | None = None
    server_stream: MakeStream | None = None
    """One request, many answers."""
    stream: MakeStream | None = None
    """Messages both ways."""
    targets: FindTargets | None = None
    """Finds what the request names, of a stream its first message; the whole cluster where it is None."""
    authorize: Authorize | None = None
    """For a call whose permission follows from its request: raises NotPermittedError."""


@dataclass(frozen=True, slots=True)
class Scope:
    """Makes entries of one resource and one action. `method` finds the method of the broker's control."""

    resource: Resource
    action: Action

    def now(
        self,
        effect: Effect,
        request: Codec[Wanted],
        method: Callable[[Control], Callable[[Wanted], Answer]],
        answer: Codec[Answer],
    ) -> Call:
        """A call that is answered at once, from memory."""
        handler = now(request, lambda context: method(context.control), answer)
        return self.unary(effect, handler, targets=self.named_in(request))

    def later(
        self,
        effect: Effect,
        request: Codec[Wanted],
        method: Callable[[Control], Callable[[Wanted], Awaitable[Answer]]],
        answer: Codec[Answer],
        *,
        makes_room: bool = False,
        targets: FindTargets | None = None,
    ) -> Call:
        """A call that is answered later; see the function `later`. `targets` finds what no usual field names."""
        handler = later(request, lambda context: method(context.control), answer, makes_room=makes_room)
        return self.unary(effect, handler, targets=targets or self.named_in(request))

    def refused(self, effect: Effect, reason: str) -> Call:
        """A call of the original without a meaning here: every request gets an UnsupportedError."""
        return self.unary(effect, _refuse(reason))

    def unary(self, effect: Effect, make: MakeHandler, *, targets: FindTargets | None = None) -> Call:
        """A call with one request and one answer."""
        return Call(resource=self.resource, action=self.action, effect=effect, unary=make, targets=targets)

    def server_stream(self, effect: Effect, make: MakeStream, *, targets: FindTargets | None = None) -> Call:
        """A call with one request and many answers."""
        return Call(resource=self.resource, action=self.action, effect=effect, server_stream=make, targets=targets)

    def stream(self, effect: Effect, make: MakeStream, *, targets: FindTargets | None = None) -> Call:
        """A call with messages both ways."""
        return Call(resource=self.resource, action=self.action, effect=effect, stream=make, targets=targets)

    def named_in(self, request: Codec[Any]) -> FindTargets | None:
        """Find the topics or the namespaces that a request names in the fields of their usual names."""
        if self.resource is Resource.TOPIC:
            topics, within = texts_of(request.kind, _TOPIC_FIELDS), texts_of(request.kind, _NAMESPACE_FIELDS[:1])
            return lambda _, data: [*map(topic_target, topics(data)), *map(_namespace, within(data))] or [CLUSTER]
        if self.resource is Resource.SUBJECT:  # bound like a topic of that name, as in the original
            subjects = texts_of(request.kind, ("subject",))
            return lambda _, data: [Target("", name) for name in subjects(data)] or [CLUSTER]
        if self.resource is Resource.NAMESPACE:
            found = texts_of(request.kind, _NAMESPACE_FIELDS)
            return lambda _, data: [*map(_namespace, found(data))] or [CLUSTER]
        return None


def _namespace(name: str) -> Target:
    return Target(name.strip("/"))


def now(
    request: Codec[Wanted], method: Callable[[ServiceContext], Callable[[Wanted], Answer]], answer: Codec[Answer]
) -> MakeHandler:
    """Make a handler that answers at once, from memory."""

    def make(context: ServiceContext) -> UnaryHandler:
        ask = method(context)
        return lambda data, _: answer.encode(ask(request.decode(data)))

    return make


def later(
    request: Codec[Wanted],
    method: Callable[[ServiceContext], Callable[[Wanted], Awaitable[Answer]]],
    answer: Codec[Answer],
    *,
    makes_room: bool = False,
) -> MakeHandler:
    """Make a handler that decodes or refuses the request at once, and answers it later.

    A call that deletes makes room: on a full disk it may use the reserved space.
    """

    def make(context: ServiceContext) -> UnaryHandler:
        ask = method(context)

        def handle(data: bytes, call: UnaryCall) -> None:
            wanted = request.decode(data)

            async def work() -> bytes:
                if makes_room:
                    await context.make_room()
                return answer.encode(await ask(wanted))

            context.answer_later(call, "answer a call", work)

        return handle

    return make


def in_cluster(call: Call, reason: str) -> Call:
    """The same call, refused by a broker outside a cluster."""
    make = call.unary or _refuse(reason)

    def make_or_refuse(context: ServiceContext) -> UnaryHandler:
        return _refuse(reason)(context) if context.control.cluster.is_alone else make(context)

    return replace(call, unary=make_or_refuse)


def _refuse(reason: str) -> MakeHandler:
    def handle(data: bytes, call: UnaryCall) -> bytes:  # noqa: ARG001 - whatever is asked
        raise UnsupportedError(reason)

    return lambda _: handle
