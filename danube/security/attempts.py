"""Limit of wrong credentials by address: after it they are refused unchecked, and others are not held up. Pure."""

from collections import OrderedDict

from danube.model.limits.security import FAILED_ADDRESSES_MAX, FAILED_ATTEMPTS_MAX, FAILED_ATTEMPTS_S


class FailedAttempts:
    """Counts of wrong credentials by host, in windows of FAILED_ATTEMPTS_S."""

    def __init__(self) -> None:
        self._counts: OrderedDict[str, tuple[float, int]] = OrderedDict()

    def wait_s(self, host: str, now_s: float) -> float:
        """Seconds for which no credential of this host is checked; 0.0 where it may try."""
        since_s, count = self._counts.get(host, (now_s, 0))
        left_s = since_s + FAILED_ATTEMPTS_S - now_s
        return left_s if count >= FAILED_ATTEMPTS_MAX and left_s > 0 else 0.0

    def add(self, host: str, now_s: float) -> None:
        """One more wrong credential of this host."""
        since_s, count = self._counts.pop(host, (now_s, 0))
        if now_s - since_s >= FAILED_ATTEMPTS_S:
            since_s, count = now_s, 0
        self._counts[host] = (since_s, count + 1)
        while len(self._counts) > FAILED_ADDRESSES_MAX:
            self._counts.popitem(last=False)
