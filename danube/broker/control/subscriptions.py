"""Subscriptions, for administrators."""

from danube.broker.clients.consumers import Consumers
from danube.broker.control.describe import AnySubscription
from danube.broker.control.topics import served_topic
from danube.broker.telemetry.system_topics import refuse_at_once
from danube.broker.topics.local_topics import Topics
from danube.broker.topics.subscription_policies import has_pending
from danube.broker.topics.topic import AnyTopic
from danube.metadata.records.catalog import ExtraWrites
from danube.model.calls.admin import Unsubscribe
from danube.model.topic import TopicName


class SubscriptionControl:
    """Subscriptions of this broker's topics: list and delete."""

    def __init__(self, topics: Topics, consumers: Consumers) -> None:
        self._topics = topics
        self._consumers = consumers

    async def names(self, topic: TopicName) -> list[str]:
        """The names of a topic's subscriptions, sorted. Raises TopicNotFoundError, also for a base name."""
        if self._topics.find_remote(topic) is not None:
            return [one.name for one in await self._topics.remote_subscriptions(topic)]
        return sorted(served_topic(self._topics, topic).subscriptions)

    def unused(self, wanted: Unsubscribe) -> tuple[AnyTopic, AnySubscription]:
        """The subscription that `unsubscribe` would delete now, and its topic. Raises as `unsubscribe`."""
        topic = served_topic(self._topics, wanted.topic)
        return topic, self._consumers.unused_subscription(topic, wanted.subscription)

    def pending(self, wanted: Unsubscribe) -> AnyTopic | None:
        """The topic, if the subscription does not exist yet and has policies. Raises TopicNotFoundError."""
        topic = served_topic(self._topics, wanted.topic)
        return topic if has_pending(topic, wanted.subscription) else None

    async def unsubscribe(self, wanted: Unsubscribe, *, extra_writes: ExtraWrites | None = None) -> None:
        """Delete a subscription without connected consumers, with its position.

        If it does not exist yet, its pending policies are deleted. `extra_writes` goes into the same transaction.

        Raises:
            What `extra_writes` raises.
            TopicNotFoundError, SubscriptionNotFoundError.
            PreconditionFailedError: a consumer is connected, or the topic is a system topic and there is no plan;
            nothing was changed.
        """
        served_topic(self._topics, wanted.topic)
        if extra_writes is None:
            refuse_at_once(wanted.topic, "unsubscribe")
        await self._consumers.unsubscribe(wanted.topic, wanted.subscription, extra_writes=extra_writes)
