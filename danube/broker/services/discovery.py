"""Discovery: which broker serves a topic, and what its partitions are."""

from danube.broker.services.context import ServiceContext
from danube.model.calls import LookupAnswer, LookupKind, PartitionsAnswer
from danube.model.errors import TopicNotFoundError
from danube.rpc.carrier import Service, UnaryCall
from danube.wire import decode, encode


def discovery_service(context: ServiceContext) -> Service:
    """`danube.Discovery`."""

    def topic_lookup(request: bytes, call: UnaryCall) -> bytes:  # noqa: ARG001 - answered at once
        wanted = decode.lookup(request)
        if context.topics.find(str(wanted.topic)) is None:
            context.topics.refuse_elsewhere(wanted.topic)
            raise TopicNotFoundError(f"unable to find the requested topic: {wanted.topic}")
        return encode.lookup_answer(
            LookupAnswer(
                request_id=wanted.request_id,
                kind=LookupKind.CONNECT,
                connect_url=context.connect_url,
                broker_url=context.broker_url,
                proxy=context.connect_url != context.broker_url,
            )
        )

    def topic_partitions(request: bytes, call: UnaryCall) -> bytes:  # noqa: ARG001 - answered at once
        wanted = decode.lookup(request)
        found = tuple(context.topics.matching(wanted.topic))
        return encode.partitions_answer(PartitionsAnswer(request_id=wanted.request_id, partitions=found))

    return Service("danube.Discovery", unary={"TopicLookup": topic_lookup, "TopicPartitions": topic_partitions})
