"""What administrators set about messages that fail, as dispatch goes by it."""

from danube.broker.dispatch.redelivery import RedeliveryPolicy
from danube.model.policies import FailurePolicy


def redelivery_policy(policy: FailurePolicy) -> RedeliveryPolicy:
    """The policy of a subscription's dispatch."""
    return RedeliveryPolicy(
        ack_timeout_s=policy.ack_timeout_ms / 1_000,
        base_delay_s=policy.base_redelivery_delay_ms / 1_000,
        max_delay_s=policy.max_redelivery_delay_ms / 1_000,
        backoff=policy.backoff,
        max_redelivery_count=policy.max_redelivery_count,
        poison=policy.poison,
        dead_letter_topic=str(policy.dead_letter_topic) if policy.dead_letter_topic else None,
    )
