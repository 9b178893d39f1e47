"""Settings of the dispatch of all subscriptions of a broker."""

from dataclasses import dataclass, field

from danube.broker.clients.delivery import BatchWindows
from danube.broker.dispatch.redelivery import RedeliveryPolicy
from danube.broker.policy.failure_policy import redelivery_policy
from danube.metadata.records.catalog import SubscriptionRecord
from danube.model.limits.broker import KEY_SHARED_GRACE_S


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatchSettings:
    """How subscriptions deliver."""

    window: int
    """Messages one consumer may hold unacknowledged, where nothing else is set."""
    policy: RedeliveryPolicy
    """What becomes of messages that fail, the same."""
    grace_s: float = KEY_SHARED_GRACE_S
    """How long a Key-Shared consumer that is away keeps its keys."""

    windows: BatchWindows = field(default_factory=BatchWindows)
    """What all of them have read and not sent."""

    def window_of(self, record: SubscriptionRecord) -> int:
        """What holds for a subscription."""
        return self.window if record.window is None else record.window

    def policy_of(self, record: SubscriptionRecord) -> RedeliveryPolicy:
        """What holds for a subscription."""
        policy = record.failure_policy
        return redelivery_policy(policy, self.policy) if policy else self.policy
