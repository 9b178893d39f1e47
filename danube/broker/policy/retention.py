"""Retention and expiry: sweeps that trim stored messages, pass over expired ones, and delete unused subscriptions.

An expired message stays stored: subscriptions are led past it, and it is counted. A clock that jumps expires nothing
at once (`danube/storage/retention/`).
"""

import logging

from danube.broker.clients.consumers import Consumers
from danube.broker.dispatch.events import SkipReason
from danube.broker.topics.local_topics import Topics
from danube.broker.topics.topic import ReliableTopic
from danube.model.errors import DanubeError
from danube.model.limits.broker import CLOCK_SETTLED_EXPIRY_S
from danube.model.policies import Limits
from danube.runtime.clock import Clock
from danube.storage.retention.retention_clock import ClockJumpGuard
from danube.storage.retention.rules import Retention
from danube.storage.store import Storage

_KEEP_ALL = Retention(None, None)

_log = logging.getLogger(__name__)


class RetentionSync:
    """Has the storage trim what topics need not keep any more, at each `sweep`."""

    def __init__(self, topics: Topics, storage: Storage) -> None:
        self._topics = topics
        self._storage = storage
        self._failing = False

    async def sweep(self) -> int:
        """One pass; answers the number of deleted segments. A failure is logged once, and tried again the next time.

        The storage is asked also where nothing is limited (any more): an answer may have got lost before.
        """
        limited = {topic.record.topic_id: topic.name for topic in self._topics if _is_limited(topic)}

        def find(topic_id: int) -> ReliableTopic | None:
            """The topic as it is now: it may have been unloaded and opened again while storage was busy."""
            topic = self._topics.find(limited.get(topic_id, ""))
            return topic if isinstance(topic, ReliableTopic) and topic.record.topic_id == topic_id else None

        def policy(topic_id: int) -> Retention:
            topic = find(topic_id)
            return retention_of(topic.limits) if topic is not None else _KEEP_ALL

        def unread(topic_id: int) -> int | None:
            topic = find(topic_id)
            return oldest_unread(topic) if topic is not None else 0

        try:
            dropped = await self._storage.retain(policy, unread)
        except DanubeError as error:
            if not self._failing:
                _log.error("nothing is trimmed for now, the disk may fill up: %s", error)
            self._failing = True
            return 0
        self._failing = False
        return dropped


def retention_of(limits: Limits) -> Retention:
    """The retention of a topic, by the limits that hold for it."""
    return Retention(
        max_age_ms=limits.retention_time_s * 1_000 or None,
        max_bytes=limits.retention_bytes or None,
        keep_unread=not limits.retention_drops_unread,
    )


def oldest_unread(topic: ReliableTopic) -> int | None:
    """The lowest offset that a subscription needs, one on its way too, and after a crash; None where there is none."""
    log = topic.log
    needed = list(topic.claimed)
    for subscription in topic.subscriptions.values():
        record, position = subscription.record, subscription.driver.engine.position
        durable = log.cursor(record.subscription_id)
        jump = record.jump if record.jump is not None else position
        needed.append(min(position, jump, durable.position if durable is not None else log.start_offset))
    return min(needed, default=None)


def _is_limited(topic: object) -> bool:
    return isinstance(topic, ReliableTopic) and bool(topic.limits.retention_time_s or topic.limits.retention_bytes)


class Expiry:
    """Expires messages and deletes subscriptions that nobody uses, at each `sweep`; both are off unless set."""

    def __init__(self, topics: Topics, consumers: Consumers, clock: Clock, *, subscription_expiry_s: float) -> None:
        """A subscription without a connected consumer for `subscription_expiry_s` seconds is deleted; 0 keeps all.

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
        topic.messages_expired += subscription.pass_over(end, SkipReason.EXPIRED)
