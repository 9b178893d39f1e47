"""The part of `MemoryGateway` that sets and shows rules and positions."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace

from danube.model.calls.positions import (
    AddPartitions,
    Connection,
    CreateSubscription,
    DisconnectClient,
    PeekedMessage,
    PeekedPage,
    PeekMessages,
    SubscriptionPosition,
)
from danube.model.errors import (
    AlreadyExistsError,
    NotFoundError,
    PreconditionFailedError,
    TopicNotFoundError,
)
from danube.model.limits.broker import CONNECTIONS_SHOWN_MAX
from danube.model.message import consumer_id, producer_id
from danube.model.policies import (
    NO_POLICIES,
    FailurePolicy,
    PoliciesView,
    SetDispatchWindow,
    SetFailurePolicy,
    SetNamespacePolicies,
    SetTopicPolicies,
    SubscriptionName,
    limits_of,
)
from danube.model.subscription import SubscriptionType
from danube.model.topic import TopicName
from danube.runtime.clock import Clock
from danube.testing.gateway.state import AS_SET_UP, MemoryCluster, MemorySubscription, MemoryTopic, offset_of


class MemoryRules(ABC):
    """Rules and positions of the cluster in memory."""

    clock: Clock
    cluster: MemoryCluster

    @abstractmethod
    async def _called(self, method: str, *, ours_alone: bool = False) -> None:
        """Take note of a call, and hold it up or refuse it."""

    # Policies

    async def failure_policy(self, name: SubscriptionName) -> tuple[FailurePolicy | None, SubscriptionType]:
        await self._called("failure_policy")
        subscription = self._with_policies(name)
        return subscription.failure_policy, subscription.type

    async def set_failure_policy(self, wanted: SetFailurePolicy) -> None:
        await self._called("set_failure_policy")
        self._with_policies(wanted.name, to_set=True).failure_policy = wanted.policy

    async def dispatch_window(self, name: SubscriptionName) -> int | None:
        await self._called("dispatch_window")
        return self._with_policies(name).window

    async def set_dispatch_window(self, wanted: SetDispatchWindow) -> None:
        await self._called("set_dispatch_window")
        self._with_policies(wanted.name, to_set=True).window = wanted.window

    async def namespace_limits(self, namespace: str) -> PoliciesView:
        await self._called("namespace_limits", ours_alone=True)
        self.cluster.require_namespace(namespace)
        own = self.cluster.policies.get(namespace, NO_POLICIES)
        return PoliciesView(own=own, holding=limits_of(own, AS_SET_UP))

    async def set_namespace_policies(self, wanted: SetNamespacePolicies) -> PoliciesView:
        await self._called("set_namespace_policies", ours_alone=True)
        shown = self.cluster.require_namespace(wanted.namespace)
        own = wanted.change.applied_to(self.cluster.policies.get(wanted.namespace, NO_POLICIES))
        self.cluster.policies[wanted.namespace] = own
        given = {name: value for name, value in own.given().items() if hasattr(shown, name)}
        self.cluster.namespaces[wanted.namespace] = replace(shown, **given)
        return PoliciesView(own=own, holding=limits_of(own, AS_SET_UP))

    async def topic_policies(self, topic: TopicName) -> PoliciesView:
        await self._called("topic_policies", ours_alone=True)
        return self._limits(self.cluster.behind(topic)[0])

    async def set_topic_policies(self, wanted: SetTopicPolicies) -> PoliciesView:
        await self._called("set_topic_policies", ours_alone=True)
        topics = self.cluster.behind(wanted.topic)
        for topic in topics:
            topic.policies = wanted.change.applied_to(topic.policies)
        return self._limits(topics[0])

    # Positions

    async def create_subscription(self, wanted: CreateSubscription) -> SubscriptionPosition:
        await self._called("create_subscription", ours_alone=True)
        topic, name = self.cluster.get(wanted.name.topic), wanted.name.subscription
        if name in topic.subscriptions:
            raise AlreadyExistsError(f"{topic.name} has a subscription {name!r} already")
        position = offset_of(topic, wanted.start) if topic.is_reliable else 0
        made = topic.pending.pop(name, MemorySubscription(name=name))
        made = replace(made, type=wanted.type, created_ms=self.clock.now_ms(), position=position)
        topic.subscriptions[name] = made
        return _position(topic, made)

    async def retry_blocked(self, name: SubscriptionName) -> SubscriptionPosition:
        await self._called("retry_blocked", ours_alone=True)
        topic, subscription = self._reliable(name)
        subscription.is_blocked = False
        return _position(topic, subscription)

    async def peek(self, wanted: PeekMessages) -> PeekedPage:
        await self._called("peek", ours_alone=True)
        topic = self.cluster.get(wanted.topic)
        if not topic.is_reliable:
            raise PreconditionFailedError(f"{topic.name} is not reliable: it keeps no messages")
        first = offset_of(topic, wanted.start)
        shown = range(first, min(first + wanted.count, topic.messages))
        messages = tuple(_peeked(topic, offset, wanted.payload_bytes_max) for offset in shown)
        return PeekedPage(messages=messages, start_offset=0, end_offset=topic.messages)

    async def add_partitions(self, wanted: AddPartitions) -> Sequence[TopicName]:
        await self._called("add_partitions", ours_alone=True)
        found = self.cluster.behind(wanted.base)
        if found[0].name == wanted.base:
            raise TopicNotFoundError(f"{wanted.base} has no partitions: only a partitioned topic gets more of them")
        first = len(found)
        for index in range(first, first + wanted.count):
            name = wanted.base.partition(index)
            self.cluster.add_topic(name, found[0].strategy, created_ms=self.clock.now_ms())
        return [topic.name for topic in self.cluster.behind(wanted.base)]

    # Connections

    async def topic_connections(self, topic: TopicName) -> tuple[Sequence[Connection], int]:
        await self._called("topic_connections", ours_alone=True)
        found = [each for one in self.cluster.behind(topic) for each in (*_consumers(one), *_producers(one))]
        found.sort(key=lambda each: (each.subscription is None, each.topic, each.subscription or "", each.name))
        return found[:CONNECTIONS_SHOWN_MAX], len(found)

    async def disconnect(self, wanted: DisconnectClient) -> None:
        await self._called("disconnect", ours_alone=True)
        topic = self.cluster.get(wanted.topic)
        for each in (*_consumers(topic), *_producers(topic)):
            if each.client_id == wanted.client_id:
                _take_away(topic, each)
                return
        raise NotFoundError(f"no client {wanted.client_id} is connected to {topic.name}: list its connections")

    # Beneath

    def _with_policies(self, name: SubscriptionName, *, to_set: bool = False) -> MemorySubscription:
        """The subscription, or what it will begin with."""
        topic = self.cluster.get(name.topic)
        if name.subscription in topic.subscriptions or not topic.is_reliable:
            return self._reliable(name)[1]
        if to_set:
            topic.pending.setdefault(name.subscription, MemorySubscription(name=name.subscription))
        return topic.pending.get(name.subscription) or self._reliable(name)[1]

    def _reliable(self, name: SubscriptionName) -> tuple[MemoryTopic, MemorySubscription]:
        if not self.cluster.get(name.topic).is_reliable:
            raise PreconditionFailedError(f"{name.topic} is not reliable: it sends nothing again")
        return self.cluster.subscription(name)

    def _limits(self, topic: MemoryTopic) -> PoliciesView:
        return PoliciesView(own=topic.policies, holding=self.cluster.limits(topic))


def _position(topic: MemoryTopic, subscription: MemorySubscription) -> SubscriptionPosition:
    lag = topic.messages - subscription.position if topic.is_reliable else 0
    return SubscriptionPosition(position=subscription.position, lag=lag)


def _peeked(topic: MemoryTopic, offset: int, payload_bytes_max: int) -> PeekedMessage:
    payload = topic.payload.encode()
    return PeekedMessage(
        offset=offset,
        append_time_ms=topic.created_ms,
        publish_time_ms=topic.created_ms,
        producer_name=topic.producer_names[0] if topic.producer_names else "",
        routing_key=None,
        attributes=(),
        payload=payload[:payload_bytes_max],
        payload_size=len(payload),
    )


def _consumers(topic: MemoryTopic) -> list[Connection]:
    return [
        Connection(
            topic=topic.name,
            client_id=consumer_id(topic.name, subscription.name, name),
            name=name,
            subscription=subscription.name,
        )
        for subscription in topic.subscriptions.values()
        for name in subscription.consumers
    ]


def _producers(topic: MemoryTopic) -> list[Connection]:
    return [
        Connection(topic=topic.name, client_id=producer_id(topic.name, name), name=name, subscription=None)
        for name in topic.producer_names
    ]


def _take_away(topic: MemoryTopic, client: Connection) -> None:
    if client.subscription is None:
        topic.producer_names.remove(client.name)
        topic.producers -= 1
    else:
        subscription = topic.subscriptions[client.subscription]
        subscription.consumers.remove(client.name)
        subscription.in_flight = 0
