"""When a message that came back is sent again: pure arithmetic over a policy."""

from dataclasses import dataclass
from enum import IntEnum

from danube.model.errors import InvalidRequestError
from danube.model.limits import ACK_TIMEOUT_S, REDELIVERY_DELAY_BASE_S, REDELIVERY_DELAY_MAX_S

_DOUBLINGS_MAX = 64
"""More would overflow a float in the end; the delay is at its cap long before."""


class Backoff(IntEnum):
    """How the delay grows from one redelivery to the next; the numbers are those on the wire."""

    FIXED = 0
    EXPONENTIAL = 1


@dataclass(frozen=True, slots=True)
class RedeliveryPolicy:
    """How a subscription sends again what was not acknowledged.

    Nothing is ever given up: a message that fails again and again is sent again for ever, at the capped delay, and one
    subscription that has REDELIVERY_RANGES_MAX of such ranges gets nothing new. Raises InvalidRequestError.
    """

    ack_timeout_s: float = ACK_TIMEOUT_S
    """A message unacknowledged for this long after it was sent counts as failed."""
    base_delay_s: float = REDELIVERY_DELAY_BASE_S
    max_delay_s: float = REDELIVERY_DELAY_MAX_S
    """Caps every delay, one that the consumer asked for included."""
    backoff: Backoff = Backoff.EXPONENTIAL

    def __post_init__(self) -> None:
        if not self.ack_timeout_s > 0:
            raise InvalidRequestError(f"acknowledgement timeout {self.ack_timeout_s} s must be more than 0")
        if not 0 <= self.base_delay_s <= self.max_delay_s:
            raise InvalidRequestError(
                f"redelivery delay {self.base_delay_s} s must be from 0 to its cap of {self.max_delay_s} s"
            )


def delay_s(attempt: int, policy: RedeliveryPolicy, nack_delay_s: float | None = None) -> float:
    """How long a message that failed is held back, in seconds.

    `attempt` says how often it has been sent (at least once), `nack_delay_s` what the consumer asked for, if it did.
    """
    delay = policy.base_delay_s
    if policy.backoff is Backoff.EXPONENTIAL:
        delay *= 2.0 ** min(attempt - 1, _DOUBLINGS_MAX)
    return min(max(delay, nack_delay_s or 0.0), policy.max_delay_s)
