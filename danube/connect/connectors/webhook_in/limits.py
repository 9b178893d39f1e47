"""Rate limits and memory of ids of webhooks in. Pure: the time is an argument."""

from collections import OrderedDict
from collections.abc import Sequence

from danube.connect.connectors.webhook_in.settings import RateLimit
from danube.model.limits.faces import WEBHOOK_ADDRESSES_MAX, WEBHOOK_IDS_MAX


class Bucket:
    """Lets `rate` requests a second through, and at most `burst` at once."""

    __slots__ = ("_burst", "_level", "_rate", "_seen_s")

    def __init__(self, rate: float, burst: float, now_s: float) -> None:
        self._rate = rate
        self._burst = self._level = max(burst, 1.0)
        self._seen_s = now_s

    def wait_s(self, now_s: float) -> float:
        """Seconds until a request is let through; 0 means now."""
        self._level = min(self._burst, self._level + max(now_s - self._seen_s, 0.0) * self._rate)
        self._seen_s = max(now_s, self._seen_s)
        return 0.0 if self._level >= 1 else (1 - self._level) / self._rate

    def take(self) -> None:
        """Count a request that was let through."""
        self._level -= 1


class Limiter:
    """The rate limit of all requests or of one route, and that of each address."""

    def __init__(self, limit: RateLimit, now_s: float) -> None:
        self._limit = limit
        self._all = Bucket(limit.requests_per_second, limit.burst_size or limit.requests_per_second, now_s)
        self._by_address: OrderedDict[str, Bucket] = OrderedDict()

    def buckets(self, address: str, now_s: float) -> list[Bucket]:
        """The buckets that a request of an address is counted in."""
        if not self._limit.per_ip_enabled:
            return [self._all]
        bucket = self._by_address.get(address)
        if bucket is None:
            rate = self._limit.per_ip_requests_per_second
            bucket = self._by_address[address] = Bucket(rate, rate, now_s)
            if len(self._by_address) > WEBHOOK_ADDRESSES_MAX:
                self._by_address.popitem(last=False)
        self._by_address.move_to_end(address)
        return [self._all, bucket]


def wait_s(limiters: Sequence[Limiter], address: str, now_s: float) -> float:
    """Seconds until all limits let a request through; it is counted where that is now."""
    buckets = [bucket for limiter in limiters for bucket in limiter.buckets(address, now_s)]
    longest = max((bucket.wait_s(now_s) for bucket in buckets), default=0.0)
    if not longest:
        for bucket in buckets:
            bucket.take()
    return longest


class KnownIds:
    """Ids of requests whose records are stored, the newest of them."""

    def __init__(self) -> None:
        self._ids: OrderedDict[str, None] = OrderedDict()

    def __contains__(self, identity: str) -> bool:
        return identity in self._ids

    def add(self, identity: str) -> None:
        """Remember one."""
        self._ids[identity] = None
        if len(self._ids) > WEBHOOK_IDS_MAX:
            self._ids.popitem(last=False)
