"""`danube_admin.TopicAdmin`: each method one line into `control/`."""

from danube.broker.services.admin_refusals import refuse
from danube.broker.services.context import ServiceContext
from danube.rpc.carrier import Service, UnaryCall, UnaryHandler
from danube.wire import decode_admin, encode_admin

_STANDS_ALONE = "a standalone broker has no other broker to move a topic to"
_NO_POLICIES = "failure policies and dispatch settings of a subscription come with a later version"


def topic_admin_service(context: ServiceContext) -> Service:
    """`danube_admin.TopicAdmin`, as far as this version goes."""
    return Service(
        "danube_admin.TopicAdmin",
        unary={
            **_changes(context),
            **_views(context),
            "UnloadTopic": refuse(_STANDS_ALONE),
            "SetSubscriptionFailurePolicy": refuse(_NO_POLICIES),
            "GetSubscriptionFailurePolicy": refuse(_NO_POLICIES),
            "SetSubscriptionDispatchConfig": refuse(_NO_POLICIES),
            "GetSubscriptionDispatchConfig": refuse(_NO_POLICIES),
        },
    )


def _changes(context: ServiceContext) -> dict[str, UnaryHandler]:
    topics, subscriptions = context.control.topics, context.control.subscriptions

    def create_topic(request: bytes, call: UnaryCall) -> None:
        wanted = decode_admin.create_topic(request)

        async def work() -> bytes:
            await topics.create(wanted)
            return encode_admin.success()

        context.answer_later(call, "create topic", work)

    def create_partitioned_topic(request: bytes, call: UnaryCall) -> None:
        wanted = decode_admin.create_partitioned_topic(request)

        async def work() -> bytes:
            await topics.create_partitioned(wanted)
            return encode_admin.success()

        context.answer_later(call, "create partitioned topic", work)

    def delete_topic(request: bytes, call: UnaryCall) -> None:
        name = decode_admin.topic(request)

        async def work() -> bytes:
            await topics.delete(name)
            return encode_admin.success()

        context.answer_later(call, "delete topic", work)

    def unsubscribe(request: bytes, call: UnaryCall) -> None:
        wanted = decode_admin.unsubscribe(request)

        async def work() -> bytes:
            await subscriptions.unsubscribe(wanted)
            return encode_admin.success()

        context.answer_later(call, "unsubscribe", work)

    return {
        "CreateTopic": create_topic,
        "CreatePartitionedTopic": create_partitioned_topic,
        "DeleteTopic": delete_topic,
        "Unsubscribe": unsubscribe,
    }


def _views(context: ServiceContext) -> dict[str, UnaryHandler]:
    topics, subscriptions = context.control.topics, context.control.subscriptions

    def list_namespace_topics(request: bytes, call: UnaryCall) -> None:
        namespace = decode_admin.namespace(request)

        async def work() -> bytes:
            return encode_admin.topics(await topics.in_namespace(namespace))

        context.answer_later(call, "list topics of a namespace", work)

    def list_broker_topics(request: bytes, call: UnaryCall) -> bytes:  # noqa: ARG001 - answered at once
        return encode_admin.topics(topics.on_broker(decode_admin.broker(request)))

    def describe_topic(request: bytes, call: UnaryCall) -> bytes:  # noqa: ARG001 - answered at once
        return encode_admin.topic_details(topics.describe(decode_admin.topic(request)))

    def list_subscriptions(request: bytes, call: UnaryCall) -> bytes:  # noqa: ARG001 - answered at once
        return encode_admin.subscriptions(subscriptions.names(decode_admin.topic(request)))

    return {
        "ListNamespaceTopics": list_namespace_topics,
        "ListBrokerTopics": list_broker_topics,
        "DescribeTopic": describe_topic,
        "ListSubscriptions": list_subscriptions,
    }
