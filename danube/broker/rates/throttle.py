"""Throttle: delays publishes above a topic's rate, or refuses them.

A message takes its tokens when it arrives, so its delay is known at once, and one that would wait too long is refused
now. Batches are refused until there are tokens, which flow control turns into a pause of the producer.
"""

from collections.abc import Callable
from functools import partial

from danube.broker.rates.rates import Delayed, TokenBucket
from danube.model.errors import DanubeError, OverloadedError
from danube.model.limits.broker import PUBLISH_DELAY_S_MAX, PUBLISH_DELAYED_BYTES_MAX
from danube.runtime.clock import Clock

Published = Callable[[DanubeError | None], None]
"""Called once: the message is as safe as the topic promises, or why it is not."""

Publish = Callable[[bytes, Published], None]


class PublishRate:
    """The publish rate of one topic in messages and in bytes; 0 a second is no limit. Pure."""

    def __init__(self, messages: int, size: int, now_s: float) -> None:
        self._messages = TokenBucket(messages, now_s)
        self._bytes = TokenBucket(size, now_s)

    def wait_s(self, now_s: float) -> float:
        """Seconds until something may pass; 0 when it may now."""
        return max(self._messages.wait_s(now_s), self._bytes.wait_s(now_s))

    def use(self, count: int, size: int, now_s: float) -> None:
        """So many messages of so many bytes together pass."""
        self._messages.use(count, now_s)
        self._bytes.use(size, now_s)


class Throttle:
    """Delays the publishes of one topic with a rate."""

    def __init__(self, name: str, rate: PublishRate, clock: Clock, publish: Publish) -> None:
        """`publish` takes what may pass; it raises DanubeError where it cannot."""
        self._name = name
        self._rate = rate
        self._clock = clock
        self._publish = publish
        self._delayed = Delayed(clock)
        self._delayed_bytes = 0

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
        self._delayed_bytes += len(message)
        self._delayed.add(now_s + wait_s, partial(self._pass, message, published))

    def check_batch(self) -> None:
        """Raise OverloadedError while no batch may pass."""
        if self._delayed or self._rate.wait_s(self._clock.monotonic_s()):
            raise self._overloaded()

    def batch_passed(self, count: int, size: int) -> None:
        """Use tokens for a batch of so many messages."""
        self._rate.use(count, size, self._clock.monotonic_s())

    def release(self) -> None:
        """The rate holds no more: let everything pass."""
        self._delayed.release()

    def close(self, error: DanubeError) -> None:
        """Refuse what is held up."""
        self._delayed.release(error)

    def _overloaded(self) -> OverloadedError:
        return OverloadedError(
            f"{self._name} is above its publish rate: send less at a time, or raise max_publish_rate of the topic"
        )

    def _pass(self, message: bytes, published: Published, error: DanubeError | None) -> None:
        self._delayed_bytes -= len(message)
        if error is None:
            try:
                self._publish(message, published)
                return
            except DanubeError as refusal:
                error = refusal
        published(error)
