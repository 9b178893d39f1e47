"""Publishes above a topic's rate: held up for a moment, in order, and beyond that refused as overloaded.

A message takes its share of the rate when it comes, so the wait of each is known at once: who would wait too long is
told now. Streams of batches are told to come again, which their flow control makes a pause of the producer.
"""

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from danube.broker.policy.rate_limits import PublishRate
from danube.model.errors import DanubeError, OverloadedError
from danube.model.limits.broker import PUBLISH_DELAY_S_MAX, PUBLISH_DELAYED_BYTES_MAX
from danube.runtime.clock import Clock, TimerHandle

Published = Callable[[DanubeError | None], None]
"""Called once: the message is as safe as the topic promises, or why it is not."""

Publish = Callable[[bytes, Published], None]


class _Delayed(NamedTuple):
    due_s: float
    message: bytes
    published: Published


class Throttle:
    """The publishes of one topic with a rate."""

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
            self._rate.take(1, len(message), now_s)
            return
        if wait_s > PUBLISH_DELAY_S_MAX or self._delayed_bytes + len(message) > PUBLISH_DELAYED_BYTES_MAX:
            raise self._overloaded()
        self._rate.take(1, len(message), now_s)
        self._delayed.append(_Delayed(now_s + wait_s, message, published))
        self._delayed_bytes += len(message)
        self._set_timer()

    def check_batch(self) -> None:
        """Raise OverloadedError while no batch may pass."""
        if self._delayed or self._rate.wait_s(self._clock.monotonic_s()):
            raise self._overloaded()

    def batch_passed(self, count: int, size: int) -> None:
        """A batch of so many messages was taken."""
        self._rate.take(count, size, self._clock.monotonic_s())

    def release(self) -> None:
        """The rate holds no more: let everything pass."""
        self._let_pass(float("inf"))

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
            self._timer = self._clock.call_at(self._delayed[0].due_s, self._come_due)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None

    def _come_due(self) -> None:
        self._let_pass(self._clock.monotonic_s())

    def _let_pass(self, until_s: float) -> None:
        self._cancel_timer()
        while self._delayed and self._delayed[0].due_s <= until_s:
            _, message, published = self._delayed.popleft()
            self._delayed_bytes -= len(message)
            try:
                self._publish(message, published)
            except DanubeError as error:
                published(error)
        self._set_timer()
