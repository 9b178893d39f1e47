"""Policies of subscriptions: pending ones, those that a new partition inherits, and where dead letters lead to."""

import logging
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace

from danube.broker.topics.topic import AnyTopic
from danube.metadata.records.catalog import ExtraWrites, Records, SubscriptionRecord
from danube.model.policies import PendingPolicies
from danube.model.topic import TopicName

_log = logging.getLogger(__name__)

FindTopic = Callable[[str], AnyTopic | None]


async def change_pending(
    topic: AnyTopic,
    records: Records,
    subscription: str,
    change: Callable[[PendingPolicies], PendingPolicies],
    *,
    extra_writes: ExtraWrites | None = None,
) -> None:
    """Change the policies of a subscription that does not exist yet; they are kept with its topic.

    The caller holds the topic's `changing`. Raises LimitReachedError, MetadataError, and what `extra_writes` raises.
    """
    record = await records.change_pending(topic.record.name, subscription, change, extra_writes=extra_writes)
    topic.record = replace(topic.record, pending=record.pending)


def clear_pending(topic: AnyTopic, subscription: str) -> None:
    """The subscription exists now, and its record has what was pending."""
    topic.record = topic.record.with_pending(PendingPolicies(subscription))


def has_pending(topic: AnyTopic, subscription: str) -> bool:
    """Tell whether a subscription that does not exist yet has policies."""
    return subscription not in topic.subscriptions and not topic.record.pending_of(subscription).is_empty


def nothing_pending(pending: PendingPolicies) -> PendingPolicies:
    """The change that deletes all pending policies."""
    return PendingPolicies(pending.subscription)


def dead_letters_reach(find: FindTopic, start: TopicName) -> set[TopicName]:
    """Every topic that a message which is published to `start` may reach as a dead letter, itself included."""
    found, left = {start}, [start]
    while left:
        for name in _dead_letter_topics(find(str(left.pop()))) - found:
            found.add(name)
            left.append(name)
    return found


def _dead_letter_topics(topic: AnyTopic | None) -> set[TopicName]:
    """The dead letter topics of a topic's subscriptions, pending ones included."""
    if topic is None:
        return set()
    policies = [subscription.record.failure_policy for subscription in topic.subscriptions.values()]
    policies += [pending.failure_policy for pending in topic.record.pending]
    return {policy.dead_letters_go_to for policy in policies if policy and policy.dead_letters_go_to is not None}


@dataclass(frozen=True, slots=True)
class Inheritance:
    """The subscriptions of a partitioned topic, which a new partition gets before its first message.

    Consumers find a new partition later than producers do.
    """

    subscriptions: Sequence[SubscriptionRecord]
    find: FindTopic

    def of(self, name: TopicName) -> Sequence[SubscriptionRecord]:
        """The subscriptions of a new partition: the same types and policies, each at the first offset."""
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
    siblings: Iterable[AnyTopic], remote: Iterable[TopicName], records: Records, find: FindTopic
) -> AsyncIterator[Inheritance]:
    """The subscriptions of a base name's partitions; those of partitions served here do not change meanwhile.

    Of several that differ, the one on the first partition counts. Raises MetadataError.
    """
    found: dict[str, SubscriptionRecord] = {}
    async with AsyncExitStack() as held:
        for topic in siblings:
            await held.enter_async_context(topic.changing)
            for subscription in topic.subscriptions.values():
                found.setdefault(subscription.record.name, subscription.record)
        for name in remote:
            for record in await records.subscriptions_of(name):
                found.setdefault(record.name, record)
        yield Inheritance(tuple(found.values()), find)
