"""Subscriptions that a new partition begins with: those of its topic, at its first offset.

A subscription of a partitioned topic is one on each of its partitions. On one that comes later it has to be there
before the first message is: consumers find the new partition a while after producers do.
"""

import logging
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace

from danube.broker.policy.dead_letter_paths import FindTopic, dead_letters_reach
from danube.broker.topics.topic import AnyTopic
from danube.metadata.records.catalog import Records, SubscriptionRecord
from danube.model.topic import TopicName

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Inheritance:
    """The subscriptions of a partitioned topic, by name."""

    subscriptions: Sequence[SubscriptionRecord]
    find: FindTopic

    def of(self, name: TopicName) -> Sequence[SubscriptionRecord]:
        """What a new partition begins with: the same types and policies, and each at the first offset."""
        return [self._first_of(name, record) for record in self.subscriptions]

    def _first_of(self, name: TopicName, record: SubscriptionRecord) -> SubscriptionRecord:
        policy = record.failure_policy
        target = policy.dead_letters_go_to if policy is not None else None
        if target is not None and name in dead_letters_reach(self.find, target):
            _log.warning("dead letters of %r would come back to %s: its policy is not set there", record.name, name)
            policy = None
        return replace(record, topic=name, failure_policy=policy)


@asynccontextmanager
async def inheritance(
    siblings: Iterable[AnyTopic], elsewhere: Iterable[TopicName], records: Records, find: FindTopic
) -> AsyncIterator[Inheritance]:
    """Hold what the partitions of a base have: no subscription of those served here comes or goes meanwhile.

    Of several that differ, the one on the first partition counts. Raises MetadataError.
    """
    found: dict[str, SubscriptionRecord] = {}
    async with AsyncExitStack() as held:
        for topic in siblings:
            await held.enter_async_context(topic.changing)
            for subscription in topic.subscriptions.values():
                found.setdefault(subscription.record.name, subscription.record)
        for name in elsewhere:
            for record in await records.subscriptions_of(name):
                found.setdefault(record.name, record)
        yield Inheritance(tuple(found.values()), find)
