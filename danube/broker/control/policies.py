"""Policies of subscriptions, topics and namespaces: stored in the metadata, and applied at once."""

import asyncio
from dataclasses import replace

from danube.broker.control.topics import served_topic
from danube.broker.dispatch.events import PolicyChanged, WindowChanged
from danube.broker.topics.local_topics import Topics
from danube.broker.topics.subscription_policies import change_pending, dead_letters_reach, has_pending
from danube.broker.topics.topic import ReliableTopic
from danube.metadata.records.catalog import ExtraWrites, Records, SubscriptionRecord
from danube.model.errors import InvalidRequestError, PreconditionFailedError
from danube.model.policies import (
    FailurePolicy,
    PendingPolicies,
    PoliciesView,
    SetDispatchWindow,
    SetFailurePolicy,
    SetNamespacePolicies,
    SetTopicPolicies,
    SubscriptionName,
)
from danube.model.subscription import SubscriptionType
from danube.model.topic import TopicName

_SYSTEM = "system"


class PolicyControl:
    """Policies of subscriptions, topics and namespaces: show and set."""

    def __init__(self, topics: Topics, records: Records) -> None:
        self._topics = topics
        self._records = records
        self._changing_dead_letters = asyncio.Lock()
        """Held from looking where dead letters go to changing it: two at once could make a circle."""

    async def set_failure_policy(self, wanted: SetFailurePolicy, *, extra_writes: ExtraWrites | None = None) -> None:
        """Replace a subscription's failure policy, at once and durably, with `extra_writes` in the same transaction.

        The policy of a subscription that does not exist yet is kept until it is created.

        Raises:
            TopicNotFoundError, LimitReachedError.
            PreconditionFailedError: the topic, or the dead letter topic, is not reliable.
            InvalidRequestError: dead letters would return to their source, or cannot be stored at all.
        """
        topic = self._reliable(wanted.name.topic)
        async with self._changing_dead_letters, topic.changing:
            if wanted.policy.dead_letters_go_to is not None:
                self._check_target(wanted.name.topic, wanted.policy.dead_letters_go_to)
            topic.check_open()
            name, policy = wanted.name.subscription, wanted.policy
            subscription = topic.subscriptions.get(name)
            if subscription is None:
                await change_pending(
                    topic,
                    self._records,
                    name,
                    lambda one: replace(one, failure_policy=policy),
                    extra_writes=extra_writes,
                )
                return
            record = await self._records.set_failure_policy(wanted.name.topic, name, policy, extra_writes=extra_writes)
            subscription.record = record
            subscription.driver.handle(PolicyChanged(self._topics.dispatch.policy_of(record)))

    def failure_policy(self, name: SubscriptionName) -> tuple[FailurePolicy | None, SubscriptionType | None]:
        """The failure policy that was set, if any, and the subscription's type; no type while it does not exist.

        Raises TopicNotFoundError, PreconditionFailedError, and SubscriptionNotFoundError where nothing is set either.
        """
        found = self._found(name)
        return found.failure_policy, found.type if isinstance(found, SubscriptionRecord) else None

    async def set_window(self, wanted: SetDispatchWindow) -> None:
        """Replace the maximum of unacknowledged messages per consumer; at once for connected ones.

        The value for a subscription that does not exist yet is kept until it is created. Raises TopicNotFoundError,
        LimitReachedError, PreconditionFailedError.
        """
        topic = self._reliable(wanted.name.topic)
        async with topic.changing:
            topic.check_open()
            name, window = wanted.name.subscription, wanted.window
            subscription = topic.subscriptions.get(name)
            if subscription is None:
                await change_pending(topic, self._records, name, lambda one: replace(one, window=window))
                return
            record = await self._records.set_window(wanted.name.topic, name, window)
            subscription.record = record
            subscription.driver.handle(WindowChanged(wanted.window))

    def window(self, name: SubscriptionName) -> int | None:
        """The window that was set, if any. Raises as `failure_policy`."""
        return self._found(name).window

    async def namespace_policies(self, namespace: str) -> PoliciesView:
        """The limits of a namespace. Raises NamespaceNotFoundError."""
        record = await self._records.namespace(namespace)
        return PoliciesView(own=record.policies, holding=self._topics.limits_of(namespace))

    async def set_namespace_policies(self, wanted: SetNamespacePolicies) -> PoliciesView:
        """Change the limits of a namespace; answers them. Raises NamespaceNotFoundError."""
        record = await self._topics.change_namespace_policies(wanted.namespace, wanted.change)
        return PoliciesView(own=record.policies, holding=self._topics.limits_of(wanted.namespace))

    def topic_policies(self, name: TopicName) -> PoliciesView:
        """The limits of a topic, or of the first partition of a base name.

        Raises TopicNotFoundError, TopicNotServedError.
        """
        topic = self._topics.get((self._topics.matching(name) or [name])[0])
        # What keeps nothing is not to be taken for synced.
        holding = topic.limits if isinstance(topic, ReliableTopic) else replace(topic.limits, durability=None)
        return PoliciesView(own=topic.record.policies, holding=holding)

    async def set_topic_policies(self, wanted: SetTopicPolicies) -> PoliciesView:
        """Change the limits of a topic, or of all partitions of a base name. Raises TopicNotFoundError."""
        self.topic_policies(wanted.topic)  # what cannot be answered is not changed
        await self._topics.change_topic_policies(wanted.topic, wanted.change)
        return self.topic_policies(wanted.topic)

    def dropping(self, name: SubscriptionName) -> tuple[int, FailurePolicy | None, int]:
        """Topic id, failure policy and blocking messages of a subscription, before a policy that drops.

        Raises TopicNotFoundError, PreconditionFailedError.
        """
        topic = self._reliable(name.topic)
        subscription = topic.subscriptions.get(name.subscription)
        if subscription is None:
            return topic.record.topic_id, topic.record.pending_of(name.subscription).failure_policy, 0
        blocked = subscription.driver.engine.blocked_messages
        return topic.record.topic_id, subscription.record.failure_policy, blocked

    def _found(self, name: SubscriptionName) -> SubscriptionRecord | PendingPolicies:
        topic = self._reliable(name.topic)
        if has_pending(topic, name.subscription):
            return topic.record.pending_of(name.subscription)
        return topic.subscription(name.subscription).record

    def _reliable(self, name: TopicName) -> ReliableTopic:
        topic = served_topic(self._topics, name)
        if not isinstance(topic, ReliableTopic):
            raise PreconditionFailedError(f"{name} is not reliable: it sends nothing again, and has no such policy")
        return topic

    def _check_target(self, source: TopicName, target: TopicName) -> None:
        if target.namespace == _SYSTEM:
            raise InvalidRequestError(f"{target} is the broker's own: send dead letters to another namespace")
        if source in dead_letters_reach(self._topics.find, target):
            raise InvalidRequestError(
                f"dead letters of {source} that go to {target} would come back to it: choose another topic"
            )
        found = self._topics.matching(target)
        if found and found != [target]:
            raise InvalidRequestError(f"{target} has {len(found)} partitions: send dead letters to one of them")
        topic = self._topics.find(str(target))
        if topic is not None and not isinstance(topic, ReliableTopic):
            raise PreconditionFailedError(f"{target} is not reliable and would keep nothing: choose another topic")
