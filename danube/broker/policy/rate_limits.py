"""How many messages and bytes may pass in a second: token buckets. They do no I/O and take the time as an argument."""

from danube.model.limits.broker import RATE_BURST_S


class TokenBucket:
    """Lets `rate` tokens a second pass, and after a rest RATE_BURST_S seconds' worth of them at once.

    What passes may take more than is there: a batch is never larger than the bucket, and the next one waits the longer.
    """

    __slots__ = ("_at_s", "_capacity", "_rate", "_tokens")

    def __init__(self, rate: float, now_s: float) -> None:
        self._rate = rate
        self._capacity = self._tokens = max(1.0, rate * RATE_BURST_S)
        self._at_s = now_s

    def available(self, now_s: float) -> float:
        """Tokens that are there; below 0 while the last one who took too many is being waited for."""
        if now_s > self._at_s:
            self._tokens = min(self._capacity, self._tokens + (now_s - self._at_s) * self._rate)
            self._at_s = now_s
        return self._tokens

    def wait_s(self, now_s: float) -> float:
        """How long until something may pass; 0 when it may now."""
        return max(0.0, 1.0 - self.available(now_s)) / self._rate

    def take(self, count: float, now_s: float) -> None:
        """So much passes."""
        self._tokens = self.available(now_s) - count


class PublishRate:
    """Messages and bytes of one topic; 0 a second is no limit."""

    def __init__(self, messages: int, size: int, now_s: float) -> None:
        self._messages = TokenBucket(messages, now_s) if messages else None
        self._bytes = TokenBucket(size, now_s) if size else None

    def wait_s(self, now_s: float) -> float:
        """How long until something may pass; 0 when it may now."""
        return max(bucket.wait_s(now_s) if bucket else 0.0 for bucket in (self._messages, self._bytes))

    def take(self, count: int, size: int, now_s: float) -> None:
        """So many messages of so many bytes together pass."""
        if self._messages is not None:
            self._messages.take(count, now_s)
        if self._bytes is not None:
            self._bytes.take(size, now_s)
