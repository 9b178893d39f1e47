"""What nobody will read any more: messages older than their topic allows, subscriptions that nobody has come back to.

Both are off unless they are set. An expired message stays stored; subscriptions are led past it, and it is counted.
A clock that jumps has nothing expire at once: time goes on as `storage/steady_time.py` says, from the broker's start.
"""

import logging

from danube.broker.clients.consumers import Consumers
from danube.broker.topics.local_topics import Topics
from danube.broker.topics.topic import ReliableTopic
from danube.model.errors import DanubeError
from danube.model.limits.broker import CLOCK_SETTLED_EXPIRY_S
from danube.runtime.clock import Clock
from danube.storage.retention.believed_time import ClockJumpGuard

_log = logging.getLogger(__name__)


class Expiry:
    """Looks for them each time `sweep` is called."""

    def __init__(self, topics: Topics, consumers: Consumers, clock: Clock, *, subscription_expiry_s: float) -> None:
        """A subscription without a connected consumer for `subscription_expiry_s` seconds goes; 0 keeps all.

        A restart of the broker begins to count anew.
        """
        self._topics = topics
        self._consumers = consumers
        self._clock = clock
        self._subscription_expiry_s = subscription_expiry_s
        self._time = ClockJumpGuard(clock, "message_ttl_s", settled_s=CLOCK_SETTLED_EXPIRY_S)

    async def sweep(self) -> None:
        """Lead subscriptions past messages that have expired, and delete the abandoned ones."""
        now_ms = self._time.now_ms()
        reliable = [topic for topic in self._topics if isinstance(topic, ReliableTopic)]
        for topic in reliable:
            if topic.limits.message_ttl_s and not topic.is_closed and not topic.is_lost:
                await _expire_messages(topic, now_ms)
        if self._subscription_expiry_s:
            for topic in reliable:
                await self._delete_abandoned(topic)

    async def _delete_abandoned(self, topic: ReliableTopic) -> None:
        now_s = self._clock.monotonic_s()
        abandoned = [
            name for name, one in topic.subscriptions.items() if one.is_idle(now_s, self._subscription_expiry_s)
        ]
        for name in abandoned:
            try:
                await self._consumers.unsubscribe(topic.record.name, name)
            except DanubeError as error:  # somebody came, or the topic went, meanwhile
                _log.info("subscription %r on %s stays: %s", name, topic.name, error)
            else:
                _log.warning(
                    "subscription %r on %s was deleted: no consumer for %.0f s (subscription_expiry_s)",
                    *(name, topic.name, self._subscription_expiry_s),
                )


async def _expire_messages(topic: ReliableTopic, now_ms: int) -> None:
    """Lead the subscriptions past what was appended longer ago than the topic's policies allow."""
    try:
        end = await topic.log.offset_at(now_ms - topic.limits.message_ttl_s * 1_000)
    except DanubeError as error:
        _log.error("messages of %s do not expire for now: %s", topic.name, error)
        return
    for subscription in topic.subscriptions.values():
        topic.messages_expired += subscription.pass_over(end)
