"""Targets and effects that single requests tell, and the principals that they give rights to."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from danube.broker.security.gate import Gate
from danube.broker.services.call import Call
from danube.broker.services.context import ServiceContext
from danube.model.calls.client import ClientKind
from danube.model.calls.consume import ConsumeOpen
from danube.model.calls.stream import PublishOpen
from danube.model.errors import InvalidRequestError
from danube.model.plans.plan import Arguments, Effect, PlanApplication, PlanRequest
from danube.model.policies import PoisonPolicy
from danube.model.security.grants import Permission
from danube.model.security.principal import Principal
from danube.security.decision import CLUSTER, Target, topic_target
from danube.wire import admin_messages, client_messages, decode, plan_messages, schema_messages
from danube.wire.codec import Codec
from danube.wire.gen import DanubeAdmin_pb2
from danube.wire.parsing import parse
from danube.wire.security import messages
from danube.wire.stream import consume

NOTHING: tuple[Target, ...] = ()
"""An id that is not known here: the handler refuses it."""


def sent(context: ServiceContext, request: bytes) -> Sequence[Target]:
    """Find the topic of a message; the handler refuses a producer of another topic."""
    return (topic_target(context.sent.look(request).topic),)


def acknowledged(_: ServiceContext, request: bytes) -> Sequence[Target]:
    """Find the topic of an acknowledgement."""
    return (topic_target(str(decode.acknowledge(request).topic)),)


def negatively_acknowledged(_: ServiceContext, request: bytes) -> Sequence[Target]:
    """Find the topic of a negative acknowledgement."""
    return (topic_target(str(decode.negative_acknowledge(request).topic)),)


def looked_up(_: ServiceContext, request: bytes) -> Sequence[Target]:
    """Find the topic of a lookup."""
    return (topic_target(str(client_messages.LOOKUP.decode(request).topic)),)


def received(context: ServiceContext, request: bytes) -> Sequence[Target]:
    """Find the topic of a consumer that receives; the handler answers one of others as an unknown one."""
    consumer_id = client_messages.RECEIVE.decode(request).consumer_id
    topic = context.consumers.topic_name_of(consumer_id)
    is_foreign = context.is_foreign(ClientKind.CONSUMER, consumer_id)
    return NOTHING if topic is None or is_foreign else (topic_target(topic),)


def published(_: ServiceContext, request: bytes) -> Sequence[Target]:
    """Find the topic of a publish stream in its first message."""
    wanted = decode.publish_request(request)
    if not isinstance(wanted, PublishOpen):
        raise InvalidRequestError("a batch came before the stream was opened: open it with the first message")
    return (topic_target(str(wanted.topic)),)


def consumed(_: ServiceContext, request: bytes) -> Sequence[Target]:
    """Find the topic of a consume stream in its first message."""
    wanted = consume.request(request)
    if not isinstance(wanted, ConsumeOpen):
        raise InvalidRequestError("the stream was not opened: open it with the first message")
    return (topic_target(str(wanted.subscribe.topic)),)


def schema_found(_: ServiceContext, request: bytes) -> Sequence[Target]:
    """Find the subject that is named. Ids go before it, and the registry checks the subject that they lead to."""
    wanted = schema_messages.FIND_VERSION.decode(request)
    by_id = wanted.number or wanted.schema_id
    return [Target("", wanted.subject)] if wanted.subject else NOTHING if by_id else [CLUSTER]


def fetched(_: ServiceContext, request: bytes) -> Sequence[Target]:
    """Find the topic that is read without a subscription."""
    return (topic_target(str(client_messages.FETCH.decode(request).topic)),)


def of_a_client(call: Call, kind_of: Callable[[bytes], ClientKind]) -> Call:
    """The same call about a client by its id, for whoever may publish to or consume from some topic.

    Its handler answers clients of topics that the caller may not use as unknown ones: ids tell nobody what there is.
    A stream is held to its targets besides.
    """

    def authorize(gate: Gate, principal: Principal, data: bytes) -> None:
        is_producer = kind_of(data) is ClientKind.PRODUCER
        gate.check_anywhere(principal, Permission.PRODUCE if is_producer else Permission.CONSUME, call.effect)

    return replace(call, authorize=authorize)


def carrying_messages(call: Call) -> Call:
    """The same call of a failure policy, which has the broker carry messages to the topic of dead letters.

    Whoever sets that has to be allowed to carry them there itself.
    """

    def authorize(gate: Gate, principal: Principal, data: bytes) -> None:
        wanted = parse(DanubeAdmin_pb2.SetSubscriptionFailurePolicyRequest, data)
        source = topic_target(wanted.topic) if wanted.topic else CLUSTER
        target = [topic_target(name) for name in (wanted.failure_policy.dead_letter_topic,) if name]
        effect = call.effect_of(data)
        gate.check(principal, Permission(call.action), effect, (source, *target))
        if target:
            gate.check(principal, Permission.CONSUME, effect, (source,))
            gate.check(principal, Permission.PRODUCE, effect, target)

    return replace(call, authorize=authorize)


_PLANNED = {
    "delete_namespace": Permission.MANAGE_NAMESPACE,
    "unload_broker": Permission.MANAGE_BROKER,
    "delete_schema_version": Permission.MANAGE_SCHEMA,
    **dict.fromkeys(("delete_role", "delete_binding", "delete_api_key", "revoke_tokens"), Permission.MANAGE_CLUSTER),
}


def by_operation(call: Call, request: Codec[PlanRequest] | Codec[PlanApplication]) -> Call:
    """The same call of a plan, with the permission of the operation that the plan is for.

    A plan is applied only with the operation and the arguments that it was made for: both calls need the same.
    """

    def authorize(gate: Gate, principal: Principal, data: bytes) -> None:
        wanted = request.decode(data)
        permission, target = planned(wanted.operation, wanted.arguments)
        gate.check(principal, permission, Effect.WRITE, (target,))  # what it destroys is the plan's matter

    return replace(call, authorize=authorize)


def planned(operation: str, arguments: Arguments) -> tuple[Permission, Target]:
    """Permission and target of a planned operation: of its topic, namespace or subject, else of the cluster."""
    topic, namespace, subject = (arguments.get(name) for name in ("topic", "namespace", "subject"))
    permission = _PLANNED.get(operation)
    if permission is Permission.MANAGE_CLUSTER:
        return permission, CLUSTER
    if permission is Permission.MANAGE_SCHEMA:
        return permission, Target("", subject) if isinstance(subject, str) else CLUSTER
    if isinstance(topic, str) and permission is None:
        return Permission.MANAGE_TOPIC, topic_target(topic if topic.startswith("/") else f"/{topic}")
    if isinstance(namespace, str):
        return permission or Permission.MANAGE_NAMESPACE, Target(namespace.strip("/"))
    return permission or Permission.MANAGE_CLUSTER, CLUSTER


def of_failure_policy(request: bytes) -> Effect:
    """A policy that drops passes over messages for good."""
    policy = admin_messages.SET_FAILURE_POLICY.decode(request).policy
    return Effect.DESTROY if policy.poison is PoisonPolicy.DROP else Effect.WRITE


def of_mode(request: bytes) -> Effect:
    """The mode of a subject is asked for by the call that sets it."""
    return Effect.READ if schema_messages.SET_MODE.decode(request).ask else Effect.WRITE


def of_new_plan(request: bytes) -> Effect:
    """A dry run leaves nothing behind."""
    return Effect.READ if plan_messages.CREATE_PLAN.decode(request).dry_run else Effect.WRITE


def granted_by_key(_: ServiceContext, request: bytes) -> Iterable[str]:
    """The owner of the key."""
    return [messages.CREATE_API_KEY.decode(request).principal_name]


def granted_by_binding(_: ServiceContext, request: bytes) -> Iterable[str]:
    """The principal that is bound."""
    return [messages.CREATE_BINDING.decode(request).principal_name]


def granted_by_role(context: ServiceContext, request: bytes) -> Iterable[str]:
    """The principals that hold the role by now, where it grants more than before."""
    return context.control.security.gainers(messages.CREATE_ROLE.decode(request))
