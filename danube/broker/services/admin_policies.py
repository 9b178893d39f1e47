"""`danube.control.Policies`, ours alone: each method one line into `control/`."""

from danube.broker.services.answers import answer_later, answer_now
from danube.broker.services.context import ServiceContext
from danube.rpc.carrier import Service
from danube.wire import decode_policies as decode
from danube.wire import encode_policies as encode


def policies_service(context: ServiceContext) -> Service:
    """`danube.control.Policies`."""
    policies, view = context.control.policies, encode.policies_view
    return Service(
        "danube.control.Policies",
        unary={
            "GetNamespacePolicies": answer_later(
                context, decode.namespace_policies_of, policies.namespace_policies, view
            ),
            "SetNamespacePolicies": answer_later(
                context, decode.set_namespace_policies, policies.set_namespace_policies, view
            ),
            "GetTopicPolicies": answer_now(decode.topic_policies_of, policies.topic_policies, view),
            "SetTopicPolicies": answer_later(context, decode.set_topic_policies, policies.set_topic_policies, view),
        },
    )
