"""Options of a client, a producer and a consumer that an application may set."""

from collections.abc import Callable
from dataclasses import dataclass, field

from danube.client.connection.retry import RetryPolicy
from danube.model.limits.broker import (
    CLIENT_RETRIES_DEFAULT,
    CLIENT_RETRY_DELAY_MAX_S,
    CLIENT_RETRY_STEP_S,
    CLIENT_RETRY_TOTAL_S,
)

TokenSupplier = Callable[[], str]
"""Answers the token of the moment; called for every request, from the event loop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsMaterial:
    """PEM bytes; None stands for what the system trusts, and for presenting no certificate."""

    ca: bytes | None = None
    certificate: bytes | None = None
    key: bytes | None = field(default=None, repr=False)


@dataclass
class RetryOptions:
    """Bounds of retries; 0 stands for the default."""

    max_retries: int = 0
    """Of one call in one place; default 5."""
    base_backoff_ms: int = 0
    """The n-th retry waits n times this, less a random part of up to a half; default 200."""
    max_backoff_ms: int = 0
    """The longest wait; default 5000."""
    connect_total_s: float = 0.0
    """How long creating or subscribing is tried, in place of `max_retries`.

    By default a topic that no broker serves for the moment is waited for for CLIENT_TAKEOVER_S.
    """
    retry_total_s: float = 0.0
    """How long a broker that was lost is tried for, in place of `max_retries`; begins anew with whatever succeeds."""

    def policy(self, total_s: float) -> RetryPolicy:
        """These options for tries that are bounded by `total_s`; 0 means by their number."""
        return RetryPolicy(
            retries_max=self.max_retries if self.max_retries > 0 else CLIENT_RETRIES_DEFAULT,
            delay_step_s=self.base_backoff_ms / 1000 if self.base_backoff_ms > 0 else CLIENT_RETRY_STEP_S,
            delay_max_s=self.max_backoff_ms / 1000 if self.max_backoff_ms > 0 else CLIENT_RETRY_DELAY_MAX_S,
            total_s=total_s if total_s > 0 else None,
        )

    @property
    def call_total_s(self) -> float:
        """Seconds for which one send or acknowledgement is tried, reattaching included."""
        return self.retry_total_s if self.retry_total_s > 0 else CLIENT_RETRY_TOTAL_S


@dataclass
class ProducerOptions(RetryOptions):
    """Bounds of a producer's retries; 0 stands for the default.

    By default a producer that has lost its broker looks for another one for a minute, then its sends raise the error.
    """


@dataclass
class ConsumerOptions(RetryOptions):
    """Bounds of a consumer's retries; 0 stands for the default.

    By default a consumer that has lost its broker tries for 10 minutes, then its queue raises the error.
    """
