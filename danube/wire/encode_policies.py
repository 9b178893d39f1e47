"""Model values -> protobuf bytes, for policies of subscriptions, topics and namespaces."""

from collections.abc import Mapping
from dataclasses import asdict

from danube.model.policies import (
    FailurePolicy,
    Limits,
    Policies,
    PoliciesView,
    SetDispatchWindow,
    SetFailurePolicy,
    SetNamespacePolicies,
    SetTopicPolicies,
    SubscriptionName,
)
from danube.model.subscription import SubscriptionType
from danube.model.topic import TopicName
from danube.wire.gen import DanubeAdmin_pb2, DanubeControl_pb2

# Of a subscription, as the original has them


def set_failure_policy(call: SetFailurePolicy) -> bytes:
    """A SetSubscriptionFailurePolicyRequest."""
    message = DanubeAdmin_pb2.SetSubscriptionFailurePolicyRequest(
        topic=str(call.name.topic),
        subscription=call.name.subscription,
        failure_policy=_failure_policy(call.policy),
    )
    return message.SerializeToString()


def get_failure_policy(name: SubscriptionName) -> bytes:
    """A GetSubscriptionFailurePolicyRequest or a GetSubscriptionDispatchConfigRequest, which have one layout."""
    message = DanubeAdmin_pb2.GetSubscriptionFailurePolicyRequest(topic=str(name.topic), subscription=name.subscription)
    return message.SerializeToString()


def set_dispatch_window(call: SetDispatchWindow) -> bytes:
    """A SetSubscriptionDispatchConfigRequest."""
    message = DanubeAdmin_pb2.SetSubscriptionDispatchConfigRequest(
        topic=str(call.name.topic),
        subscription=call.name.subscription,
        dispatch_config=DanubeAdmin_pb2.SubscriptionDispatchConfig(max_unacked_messages=call.window),
    )
    return message.SerializeToString()


def failure_policy(answer: tuple[FailurePolicy | None, SubscriptionType | None]) -> bytes:
    """A GetSubscriptionFailurePolicyResponse; as the original, it has type 0 while there is no subscription."""
    policy, kind = answer
    message = DanubeAdmin_pb2.GetSubscriptionFailurePolicyResponse(
        failure_policy=_failure_policy(policy) if policy else None, subscription_type=kind or 0
    )
    return message.SerializeToString()


def _failure_policy(policy: FailurePolicy) -> DanubeAdmin_pb2.SubscriptionFailurePolicy:
    return DanubeAdmin_pb2.SubscriptionFailurePolicy(
        max_redelivery_count=policy.max_redelivery_count,
        ack_timeout_ms=policy.ack_timeout_ms,
        base_redelivery_delay_ms=policy.base_redelivery_delay_ms,
        max_redelivery_delay_ms=policy.max_redelivery_delay_ms,
        backoff_strategy=policy.backoff,
        dead_letter_topic=str(policy.dead_letter_topic) if policy.dead_letter_topic else None,
        poison_policy=policy.poison,
    )


def dispatch_window(window: int | None) -> bytes:
    """A GetSubscriptionDispatchConfigResponse."""
    config = None if window is None else DanubeAdmin_pb2.SubscriptionDispatchConfig(max_unacked_messages=window)
    return DanubeAdmin_pb2.GetSubscriptionDispatchConfigResponse(dispatch_config=config).SerializeToString()


# Of topics and namespaces, ours alone


def namespace_policies_of(namespace: str) -> bytes:
    """A PoliciesOf a namespace."""
    return DanubeControl_pb2.PoliciesOf(name=namespace).SerializeToString()


def topic_policies_of(topic: TopicName) -> bytes:
    """A PoliciesOf a topic."""
    return DanubeControl_pb2.PoliciesOf(name=str(topic)).SerializeToString()


def set_policies(call: SetNamespacePolicies | SetTopicPolicies) -> bytes:
    """A SetPoliciesRequest."""
    message = DanubeControl_pb2.SetPoliciesRequest(
        name=call.namespace if isinstance(call, SetNamespacePolicies) else str(call.topic),
        policies=_policies(call.change.given),
        unset=sorted(call.change.unset),
    )
    return message.SerializeToString()


def policies_view(view: PoliciesView) -> bytes:
    """A PoliciesView."""
    message = DanubeControl_pb2.PoliciesView(own=_policies(view.own), holding=_limits(view.holding))
    return message.SerializeToString()


def _policies(policies: Policies) -> DanubeControl_pb2.TopicPolicies:
    return _topic_policies(policies.given())


def _limits(limits: Limits) -> DanubeControl_pb2.TopicPolicies:
    return _topic_policies(asdict(limits))


def _topic_policies(values: Mapping[str, int | None]) -> DanubeControl_pb2.TopicPolicies:
    message = DanubeControl_pb2.TopicPolicies()
    for name, value in values.items():
        if value is not None:
            setattr(message, name, value)  # the one truth value among them takes 0 and 1, too
    return message
