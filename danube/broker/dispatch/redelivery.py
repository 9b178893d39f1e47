"""What becomes of a message that failed: it is sent again after a delay, or it is poison. Arithmetic over a policy."""

from dataclasses import dataclass
from enum import Enum

from danube.model.errors import InvalidRequestError
from danube.model.limits.broker import (
    ACK_TIMEOUT_S,
    REDELIVERIES_DEFAULT,
    REDELIVERY_DELAY_BASE_S,
    REDELIVERY_DELAY_MAX_S,
)
from danube.model.policies import BackoffStrategy, PoisonPolicy

_DOUBLINGS_MAX = 64
"""More would overflow a float in the end; the delay is at its cap long before."""

ACK_TIMEOUT_REASON = "ack timeout"
"""Why a message failed whose consumer did not answer in time; the original's words."""
NACK_REASON = "nack"
"""Why one failed whose consumer refused it and did not say why."""
DISCONNECT_REASON = "consumer disconnected"
"""Why one failed that its consumer had longest when its stream broke."""
RECALLED_REASON = "failed too often before the broker restarted"
"""Why one failed for good whose last failure was not told before a restart."""


class Verdict(Enum):
    """What to do with a message that failed."""

    RETRY = "retry"
    BLOCK = "block"
    DROP = "drop"
    DEAD_LETTER = "dead letter"


@dataclass(frozen=True, slots=True)
class RedeliveryPolicy:
    """How a subscription meets messages that were not acknowledged, as dispatch goes by it.

    What administrators set is a FailurePolicy (`danube/model/policies.py`); the defaults are the original's.

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
    """Whether the oldest delivery of a consumer whose stream broke counts as failed."""

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


def verdict(failures: int, policy: RedeliveryPolicy) -> Verdict:
    """What becomes of a message whose deliveries have failed `failures` times."""
    if failures <= policy.max_redelivery_count:
        return Verdict.RETRY
    return _POISON_VERDICTS[policy.poison]


_POISON_VERDICTS = {
    PoisonPolicy.BLOCK: Verdict.BLOCK,
    PoisonPolicy.DROP: Verdict.DROP,
    PoisonPolicy.DEAD_LETTER: Verdict.DEAD_LETTER,
}


def delay_s(failures: int, policy: RedeliveryPolicy, nack_delay_s: float | None = None, chance: float = 0.0) -> float:
    """How long a message that failed is held back, in seconds.

    `failures` says how often it has failed (at least once), `nack_delay_s` what the consumer asked for, if it did:
    jitter never goes below that. `chance`, from 0 to 1, says how much of the jitter is used.
    """
    delay = policy.base_delay_s
    if policy.backoff is BackoffStrategy.EXPONENTIAL:
        delay *= 2.0 ** min(failures - 1, _DOUBLINGS_MAX)
    delay = min(delay, policy.max_delay_s) * (1.0 - policy.jitter * chance)
    return min(max(delay, nack_delay_s or 0.0), policy.max_delay_s)
