"""Redelivery policy: a failed message is sent again after a delay, or the poison policy decides. Pure arithmetic."""

from dataclasses import dataclass, replace
from enum import Enum
from typing import Self

from danube.model.errors import InvalidRequestError
from danube.model.limits.broker import (
    ACK_TIMEOUT_S,
    REDELIVERIES_DEFAULT,
    REDELIVERY_DELAY_BASE_S,
    REDELIVERY_DELAY_MAX_S,
)
from danube.model.policies import BackoffStrategy, FailurePolicy, PoisonPolicy

_DOUBLINGS_MAX = 64
"""More would overflow a float in the end; the delay is at its cap long before."""

ACK_TIMEOUT_REASON = "ack timeout"
"""Why a message failed whose consumer did not answer in time; the original's words."""
NACK_REASON = "nack"
"""Why one failed whose consumer refused it and did not say why."""
DISCONNECT_REASON = "consumer disconnected"
"""Why one failed that its consumer had longest when its stream broke."""
RECALLED_REASON = "failed too often before the broker restarted"
"""Why one failed for good whose last failure was not reported before a restart."""


class Verdict(Enum):
    """The decision about a failed message."""

    RETRY = "retry"
    BLOCK = "block"
    DROP = "drop"
    DEAD_LETTER = "dead letter"


@dataclass(frozen=True, slots=True)
class RedeliveryPolicy:
    """The rules of one subscription for messages that were not acknowledged; the defaults are the original's.

    Raises InvalidRequestError.
    """

    ack_timeout_s: float = ACK_TIMEOUT_S
    """A message unacknowledged for this long after it was sent counts as failed."""
    base_delay_s: float = REDELIVERY_DELAY_BASE_S
    max_delay_s: float = REDELIVERY_DELAY_MAX_S
    """Caps every delay, one that the consumer asked for included."""
    backoff: BackoffStrategy = BackoffStrategy.EXPONENTIAL
    max_redelivery_count: int = REDELIVERIES_DEFAULT
    """A message whose deliveries failed more often than this is poison."""
    poison: PoisonPolicy = PoisonPolicy.BLOCK
    dead_letter_topic: str | None = None
    """Where poison goes; needed by DEAD_LETTER."""
    jitter: float = 0.0
    """Up to this share of a delay is taken off it, so that what failed together does not come back together."""
    disconnects_fail: bool = True
    """True if the oldest delivery of a consumer whose stream broke counts as failed."""

    def __post_init__(self) -> None:
        if not self.ack_timeout_s > 0:
            raise InvalidRequestError(f"acknowledgement timeout {self.ack_timeout_s} s must be more than 0")
        if not 0 <= self.base_delay_s <= self.max_delay_s:
            raise InvalidRequestError(
                f"redelivery delay {self.base_delay_s} s must be from 0 to its cap of {self.max_delay_s} s"
            )
        if self.max_redelivery_count < 0:
            raise InvalidRequestError(f"a redelivery count of {self.max_redelivery_count} is negative: use 0 or more")
        if not 0 <= self.jitter <= 1:
            raise InvalidRequestError(f"jitter {self.jitter} must be from 0 to 1, a share of the delay")
        if self.poison is PoisonPolicy.DEAD_LETTER and not self.dead_letter_topic:
            raise InvalidRequestError("the poison policy dead_letter needs a dead letter topic: name one")

    def with_policy(self, policy: FailurePolicy) -> Self:
        """This policy with what administrators set for a subscription in place of the broker's settings."""
        return replace(
            self,
            ack_timeout_s=policy.ack_timeout_ms / 1_000,
            base_delay_s=policy.base_redelivery_delay_ms / 1_000,
            max_delay_s=policy.max_redelivery_delay_ms / 1_000,
            backoff=policy.backoff,
            max_redelivery_count=policy.max_redelivery_count,
            poison=policy.poison,
            dead_letter_topic=str(policy.dead_letter_topic) if policy.dead_letter_topic else None,
        )


def verdict(failures: int, policy: RedeliveryPolicy) -> Verdict:
    """The decision about a message whose deliveries have failed `failures` times."""
    if failures <= policy.max_redelivery_count:
        return Verdict.RETRY
    return _POISON_VERDICTS[policy.poison]


_POISON_VERDICTS = {
    PoisonPolicy.BLOCK: Verdict.BLOCK,
    PoisonPolicy.DROP: Verdict.DROP,
    PoisonPolicy.DEAD_LETTER: Verdict.DEAD_LETTER,
}


def delay_s(failures: int, policy: RedeliveryPolicy, nack_delay_s: float | None = None, chance: float = 0.0) -> float:
    """The delay before a failed message is sent again, in seconds.

    `failures` says how often it has failed (at least once), `nack_delay_s` what the consumer asked for, if it did:
    jitter never goes below that. `chance`, from 0 to 1, says how much of the jitter is used.
    """
    delay = policy.base_delay_s
    if policy.backoff is BackoffStrategy.EXPONENTIAL:
        delay *= 2.0 ** min(failures - 1, _DOUBLINGS_MAX)
    delay = min(delay, policy.max_delay_s) * (1.0 - policy.jitter * chance)
    return min(max(delay, nack_delay_s or 0.0), policy.max_delay_s)
