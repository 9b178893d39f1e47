"""Admission: subscribing within the limits of a topic's policies.

Subscribes to such a topic are serialised, so that two cannot take the last place. A consumer counts while it is
connected, or has just subscribed.
"""

import asyncio
from weakref import WeakValueDictionary

from danube.broker.clients.consumers import Consumers
from danube.broker.topics.local_topics import Topics
from danube.broker.topics.topic import AnyTopic
from danube.model.calls.client import Subscribe
from danube.model.calls.stream import FetchFrom, FetchStart
from danube.model.errors import LimitReachedError
from danube.runtime.clock import Clock


class Admission:
    """Admits consumers."""

    def __init__(self, topics: Topics, consumers: Consumers, clock: Clock) -> None:
        self._topics = topics
        self._consumers = consumers
        self._clock = clock
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """By topic, while a Subscribe is under way."""

    async def subscribe(self, request: Subscribe, start: FetchStart = FetchFrom.LATEST) -> int:
        """As `Consumers.subscribe`. Raises LimitReachedError for a place that the topic's policies do not give."""
        topic = self._topics.find(str(request.topic))
        if topic is None or not _is_limited(topic):
            return await self._consumers.subscribe(request, start)
        lock = self._locks.setdefault(topic.name, asyncio.Lock())
        async with lock:
            self._check(topic, request)
            return await self._consumers.subscribe(request, start)

    def _check(self, topic: AnyTopic, request: Subscribe) -> None:
        limits, now_s = topic.limits, self._clock.monotonic_s()
        if request.subscription not in topic.subscriptions:
            _refuse_beyond(limits.max_subscriptions_per_topic, len(topic.subscriptions), topic.name, "subscriptions")
        counts = {
            name: sum(
                each.is_connected(now_s) and (name, each.name) != (request.subscription, request.consumer_name)
                for each in subscription.consumers.values()
            )
            for name, subscription in topic.subscriptions.items()
        }
        _refuse_beyond(limits.max_consumers_per_topic, sum(counts.values()), topic.name, "consumers")
        place = f"subscription {request.subscription!r} of {topic.name}"
        _refuse_beyond(limits.max_consumers_per_subscription, counts.get(request.subscription, 0), place, "consumers")


def _is_limited(topic: AnyTopic) -> bool:
    limits = topic.limits
    return bool(
        limits.max_subscriptions_per_topic or limits.max_consumers_per_topic or limits.max_consumers_per_subscription
    )


def _refuse_beyond(most: int, count: int, place: str, what: str) -> None:
    if most and count >= most:
        raise LimitReachedError(
            f"{place} has {count} {what}, and its policies allow {most}: close one, or raise the limit"
        )
