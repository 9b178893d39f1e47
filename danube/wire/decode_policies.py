"""Protobuf bytes -> model values, for policies of subscriptions, topics and namespaces. Rejects as `decode` does."""

from danube.model.errors import InvalidRequestError
from danube.model.policies import (
    POLICY_NAMES,
    BackoffStrategy,
    FailurePolicy,
    Limits,
    PoisonPolicy,
    Policies,
    PoliciesView,
    PolicyChange,
    SetDispatchWindow,
    SetFailurePolicy,
    SetNamespacePolicies,
    SetTopicPolicies,
    SubscriptionName,
    check_window,
)
from danube.model.subscription import SubscriptionType
from danube.model.topic import TopicName, check_name_part
from danube.wire.gen import DanubeAdmin_pb2, DanubeControl_pb2
from danube.wire.interceptors import member, member_name, parse, topic_name

# Of a subscription, as the original has them


def set_failure_policy(request: bytes) -> SetFailurePolicy:
    """A SetSubscriptionFailurePolicyRequest."""
    message = parse(DanubeAdmin_pb2.SetSubscriptionFailurePolicyRequest, request)
    if not message.HasField("failure_policy"):
        raise InvalidRequestError("the request has no failure_policy: send the whole policy, it replaces the one set")
    return SetFailurePolicy(
        name=subscription_name(message.topic, message.subscription), policy=_failure_policy(message.failure_policy)
    )


def get_failure_policy(request: bytes) -> SubscriptionName:
    """A GetSubscriptionFailurePolicyRequest or a GetSubscriptionDispatchConfigRequest, which have one layout."""
    message = parse(DanubeAdmin_pb2.GetSubscriptionFailurePolicyRequest, request)
    return subscription_name(message.topic, message.subscription)


def set_dispatch_window(request: bytes) -> SetDispatchWindow:
    """A SetSubscriptionDispatchConfigRequest."""
    message = parse(DanubeAdmin_pb2.SetSubscriptionDispatchConfigRequest, request)
    if not message.HasField("dispatch_config"):
        raise InvalidRequestError("the request has no dispatch_config: send max_unacked_messages in it")
    return SetDispatchWindow(
        name=subscription_name(message.topic, message.subscription),
        window=check_window(message.dispatch_config.max_unacked_messages),
    )


def subscription_name(topic: str, subscription: str) -> SubscriptionName:
    """Both parts of a subscription's name, checked."""
    return SubscriptionName(topic=topic_name(topic), subscription=member_name("subscription", subscription))


def failure_policy(response: bytes) -> tuple[FailurePolicy | None, SubscriptionType]:
    """A GetSubscriptionFailurePolicyResponse: what was set, if anything was, and the subscription's type."""
    message = parse(DanubeAdmin_pb2.GetSubscriptionFailurePolicyResponse, response)
    policy = _failure_policy(message.failure_policy) if message.HasField("failure_policy") else None
    return policy, member(SubscriptionType, message.subscription_type)


def _failure_policy(message: DanubeAdmin_pb2.SubscriptionFailurePolicy) -> FailurePolicy:
    return FailurePolicy(
        max_redelivery_count=message.max_redelivery_count,
        ack_timeout_ms=message.ack_timeout_ms,
        base_redelivery_delay_ms=message.base_redelivery_delay_ms,
        max_redelivery_delay_ms=message.max_redelivery_delay_ms,
        backoff=member(BackoffStrategy, message.backoff_strategy),
        dead_letter_topic=topic_name(message.dead_letter_topic) if message.dead_letter_topic else None,
        poison=member(PoisonPolicy, message.poison_policy),
    )


def dispatch_window(response: bytes) -> int | None:
    """A GetSubscriptionDispatchConfigResponse: what was set, if anything was."""
    message = parse(DanubeAdmin_pb2.GetSubscriptionDispatchConfigResponse, response)
    return message.dispatch_config.max_unacked_messages if message.HasField("dispatch_config") else None


# Of topics and namespaces, ours alone


def namespace_policies_of(request: bytes) -> str:
    """A PoliciesOf a namespace."""
    return check_name_part("namespace", parse(DanubeControl_pb2.PoliciesOf, request).name)


def topic_policies_of(request: bytes) -> TopicName:
    """A PoliciesOf a topic."""
    return topic_name(parse(DanubeControl_pb2.PoliciesOf, request).name)


def set_namespace_policies(request: bytes) -> SetNamespacePolicies:
    """A SetPoliciesRequest for a namespace."""
    message = parse(DanubeControl_pb2.SetPoliciesRequest, request)
    return SetNamespacePolicies(namespace=check_name_part("namespace", message.name), change=_change(message))


def set_topic_policies(request: bytes) -> SetTopicPolicies:
    """A SetPoliciesRequest for a topic."""
    message = parse(DanubeControl_pb2.SetPoliciesRequest, request)
    return SetTopicPolicies(topic=topic_name(message.name), change=_change(message))


def _change(message: DanubeControl_pb2.SetPoliciesRequest) -> PolicyChange:
    return PolicyChange(given=_policies(message.policies), unset=frozenset(message.unset))


def policies_view(response: bytes) -> PoliciesView:
    """A PoliciesView."""
    message = parse(DanubeControl_pb2.PoliciesView, response)
    return PoliciesView(own=_policies(message.own), holding=Limits(**_given(message.holding)))


def _policies(message: DanubeControl_pb2.TopicPolicies) -> Policies:
    return Policies(**_given(message))


def _given(message: DanubeControl_pb2.TopicPolicies) -> dict[str, int]:
    return {name: int(getattr(message, name)) for name in POLICY_NAMES if message.HasField(name)}
