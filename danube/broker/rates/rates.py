"""Rates: token buckets, work that waits for its time, and streams that have no room while they are above a rate."""

from collections import deque
from collections.abc import Callable

from danube.model.errors import DanubeError
from danube.model.limits.broker import RATE_BURST_S
from danube.rpc.carrier import Caller, ServerStream
from danube.runtime.clock import Clock, TimerHandle

Work = Callable[[DanubeError | None], None]
"""Called once: at its time with None, or with the error of what it waited for."""


class TokenBucket:
    """Lets `rate` tokens a second pass, and after a rest `burst` of them at once: RATE_BURST_S seconds' worth, or more.

    More may pass than there are tokens: a batch passes whole, and the next one waits the longer. A rate of 0 is no
    limit. Pure.
    """

    __slots__ = ("_at_s", "_capacity", "_tokens", "rate")

    def __init__(self, rate: float, now_s: float, *, burst: float = 1.0) -> None:
        self.rate = rate
        self._capacity = self._tokens = max(burst, rate * RATE_BURST_S)
        self._at_s = now_s

    def available(self, now_s: float) -> float:
        """The tokens left; below 0 after a batch that was larger."""
        if now_s > self._at_s:
            self._tokens = min(self._capacity, self._tokens + (now_s - self._at_s) * self.rate)
            self._at_s = now_s
        return self._tokens

    def wait_s(self, now_s: float) -> float:
        """Seconds until something may pass; 0 when it may now."""
        return max(0.0, 1.0 - self.available(now_s)) / self.rate if self.rate else 0.0

    def use(self, count: float, now_s: float) -> None:
        """Use so many tokens."""
        if self.rate:
            self._tokens = self.available(now_s) - count


class Delayed:
    """Work that waits for its time, done in the order in which it came."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._queue: deque[tuple[float, Work]] = deque()
        self._timer: TimerHandle | None = None

    def __bool__(self) -> bool:
        return bool(self._queue)

    def add(self, due_s: float, work: Work) -> None:
        """Do `work` at this time, and not before what was added earlier."""
        self._queue.append((due_s, work))
        self._set_timer()

    def release(self, error: DanubeError | None = None) -> None:
        """Do everything now, or give it this error."""
        self._do_until(float("inf"), error)

    def clear(self) -> None:
        """Drop everything."""
        self._queue.clear()
        self._cancel_timer()

    def _set_timer(self) -> None:
        if self._timer is None and self._queue:
            self._timer = self._clock.call_at(self._queue[0][0], lambda: self._do_until(self._clock.monotonic_s()))

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None

    def _do_until(self, until_s: float, error: DanubeError | None = None) -> None:
        self._cancel_timer()
        try:
            while self._queue and self._queue[0][0] <= until_s:
                self._queue.popleft()[1](error)
        finally:
            self._set_timer()


class RatedStream:
    """A server's stream that has no room while it is above a rate. Nothing is queued here, and the order holds."""

    __slots__ = ("_is_over", "_stream", "_timer", "clock", "on_room", "open", "pause_reading", "resume_reading")

    def __init__(self, stream: ServerStream, clock: Clock, on_room: Callable[[], None] = lambda: None) -> None:
        """`on_room` is called when there is room again because time has passed. It must not hold this stream: what is
        queued on it goes with it, and does not wait for the garbage collector.
        """
        self._stream = stream
        self.clock = clock
        self.on_room = on_room
        self._timer: TimerHandle | None = None
        self._is_over = False
        self.open = stream.open
        self.pause_reading = stream.pause_reading
        self.resume_reading = stream.resume_reading

    @property
    def caller(self) -> Caller:
        return self._stream.caller

    @property
    def is_left(self) -> bool:
        return self._stream.is_left

    def finish(self) -> None:
        self.end()
        self._stream.finish()

    def fail(self, error: DanubeError) -> None:
        self.end()
        self._stream.fail(error)

    def end(self) -> None:
        """The stream is over: nothing is waited for any more. Idempotent."""
        self._is_over = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def room_after(self, wait_s: float, now_s: float) -> int:
        """Room of the stream if it may write now; otherwise 0, until it may."""
        if not wait_s:
            return self._stream.room
        if self._timer is None and not self._is_over:
            self._timer = self.clock.call_at(now_s + wait_s, self._woken)
        return 0

    def _woken(self) -> None:
        self._timer = None
        self.on_room()
