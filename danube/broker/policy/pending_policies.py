"""Policies that are set for a subscription before it exists: they are kept with the topic, until it is created."""

from collections.abc import Callable
from dataclasses import replace

from danube.broker.topics.topic import AnyTopic
from danube.metadata.records.catalog import ExtraWrites, Records
from danube.model.policies import PendingPolicies


async def change_pending(
    topic: AnyTopic,
    records: Records,
    subscription: str,
    change: Callable[[PendingPolicies], PendingPolicies],
    *,
    extra_writes: ExtraWrites | None = None,
) -> None:
    """Change what a subscription that does not exist begins with. The caller holds the topic's `changing`.

    Raises LimitReachedError, MetadataError, and what `extra_writes` raises.
    """
    record = await records.change_pending(topic.record.name, subscription, change, extra_writes=extra_writes)
    topic.record = replace(topic.record, pending=record.pending)


def taken_over(topic: AnyTopic, subscription: str) -> None:
    """The subscription exists now, and has what was pending for it."""
    topic.record = topic.record.with_pending(PendingPolicies(subscription))


def has_pending(topic: AnyTopic, subscription: str) -> bool:
    """Whether a subscription that does not exist has policies already."""
    return subscription not in topic.subscriptions and not topic.record.pending_of(subscription).is_empty


def nothing_pending(pending: PendingPolicies) -> PendingPolicies:
    """The change that deletes all of it."""
    return PendingPolicies(pending.subscription)
