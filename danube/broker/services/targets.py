"""Targets of the calls that are decoded by hand: the topics that clients' requests name."""

from collections.abc import Sequence
from dataclasses import replace

from danube.broker.security.gate import Gate
from danube.broker.services.call import Call
from danube.broker.services.context import ServiceContext
from danube.model.calls.consume import ConsumeOpen
from danube.model.calls.stream import PublishOpen
from danube.model.errors import DanubeError, InvalidRequestError
from danube.model.plans.plan import Arguments, PlanApplication, PlanRequest
from danube.model.security.grants import Permission
from danube.model.security.principal import Principal
from danube.security.decision import CLUSTER, Target, topic_target
from danube.wire import client_messages, decode
from danube.wire.codec import Codec
from danube.wire.gen import DanubeAdmin_pb2
from danube.wire.parsing import parse
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
    """Find the topic of a consumer that receives."""
    return _of_consumer(context, client_messages.RECEIVE.decode(request).consumer_id)


def closed_consumer(context: ServiceContext, request: bytes) -> Sequence[Target]:
    """Find the topic of a consumer that leaves."""
    return _of_consumer(context, client_messages.CLOSE_CONSUMER.decode(request))


def closed_producer(context: ServiceContext, request: bytes) -> Sequence[Target]:
    """Find the topic of a producer that leaves."""
    topic = context.producers.topic_name_of(client_messages.CLOSE_PRODUCER.decode(request))
    return NOTHING if topic is None else (topic_target(topic),)


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


def dead_lettered(_: ServiceContext, request: bytes) -> Sequence[Target]:
    """Find the topic of a failure policy and the one of its dead letters: the broker publishes there by itself."""
    wanted = parse(DanubeAdmin_pb2.SetSubscriptionFailurePolicyRequest, request)
    return [topic_target(topic) for topic in (wanted.topic, wanted.failure_policy.dead_letter_topic) if topic] or [
        CLUSTER
    ]


def fetched(_: ServiceContext, request: bytes) -> Sequence[Target]:
    """Find the topic that is read without a subscription."""
    return (topic_target(str(client_messages.FETCH.decode(request).topic)),)


def _of_consumer(context: ServiceContext, consumer_id: int) -> Sequence[Target]:
    try:
        return (topic_target(str(context.consumers.get(consumer_id).topic.record.name)),)
    except DanubeError:
        return NOTHING


_PLANNED = {
    "delete_namespace": Permission.MANAGE_NAMESPACE,
    "unload_broker": Permission.MANAGE_BROKER,
    "delete_schema_version": Permission.MANAGE_SCHEMA,
}


def by_operation(call: Call, request: Codec[PlanRequest] | Codec[PlanApplication]) -> Call:
    """The same call of a plan, with the permission of the operation that the plan is for.

    A plan is applied only with the operation and the arguments that it was made for: both calls need the same.
    """

    def authorize(gate: Gate, principal: Principal, data: bytes) -> None:
        wanted = request.decode(data)
        permission, target = planned(wanted.operation, wanted.arguments)
        gate.check(principal, permission, call.effect, (target,))

    return replace(call, authorize=authorize)


def planned(operation: str, arguments: Arguments) -> tuple[Permission, Target]:
    """Permission and target of an operation that acts by a plan: of its topic or namespace, else of the cluster."""
    topic, namespace = arguments.get("topic"), arguments.get("namespace")
    permission = _PLANNED.get(operation)
    if isinstance(topic, str) and permission is None:
        return Permission.MANAGE_TOPIC, topic_target(topic if topic.startswith("/") else f"/{topic}")
    if isinstance(namespace, str):
        return permission or Permission.MANAGE_NAMESPACE, Target(namespace.strip("/"))
    return permission or Permission.MANAGE_CLUSTER, CLUSTER
