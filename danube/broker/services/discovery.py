"""Discovery: which broker serves a topic, and what its partitions are."""

from danube.broker.services.context import ServiceContext
from danube.metadata.records.catalog import TopicRecord
from danube.model.calls.client import Lookup, LookupAnswer, LookupKind, PartitionsAnswer
from danube.model.errors import TopicNotFoundError
from danube.rpc.carrier import Service, UnaryCall
from danube.wire import decode, encode


def discovery_service(context: ServiceContext) -> Service:
    """`danube.Discovery`. What is not known here is asked of the whole cluster before it is said not to be there."""

    def topic_lookup(request: bytes, call: UnaryCall) -> bytes | None:
        wanted = decode.lookup(request)
        if context.topics.find(str(wanted.topic)) is not None:
            return _here(context, wanted)
        record = context.topics.other(wanted.topic)
        if record is not None:
            return _there(context, wanted, record)
        context.topics.refuse_remote(wanted.topic)
        if not context.topics.is_of_cluster:
            raise _unknown(wanted)

        async def ask() -> bytes:
            found = next(
                (one for one in await context.topics.of_cluster(wanted.topic) if one.name == wanted.topic), None
            )
            if found is None:
                raise _unknown(wanted)
            return _there(context, wanted, found)

        context.answer_later(call, "lookup", ask)
        return None

    def topic_partitions(request: bytes, call: UnaryCall) -> bytes | None:
        wanted = decode.lookup(request)
        found = context.topics.matching(wanted.topic)
        if found or not context.topics.is_of_cluster:
            return encode.partitions_answer(PartitionsAnswer(request_id=wanted.request_id, partitions=tuple(found)))

        async def ask() -> bytes:
            names = tuple(record.name for record in await context.topics.of_cluster(wanted.topic))
            return encode.partitions_answer(PartitionsAnswer(request_id=wanted.request_id, partitions=names))

        context.answer_later(call, "partitions", ask)
        return None

    return Service("danube.Discovery", unary={"TopicLookup": topic_lookup, "TopicPartitions": topic_partitions})


def _here(context: ServiceContext, wanted: Lookup) -> bytes:
    return _answer(wanted, LookupKind.CONNECT, context.connect_url, context.broker_url)


def _there(context: ServiceContext, wanted: Lookup, record: TopicRecord) -> bytes:
    """Raises TopicNotServedError while the broker that serves it does not run."""
    server = context.topics.server_of(record)
    if server is None:
        return _here(context, wanted)
    return _answer(wanted, LookupKind.REDIRECT, server.connect_url, server.broker_url)


def _answer(wanted: Lookup, kind: LookupKind, connect_url: str, broker_url: str) -> bytes:
    return encode.lookup_answer(
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
