"""Whether and when to try again. Pure: times and chance are arguments; the error itself says if a retry may help."""

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

_ELSEWHERE = (BrokerUnreachableError, NotFoundError, ShuttingDownError, TopicNotServedError)
"""Errors of a call that only attaching anew can mend."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How long to go on trying."""

    retries_max: int = CLIENT_RETRIES_DEFAULT
    delay_step_s: float = CLIENT_RETRY_STEP_S
    """The n-th retry waits n steps, less a random part of up to a half."""
    delay_max_s: float = CLIENT_RETRY_DELAY_MAX_S
    total_s: float | None = None
    """When set, this decides in place of `retries_max`: retries go on until that long after the first failure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A try that failed, as the last of a row of them."""

    error: DanubeError
    attempt: int
    """Which failure of the row this is, from 1."""
    elapsed_s: float
    """Since the first failure of the row."""


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
    """How long to wait after the `attempt`-th failure (from 1); `chance` is a number in [0, 1]."""
    longest = min(policy.delay_step_s * attempt, policy.delay_max_s)
    return longest * (1 + chance) / 2


def is_exhausted(policy: RetryPolicy, failure: Failure) -> bool:
    """Whether the policy allows no further try."""
    if policy.total_s is None:
        return failure.attempt > policy.retries_max
    return failure.elapsed_s >= policy.total_s


def delay_before_retry(policy: RetryPolicy, failure: Failure, chance: float) -> float | None:
    """How long to wait before trying the same again, in seconds; None when it is of no use, or long enough tried."""
    if not failure.error.retryable or is_exhausted(policy, failure):
        return None
    delay = delay_s(policy, failure.attempt, chance)
    return delay if policy.total_s is None else min(delay, policy.total_s - failure.elapsed_s)


def after_failed_call(
    policy: RetryPolicy, failure: Failure, *, total_s: float, chance: float
) -> Wait | Reattach | GiveUp:
    """What to do about a failed call of an attached producer or consumer, at most until `total_s` after the first.

    The policy bounds the tries in one place. Then it is worth looking the topic up again, unless the place itself is at
    its limit.
    """
    if failure.elapsed_s >= total_s:
        return GiveUp()
    if isinstance(failure.error, _ELSEWHERE):
        return Reattach()
    if not failure.error.retryable:
        return GiveUp()
    if failure.attempt <= policy.retries_max:
        return Wait(delay_s(policy, failure.attempt, chance))
    return GiveUp() if isinstance(failure.error, LimitReachedError) else Reattach()
