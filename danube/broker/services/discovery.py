"""Calls by which clients find topics and check that they are still attached."""

from collections.abc import Awaitable, Callable

from danube.broker.security.current import current_principal
from danube.broker.services.context import ServiceContext
from danube.metadata.records.catalog import TopicRecord
from danube.model.calls.client import (
    ClientKind,
    HealthCheck,
    HealthStatus,
    Lookup,
    LookupAnswer,
    LookupKind,
    PartitionsAnswer,
)
from danube.model.errors import TopicNotFoundError
from danube.rpc.carrier import UnaryCall, UnaryHandler
from danube.security.decision import Target
from danube.wire.client_messages import LOOKUP, LOOKUP_ANSWER, PARTITIONS_ANSWER


def list_namespaces(context: ServiceContext) -> Callable[[None], Awaitable[list[str]]]:
    """Answer the namespaces that the caller may see: those that a binding of it reaches, or has something in."""

    async def names(_: None) -> list[str]:
        found = await context.control.namespaces.names()
        gate, principal = context.gate, current_principal()
        if gate is None or principal is None:
            return found
        return [name for name in found if gate.sees(principal, Target(name))]

    return names


def topic_lookup(context: ServiceContext) -> UnaryHandler:
    """Answer the broker that serves a topic. The whole cluster is asked before a topic counts as missing."""

    def handle(request: bytes, call: UnaryCall) -> bytes | None:
        wanted = LOOKUP.decode(request)
        if context.topics.find(str(wanted.topic)) is not None:
            return _connect(context, wanted)
        record = context.topics.find_remote(wanted.topic)
        if record is not None:
            return _redirect(context, wanted, record)
        context.topics.refuse_remote(wanted.topic)
        if not context.topics.is_of_cluster:
            raise _unknown(wanted)

        async def ask() -> bytes:
            found = next(
                (one for one in await context.topics.of_cluster(wanted.topic) if one.name == wanted.topic), None
            )
            if found is None:
                raise _unknown(wanted)
            return _redirect(context, wanted, found)

        context.answer_later(call, "lookup", ask)
        return None

    return handle


def topic_partitions(context: ServiceContext) -> UnaryHandler:
    """Answer the topics behind a name, as above."""

    def handle(request: bytes, call: UnaryCall) -> bytes | None:
        wanted = LOOKUP.decode(request)
        found = context.topics.matching(wanted.topic)
        if found or not context.topics.is_of_cluster:
            return PARTITIONS_ANSWER.encode(PartitionsAnswer(request_id=wanted.request_id, partitions=tuple(found)))

        async def ask() -> bytes:
            names = tuple(record.name for record in await context.topics.of_cluster(wanted.topic))
            return PARTITIONS_ANSWER.encode(PartitionsAnswer(request_id=wanted.request_id, partitions=names))

        context.answer_later(call, "partitions", ask)
        return None

    return handle


def health_check(context: ServiceContext) -> Callable[[HealthCheck], HealthStatus]:
    """Answer whether a producer or consumer is still attached here.

    A drained client, and an unknown id, gets CLOSE, twice at most, and then NOT_FOUND. Leftover pollers of official
    clients keep asking about ids they have given up, and each further CLOSE would make them attach once more.
    Clients of topics that the caller may not use are answered as unknown ones.
    """

    def check(asked: HealthCheck) -> HealthStatus:
        is_producer = asked.client is ClientKind.PRODUCER
        if context.is_foreign(asked.client, asked.id):
            return context.disconnected_clients.health(asked.client, asked.id, is_foreign=True)
        is_known = context.producers.is_attached(asked.id) if is_producer else context.consumers.is_known(asked.id)
        if is_known and not context.disconnected_clients.is_draining(asked.client, asked.id):
            return HealthStatus.OK
        return context.disconnected_clients.health(asked.client, asked.id)

    return check


def _connect(context: ServiceContext, wanted: Lookup) -> bytes:
    return _answer(wanted, LookupKind.CONNECT, context.connect_url, context.broker_url)


def _redirect(context: ServiceContext, wanted: Lookup, record: TopicRecord) -> bytes:
    """Raises TopicNotServedError while the broker that serves the topic does not run."""
    server = context.topics.server_of(record)
    if server is None:
        return _connect(context, wanted)
    return _answer(wanted, LookupKind.REDIRECT, server.connect_url, server.broker_url)


def _answer(wanted: Lookup, kind: LookupKind, connect_url: str, broker_url: str) -> bytes:
    return LOOKUP_ANSWER.encode(
        LookupAnswer(
            request_id=wanted.request_id,
            kind=kind,
            connect_url=connect_url,
            broker_url=broker_url,
            proxy=connect_url != broker_url,
        )
    )


def _unknown(wanted: Lookup) -> TopicNotFoundError:
    return TopicNotFoundError(f"unable to find the requested topic: {wanted.topic}")
