"""Rate limits: token buckets, and the throttle that delays publishes above a topic's rate or refuses them.

A message takes its tokens when it arrives, so its delay is known at once, and one that would wait too long is refused
now. Batches are refused until there are tokens, which flow control turns into a pause of the producer. Pure.
"""

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from danube.model.errors import DanubeError, OverloadedError
from danube.model.limits.broker import PUBLISH_DELAY_S_MAX, PUBLISH_DELAYED_BYTES_MAX, RATE_BURST_S
from danube.runtime.clock import Clock, TimerHandle

Published = Callable[[DanubeError | None], None]
"""Called once: the message is as safe as the topic promises, or why it is not."""

Publish = Callable[[bytes, Published], None]


class TokenBucket:
    """Lets `rate` tokens a second pass, and after a rest `burst` of them at once: RATE_BURST_S seconds' worth, or more.

    More may pass than there are tokens: a batch passes whole, and the next one waits the longer.
    """

    __slots__ = ("_at_s", "_capacity", "_rate", "_tokens")

    def __init__(self, rate: float, now_s: float, *, burst: float = 1.0) -> None:
        self._rate = rate
        self._capacity = self._tokens = max(burst, rate * RATE_BURST_S)
        self._at_s = now_s

    def available(self, now_s: float) -> float:
        """The tokens left; below 0 after a batch that was larger."""
        if now_s > self._at_s:
            self._tokens = min(self._capacity, self._tokens + (now_s - self._at_s) * self._rate)
            self._at_s = now_s
        return self._tokens

    def wait_s(self, now_s: float) -> float:
        """Seconds until something may pass; 0 when it may now."""
        return max(0.0, 1.0 - self.available(now_s)) / self._rate

    def use(self, count: float, now_s: float) -> None:
        """Use so many tokens."""
        self._tokens = self.available(now_s) - count


class PublishRate:
    """The publish rate of one topic in messages and in bytes; 0 a second is no limit."""

    def __init__(self, messages: int, size: int, now_s: float) -> None:
        self._messages = TokenBucket(messages, now_s) if messages else None
        self._bytes = TokenBucket(size, now_s) if size else None

    def wait_s(self, now_s: float) -> float:
        """Seconds until something may pass; 0 when it may now."""
        return max(bucket.wait_s(now_s) if bucket else 0.0 for bucket in (self._messages, self._bytes))

    def use(self, count: int, size: int, now_s: float) -> None:
        """So many messages of so many bytes together pass."""
        if self._messages is not None:
            self._messages.use(count, now_s)
        if self._bytes is not None:
            self._bytes.use(size, now_s)


class _Delayed(NamedTuple):
    due_s: float
    message: bytes
    published: Published


class Throttle:
    """Delays the publishes of one topic with a rate."""

    def __init__(self, name: str, rate: PublishRate, clock: Clock, publish: Publish) -> None:
        """`publish` takes what may pass; it raises DanubeError where it cannot."""
        self._name = name
        self._rate = rate
        self._clock = clock
        self._publish = publish
        self._delayed: deque[_Delayed] = deque()
        self._delayed_bytes = 0
        self._timer: TimerHandle | None = None

    def publish(self, message: bytes, published: Published) -> None:
        """Let a message pass, now or soon. Raises OverloadedError, and what `publish` raises where it passes now."""
        now_s = self._clock.monotonic_s()
        wait_s = self._rate.wait_s(now_s)
        if not wait_s and not self._delayed:
            self._publish(message, published)
            self._rate.use(1, len(message), now_s)
            return
        if wait_s > PUBLISH_DELAY_S_MAX or self._delayed_bytes + len(message) > PUBLISH_DELAYED_BYTES_MAX:
            raise self._overloaded()
        self._rate.use(1, len(message), now_s)
        self._delayed.append(_Delayed(now_s + wait_s, message, published))
        self._delayed_bytes += len(message)
        self._set_timer()

    def check_batch(self) -> None:
        """Raise OverloadedError while no batch may pass."""
        if self._delayed or self._rate.wait_s(self._clock.monotonic_s()):
            raise self._overloaded()

    def batch_passed(self, count: int, size: int) -> None:
        """A batch of so many messages was taken."""
        self._rate.use(count, size, self._clock.monotonic_s())

    def release(self) -> None:
        """The rate holds no more: let everything pass."""
        self._pass_due(float("inf"))

    def close(self, error: DanubeError) -> None:
        """Refuse what is held up."""
        self._cancel_timer()
        while self._delayed:
            self._delayed.popleft().published(error)
        self._delayed_bytes = 0

    def _overloaded(self) -> OverloadedError:
        return OverloadedError(
            f"{self._name} is above its publish rate: send less at a time, or raise max_publish_rate of the topic"
        )

    def _set_timer(self) -> None:
        if self._timer is None and self._delayed:
            self._timer = self._clock.call_at(self._delayed[0].due_s, self._timer_fired)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None

    def _timer_fired(self) -> None:
        self._pass_due(self._clock.monotonic_s())

    def _pass_due(self, until_s: float) -> None:
        self._cancel_timer()
        while self._delayed and self._delayed[0].due_s <= until_s:
            _, message, published = self._delayed.popleft()
            self._delayed_bytes -= len(message)
            try:
                self._publish(message, published)
            except DanubeError as error:
                published(error)
        self._set_timer()
