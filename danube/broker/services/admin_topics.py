"""`danube_admin.TopicAdmin`: each method one line into `control/`."""

from danube.broker.services.admin_refusals import refuse
from danube.broker.services.answers import answer_change, answer_later, answer_now, making_room
from danube.broker.services.context import ServiceContext
from danube.rpc.carrier import Service
from danube.wire import decode_admin, decode_policies, encode_admin, encode_policies

_STANDS_ALONE = "a standalone broker has no other broker to move a topic to"


def topic_admin_service(context: ServiceContext) -> Service:
    """`danube_admin.TopicAdmin`."""
    topics, subscriptions, policies = context.control.topics, context.control.subscriptions, context.control.policies
    decode, encode = decode_admin, encode_admin
    return Service(
        "danube_admin.TopicAdmin",
        unary={
            "CreateTopic": answer_change(context, decode.create_topic, topics.create),
            "CreatePartitionedTopic": answer_change(
                context, decode.create_partitioned_topic, topics.create_partitioned
            ),
            "DeleteTopic": answer_change(context, decode.topic, making_room(context, topics.delete)),
            "Unsubscribe": answer_change(context, decode.unsubscribe, making_room(context, subscriptions.unsubscribe)),
            "ListNamespaceTopics": answer_later(context, decode.namespace, topics.in_namespace, encode.topics),
            "ListBrokerTopics": answer_now(decode.broker, topics.on_broker, encode.topics),
            "DescribeTopic": answer_later(context, decode.topic, topics.describe, encode.topic_details),
            "ListSubscriptions": answer_later(context, decode.topic, subscriptions.names, encode.subscriptions),
            "UnloadTopic": refuse(_STANDS_ALONE),
            "SetSubscriptionFailurePolicy": answer_change(
                context, decode_policies.set_failure_policy, policies.set_failure_policy
            ),
            "GetSubscriptionFailurePolicy": answer_now(
                decode_policies.get_failure_policy, policies.failure_policy, encode_policies.failure_policy
            ),
            "SetSubscriptionDispatchConfig": answer_change(
                context, decode_policies.set_dispatch_window, policies.set_window
            ),
            "GetSubscriptionDispatchConfig": answer_now(
                decode_policies.get_failure_policy, policies.window, encode_policies.dispatch_window
            ),
        },
    )
