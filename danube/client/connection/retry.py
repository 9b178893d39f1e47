"""Retry rules: whether and when to try again. Pure: time and chance are arguments."""

from dataclasses import dataclass

from danube.model.errors import (
    BrokerUnreachableError,
    DanubeError,
    LimitReachedError,
    NotFoundError,
    ShuttingDownError,
    TopicNotServedError,
)
from danube.model.limits.broker import CLIENT_RETRIES_DEFAULT, CLIENT_RETRY_DELAY_MAX_S, CLIENT_RETRY_STEP_S

_NEEDS_REATTACH = (BrokerUnreachableError, NotFoundError, ShuttingDownError, TopicNotServedError)
"""Errors of a call that only attaching anew can mend."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """Bounds and delays of retries."""

    retries_max: int = CLIENT_RETRIES_DEFAULT
    delay_step_s: float = CLIENT_RETRY_STEP_S
    """The n-th retry waits n steps, less a random part of up to a half."""
    delay_max_s: float = CLIENT_RETRY_DELAY_MAX_S
    total_s: float | None = None
    """When set, this decides in place of `retries_max`: retries go on until that long after the first failure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """The last of several consecutive failures."""

    error: DanubeError
    attempt: int
    """How many there were, this one included."""
    elapsed_s: float
    """Since the first of them."""


class Failures:
    """Counts consecutive failures and the time since the first."""

    def __init__(self) -> None:
        self._attempt = 0
        self._since_s: float | None = None

    def begin(self, now_s: float) -> None:
        """Count time from now instead of from the first failure."""
        self._since_s = now_s

    def add(self, error: DanubeError, now_s: float) -> Failure:
        """One more failure, at monotonic time `now_s`."""
        self._since_s = now_s if self._since_s is None else self._since_s
        self._attempt += 1
        return Failure(error=error, attempt=self._attempt, elapsed_s=now_s - self._since_s)

    def clear(self) -> None:
        """A success: the next failure is a first one."""
        self._attempt, self._since_s = 0, None

    def restart_count(self) -> None:
        """Count anew, as for another broker; the time goes on."""
        self._attempt = 0


@dataclass(frozen=True, slots=True)
class Wait:
    """Try again in the same place after this long."""

    delay_s: float


@dataclass(frozen=True, slots=True)
class Reattach:
    """Look the topic up, attach anew, then try again."""


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Tell the application."""


def delay_s(policy: RetryPolicy, attempt: int, chance: float) -> float:
    """The wait after the `attempt`-th failure (from 1); `chance` is a number in [0, 1]."""
    longest = min(policy.delay_step_s * attempt, policy.delay_max_s)
    return longest * (1 + chance) / 2


def is_exhausted(policy: RetryPolicy, failure: Failure) -> bool:
    """Tell whether the policy allows no further try."""
    if policy.total_s is None:
        return failure.attempt > policy.retries_max
    return failure.elapsed_s >= policy.total_s


def delay_before_retry(policy: RetryPolicy, failure: Failure, chance: float) -> float | None:
    """The wait before the same is tried again, in seconds; None when a retry is of no use or the policy allows none."""
    if not failure.error.retryable or is_exhausted(policy, failure):
        return None
    delay = delay_s(policy, failure.attempt, chance)
    return delay if policy.total_s is None else min(delay, policy.total_s - failure.elapsed_s)


def after_failed_call(
    policy: RetryPolicy, failure: Failure, *, total_s: float, chance: float
) -> Wait | Reattach | GiveUp:
    """The reaction to a failed call of an attached producer or consumer, until `total_s` after the first failure.

    The policy bounds the tries at one broker. After them the topic is looked up again, unless the broker is at a limit.
    """
    if failure.elapsed_s >= total_s:
        return GiveUp()
    if isinstance(failure.error, _NEEDS_REATTACH):
        return Reattach()
    if not failure.error.retryable:
        return GiveUp()
    if failure.attempt <= policy.retries_max:
        return Wait(delay_s(policy, failure.attempt, chance))
    return GiveUp() if isinstance(failure.error, LimitReachedError) else Reattach()
