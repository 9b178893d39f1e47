"""Rates of the audit records that clients claim: one of each principal. Pure: the time comes in."""

from danube.broker.rates.rates import TokenBucket
from danube.model.errors import OverloadedError
from danube.model.limits.security import (
    AUDIT_CLAIMS_BURST,
    AUDIT_CLAIMS_PER_S,
    QUOTA_ACCOUNTS_MAX,
)


class ClaimRates:
    """Rates of all principals; those that claimed longest ago are forgotten first."""

    def __init__(self) -> None:
        self._buckets: dict[str, TokenBucket] = {}

    def use(self, principal: str, now_s: float) -> None:
        """Count one record. Raises OverloadedError above the rate."""
        bucket = self._buckets.pop(principal, None) or TokenBucket(AUDIT_CLAIMS_PER_S, now_s, burst=AUDIT_CLAIMS_BURST)
        self._buckets[principal] = bucket
        if len(self._buckets) > QUOTA_ACCOUNTS_MAX:
            del self._buckets[next(iter(self._buckets))]
        if wait_s := bucket.wait_s(now_s):
            raise OverloadedError(
                f"{principal} wrote too many audit records: {AUDIT_CLAIMS_PER_S:.0f} a second are the most; go on in"
                f" {wait_s:.1f} s"
            )
        bucket.use(1, now_s)
