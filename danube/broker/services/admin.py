"""The admin services, each method one line into `control/`."""

from danube.broker.services.context import ServiceContext
from danube.rpc.carrier import Service, UnaryCall
from danube.wire import decode_admin, encode_admin


def topic_admin_service(context: ServiceContext) -> Service:
    """`danube_admin.TopicAdmin`, as far as this version goes."""
    control = context.control

    def create_topic(request: bytes, call: UnaryCall) -> None:
        wanted = decode_admin.create_topic(request)

        async def work() -> bytes:
            await control.create(wanted)
            return encode_admin.success()

        context.answer_later(call, "create topic", work)

    def create_partitioned_topic(request: bytes, call: UnaryCall) -> None:
        wanted = decode_admin.create_partitioned_topic(request)

        async def work() -> bytes:
            await control.create_partitioned(wanted)
            return encode_admin.success()

        context.answer_later(call, "create partitioned topic", work)

    def delete_topic(request: bytes, call: UnaryCall) -> None:
        wanted = decode_admin.delete_topic(request)

        async def work() -> bytes:
            await control.delete(wanted.topic)
            return encode_admin.success()

        context.answer_later(call, "delete topic", work)

    def list_namespace_topics(request: bytes, call: UnaryCall) -> bytes:  # noqa: ARG001 - answered at once
        return encode_admin.topics(control.list(decode_admin.list_namespace_topics(request).namespace))

    return Service(
        "danube_admin.TopicAdmin",
        unary={
            "CreateTopic": create_topic,
            "CreatePartitionedTopic": create_partitioned_topic,
            "DeleteTopic": delete_topic,
            "ListNamespaceTopics": list_namespace_topics,
        },
    )
