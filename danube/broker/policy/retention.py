"""How long messages are kept: what each topic allows, and what its subscriptions still need, told to the storage."""

import logging

from danube.broker.topics.local_topics import Topics
from danube.broker.topics.topic import ReliableTopic
from danube.model.errors import DanubeError
from danube.model.policies import Limits
from danube.storage.retention.rules import Retention
from danube.storage.store import Storage

_KEEP_ALL = Retention(None, None)

_log = logging.getLogger(__name__)


class RetentionSync:
    """Has the storage let go of what topics need not keep any more, each time `sweep` is called."""

    def __init__(self, topics: Topics, storage: Storage) -> None:
        self._topics = topics
        self._storage = storage
        self._failing = False

    async def sweep(self) -> int:
        """One pass; answers how many segments went. What fails is logged once, and done the next time.

        The storage is asked also where nothing is limited (any more): an answer may have got lost before.
        """
        limited = {topic.record.topic_id: topic.name for topic in self._topics if _is_limited(topic)}

        def find(topic_id: int) -> ReliableTopic | None:
            """As it is now: storage may take its time, and the topic may have left meanwhile, and come back."""
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
                _log.error("nothing is let go of for now, the disk may fill up: %s", error)
            self._failing = True
            return 0
        self._failing = False
        return dropped


def retention_of(limits: Limits) -> Retention:
    """What a topic keeps, by the limits that hold for it."""
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
