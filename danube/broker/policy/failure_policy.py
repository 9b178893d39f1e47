"""What administrators set about messages that fail, as dispatch goes by it."""

from dataclasses import replace

from danube.broker.dispatch.redelivery import RedeliveryPolicy
from danube.model.policies import FailurePolicy


def redelivery_policy(policy: FailurePolicy, settings: RedeliveryPolicy) -> RedeliveryPolicy:
    """The policy of a subscription's dispatch; what administrators do not set is as in the broker's settings."""
    return replace(
        settings,
        ack_timeout_s=policy.ack_timeout_ms / 1_000,
        base_delay_s=policy.base_redelivery_delay_ms / 1_000,
        max_delay_s=policy.max_redelivery_delay_ms / 1_000,
        backoff=policy.backoff,
        max_redelivery_count=policy.max_redelivery_count,
        poison=policy.poison,
        dead_letter_topic=str(policy.dead_letter_topic) if policy.dead_letter_topic else None,
    )
