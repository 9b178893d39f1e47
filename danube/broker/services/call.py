"""Entries of the call catalogue: resource, permission, effect, audit rule and handler of a call."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, TypeVar

from danube.broker.control import Control
from danube.broker.security.gate import Gate
from danube.broker.services.context import ServiceContext
from danube.model.errors import DanubeError, UnsupportedError
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
GrantsTo = Callable[[ServiceContext, bytes], Iterable[str]]

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


class Audit(StrEnum):
    """Rule of the audit log for a call."""

    RECORDED = "recorded"
    """The broker records it, with what was asked, before it begins: nothing is done before the record is durable."""
    ROUTINE = "routine"
    """It only reads, or is the everyday work of applications and brokers."""


_EVERYDAY = {Action.LOOKUP, Action.PRODUCE, Action.CONSUME}
_UNKNOWN = {Action.EVERYBODY, Action.ANY_CALLER}
"""Nothing follows from these: a call that changes something says its rule itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One entry, with one of the three handlers."""

    resource: Resource
    action: Action
    effect: Effect
    audit: Audit | None = None
    """Follows from effect and action where it is not given; see `rule`."""
    request: Codec[Any] | None = None
    """Of a request, for its record."""
    effect_in: Callable[[bytes], Effect] | None = None
    """Effect of one request, where that may be another than the call's: a dry run reads, some values destroy."""
    grants_to: GrantsTo | None = None
    """Names of the principals that a request gives rights to."""
    has_consent: bool = False
    """Carries out a plan, under the rules of that: no approval besides."""
    plan_in: Callable[[bytes], str] | None = None
    """Id of the plan that an answer tells, of a call that makes one."""
    makes_room: bool = False
    """It may use the reserved space of a full disk, also for its record."""
    unary: MakeHandler | None = None
    server_stream: MakeStream | None = None
    """One request, many answers."""
    stream: MakeStream | None = None
    """Messages both ways."""
    targets: FindTargets | None = None
    """Finds what the request names, of a stream its first message; the whole cluster where it is None."""
    authorize: Authorize | None = None
    """For a call whose permission follows from its request: raises NotPermittedError."""

    @property
    def rule(self) -> Audit | None:
        """The rule of the audit log; None where none is given and none follows."""
        if self.audit is not None:
            return self.audit
        if self.effect.is_planned:
            return Audit.RECORDED
        if self.effect is Effect.READ or self.action in _EVERYDAY:
            return Audit.ROUTINE
        return None if self.action in _UNKNOWN else Audit.RECORDED

    def effect_of(self, request: bytes) -> Effect:
        """Effect of one request; of one that cannot be read, which its handler refuses, that of the call."""
        try:
            return self.effect if self.effect_in is None else self.effect_in(request)
        except DanubeError:
            return self.effect

    def problem(self) -> str:
        """The reason why a broker does not start with this entry; empty for a whole one."""
        for word, value, kind in (("resource", self.resource, Resource), ("effect", self.effect, Effect)):
            if not isinstance(value, kind):
                return f"it has no {word}"
        if self.rule is None:
            return "it has no audit rule, and none follows from its effect and action"
        if self.rule is Audit.RECORDED and (self.request is None or self.unary is None):
            return "it is recorded, and nothing reads its request"
        return ""


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
        call = self.unary(effect, handler, targets=self.named_in(request))
        return replace(call, request=request)

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
        call = self.unary(effect, handler, targets=targets or self.named_in(request))
        return replace(call, request=request, makes_room=makes_room)

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


def routine(call: Call) -> Call:
    """The same call, as everyday work that the broker does not record."""
    return replace(call, audit=Audit.ROUTINE)


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
