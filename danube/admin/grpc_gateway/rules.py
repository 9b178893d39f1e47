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
from danube.wire import decode_policies, decode_positions, encode_policies, encode_positions

_POLICIES = "/danube.control.Policies"
_POSITIONS = "/danube.control.Positions"


class RuleCalls:
    """The part of `AdminGateway` that sets and shows rules and positions; see there."""

    _line: BrokerConnection
    _calls: AdminCalls
    _original: OriginalAnswers
    _is_ours: Callable[[], Awaitable[bool]]
    _require_ours: Callable[[str], Awaitable[None]]

    # Of a subscription. Both kinds of brokers keep policies for one that does not exist yet. The original answers for
    # whatever names it is given, so it is asked whether they are there.

    async def failure_policy(self, name: SubscriptionName) -> tuple[FailurePolicy | None, SubscriptionType]:
        request = encode_policies.get_failure_policy(name)
        answer = await self._calls.at(name.topic, f"{TOPICS}/GetSubscriptionFailurePolicy", request)
        policy, kind = decode_policies.failure_policy(answer)
        if policy is None:
            await self._require_subscription(name)
        return policy, kind

    async def set_failure_policy(self, wanted: SetFailurePolicy) -> None:
        await self._require_topic(wanted.name.topic)
        request = encode_policies.set_failure_policy(wanted)
        await self._calls.done_at(wanted.name.topic, f"{TOPICS}/SetSubscriptionFailurePolicy", request)

    async def dispatch_window(self, name: SubscriptionName) -> int | None:
        request = encode_policies.get_failure_policy(name)  # the two requests have one layout
        answer = await self._calls.at(name.topic, f"{TOPICS}/GetSubscriptionDispatchConfig", request)
        window = decode_policies.dispatch_window(answer)
        if window is None:
            await self._require_subscription(name)
        return window

    async def set_dispatch_window(self, wanted: SetDispatchWindow) -> None:
        await self._require_topic(wanted.name.topic)
        request = encode_policies.set_dispatch_window(wanted)
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
        request = encode_policies.namespace_policies_of(namespace)
        return decode_policies.policies_view(await self._line.call(f"{_POLICIES}/GetNamespacePolicies", request))

    async def set_namespace_policies(self, wanted: SetNamespacePolicies) -> PoliciesView:
        await self._require_ours("change limits while it runs")
        request = encode_policies.set_policies(wanted)
        return decode_policies.policies_view(await self._line.call(f"{_POLICIES}/SetNamespacePolicies", request))

    async def topic_policies(self, topic: TopicName) -> PoliciesView:
        await self._require_ours("tell limits of a topic")
        request = encode_policies.topic_policies_of(topic)
        return decode_policies.policies_view(await self._calls.at(topic, f"{_POLICIES}/GetTopicPolicies", request))

    async def set_topic_policies(self, wanted: SetTopicPolicies) -> PoliciesView:
        await self._require_ours("set limits of a topic")
        request = encode_policies.set_policies(wanted)
        return decode_policies.policies_view(
            await self._calls.at(wanted.topic, f"{_POLICIES}/SetTopicPolicies", request)
        )

    # Positions and connections

    async def create_subscription(self, wanted: CreateSubscription) -> SubscriptionPosition:
        await self._require_ours("create subscriptions that nobody subscribes to")
        request = encode_positions.create_subscription(wanted)
        return decode_positions.position(
            await self._calls.at(wanted.name.topic, f"{_POSITIONS}/CreateSubscription", request)
        )

    async def retry_blocked(self, name: SubscriptionName) -> SubscriptionPosition:
        await self._require_ours("retry what blocks a subscription")
        request = encode_positions.subscription(name)
        return decode_positions.position(await self._calls.at(name.topic, f"{_POSITIONS}/RetryBlocked", request))

    async def peek(self, wanted: PeekMessages) -> PeekedPage:
        await self._require_ours("show stored messages")
        return decode_positions.peeked(
            await self._calls.at(wanted.topic, f"{_POSITIONS}/Peek", encode_positions.peek(wanted))
        )

    async def add_partitions(self, wanted: AddPartitions) -> Sequence[TopicName]:
        await self._require_ours("add partitions")
        request = encode_positions.add_partitions(wanted)
        return decode_positions.partitions(await self._calls.at(wanted.base, f"{_POSITIONS}/AddPartitions", request))

    async def topic_connections(self, topic: TopicName) -> tuple[Sequence[Connection], int]:
        await self._require_ours("tell who is connected")
        request = encode_positions.list_connections(topic)
        return decode_positions.connections(await self._calls.at(topic, f"{_POSITIONS}/ListConnections", request))

    async def disconnect(self, wanted: DisconnectClient) -> None:
        await self._require_ours("disconnect clients")
        request = encode_positions.disconnect_client(wanted)
        await self._calls.at(wanted.topic, f"{_POSITIONS}/DisconnectClient", request)
