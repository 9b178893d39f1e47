"""Policies, positions and connections over gRPC: what the original answers too, and what is ours alone."""

from collections.abc import Awaitable, Callable, Sequence

from danube.admin.grpc_gateway.broker_connection import BrokerConnection
from danube.admin.grpc_gateway.calls import TOPICS, AdminCalls
from danube.admin.grpc_gateway.original import OriginalAnswers
from danube.model.calls.positions import (
    AddPartitions,
    Connection,
    CreateSubscription,
    DisconnectClient,
    PeekedPage,
    PeekMessages,
    SubscriptionPosition,
)
from danube.model.policies import (
    FailurePolicy,
    PoliciesView,
    SetDispatchWindow,
    SetFailurePolicy,
    SetNamespacePolicies,
    SetTopicPolicies,
    SubscriptionName,
)
from danube.model.subscription import SubscriptionType
from danube.model.topic import TopicName
from danube.wire import admin_messages, control_messages

_POLICIES = "/danube.control.Policies"
_POSITIONS = "/danube.control.Positions"


class RuleCalls:
    """The part of `AdminGateway` that sets and shows rules and positions; see there."""

    _broker: BrokerConnection
    _calls: AdminCalls
    _original: OriginalAnswers
    _is_ours: Callable[[], Awaitable[bool]]
    _require_ours: Callable[[str], Awaitable[None]]

    # Of a subscription. Both kinds of brokers keep policies for one that does not exist yet. The original answers for
    # whatever names it is given, so it is asked whether they are there.

    async def failure_policy(self, name: SubscriptionName) -> tuple[FailurePolicy | None, SubscriptionType]:
        request = admin_messages.SUBSCRIPTION.encode(name)
        answer = await self._calls.at(name.topic, f"{TOPICS}/GetSubscriptionFailurePolicy", request)
        policy, kind = admin_messages.FAILURE_POLICY.decode(answer)
        if policy is None:
            await self._require_subscription(name)
        return policy, kind

    async def set_failure_policy(self, wanted: SetFailurePolicy) -> None:
        await self._require_topic(wanted.name.topic)
        request = admin_messages.SET_FAILURE_POLICY.encode(wanted)
        await self._calls.done_at(wanted.name.topic, f"{TOPICS}/SetSubscriptionFailurePolicy", request)

    async def dispatch_window(self, name: SubscriptionName) -> int | None:
        request = admin_messages.SUBSCRIPTION.encode(name)  # the two requests have one layout
        answer = await self._calls.at(name.topic, f"{TOPICS}/GetSubscriptionDispatchConfig", request)
        window = admin_messages.DISPATCH_WINDOW.decode(answer)
        if window is None:
            await self._require_subscription(name)
        return window

    async def set_dispatch_window(self, wanted: SetDispatchWindow) -> None:
        await self._require_topic(wanted.name.topic)
        request = admin_messages.SET_DISPATCH_WINDOW.encode(wanted)
        await self._calls.done_at(wanted.name.topic, f"{TOPICS}/SetSubscriptionDispatchConfig", request)

    async def _require_topic(self, topic: TopicName) -> None:
        if not await self._is_ours():
            await self._original.require_topic(topic)

    async def _require_subscription(self, name: SubscriptionName) -> None:
        if not await self._is_ours():
            await self._original.require_subscription(name)

    # Of topics and namespaces

    async def namespace_limits(self, namespace: str) -> PoliciesView:
        await self._require_ours("tell all limits of a namespace")
        request = control_messages.NAMESPACE_POLICIES_OF.encode(namespace)
        return control_messages.POLICIES_VIEW.decode(
            await self._broker.call(f"{_POLICIES}/GetNamespacePolicies", request)
        )

    async def set_namespace_policies(self, wanted: SetNamespacePolicies) -> PoliciesView:
        await self._require_ours("change limits while it runs")
        request = control_messages.SET_NAMESPACE_POLICIES.encode(wanted)
        return control_messages.POLICIES_VIEW.decode(
            await self._broker.call(f"{_POLICIES}/SetNamespacePolicies", request)
        )

    async def topic_policies(self, topic: TopicName) -> PoliciesView:
        await self._require_ours("tell limits of a topic")
        request = control_messages.TOPIC_POLICIES_OF.encode(topic)
        return control_messages.POLICIES_VIEW.decode(
            await self._calls.at(topic, f"{_POLICIES}/GetTopicPolicies", request)
        )

    async def set_topic_policies(self, wanted: SetTopicPolicies) -> PoliciesView:
        await self._require_ours("set limits of a topic")
        request = control_messages.SET_TOPIC_POLICIES.encode(wanted)
        return control_messages.POLICIES_VIEW.decode(
            await self._calls.at(wanted.topic, f"{_POLICIES}/SetTopicPolicies", request)
        )

    # Positions and connections

    async def create_subscription(self, wanted: CreateSubscription) -> SubscriptionPosition:
        await self._require_ours("create subscriptions that nobody subscribes to")
        request = control_messages.CREATE_SUBSCRIPTION.encode(wanted)
        return control_messages.POSITION.decode(
            await self._calls.at(wanted.name.topic, f"{_POSITIONS}/CreateSubscription", request)
        )

    async def retry_blocked(self, name: SubscriptionName) -> SubscriptionPosition:
        await self._require_ours("retry what blocks a subscription")
        request = control_messages.SUBSCRIPTION.encode(name)
        return control_messages.POSITION.decode(await self._calls.at(name.topic, f"{_POSITIONS}/RetryBlocked", request))

    async def peek(self, wanted: PeekMessages) -> PeekedPage:
        await self._require_ours("show stored messages")
        return control_messages.PEEKED.decode(
            await self._calls.at(wanted.topic, f"{_POSITIONS}/Peek", control_messages.PEEK.encode(wanted))
        )

    async def add_partitions(self, wanted: AddPartitions) -> Sequence[TopicName]:
        await self._require_ours("add partitions")
        request = control_messages.ADD_PARTITIONS.encode(wanted)
        return control_messages.PARTITIONS.decode(
            await self._calls.at(wanted.base, f"{_POSITIONS}/AddPartitions", request)
        )

    async def topic_connections(self, topic: TopicName) -> tuple[Sequence[Connection], int]:
        await self._require_ours("tell who is connected")
        request = control_messages.LIST_CONNECTIONS.encode(topic)
        return control_messages.CONNECTIONS.decode(
            await self._calls.at(topic, f"{_POSITIONS}/ListConnections", request)
        )

    async def disconnect(self, wanted: DisconnectClient) -> None:
        await self._require_ours("disconnect clients")
        request = control_messages.DISCONNECT_CLIENT.encode(wanted)
        await self._calls.at(wanted.topic, f"{_POSITIONS}/DisconnectClient", request)
