"""Time behind a protocol: the only place that reads the system's clocks."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Protocol


class TimerHandle(Protocol):
    """A callback that was asked for and can still be called off."""

    def cancel(self) -> None:
        """Call the timer off; doing so twice, or after it fired, is harmless."""


class Clock(Protocol):
    """Wall-clock and monotonic time, and waiting for it."""

    def now_ms(self) -> int:
        """Milliseconds since the Unix epoch. It may jump, also backwards."""

    def monotonic_s(self) -> float:
        """Seconds since an arbitrary moment. It never goes back."""

    async def sleep_until(self, when_s: float) -> None:
        """Return once `monotonic_s()` has reached `when_s`."""

    def call_at(self, when_s: float, callback: Callable[[], None]) -> TimerHandle:
        """Call `callback` on the event loop once `monotonic_s()` has reached `when_s`."""


async def sleep_for(clock: Clock, seconds: float) -> None:
    """Return once so many seconds have passed."""
    await clock.sleep_until(clock.monotonic_s() + seconds)


@asynccontextmanager
async def within(clock: Clock, seconds: float | None) -> AsyncIterator[None]:
    """`asyncio.timeout`, by a clock: raises TimeoutError where what is inside takes longer."""
    async with asyncio.timeout(None) as limit:
        if seconds is None:
            yield
            return
        timer = clock.call_at(clock.monotonic_s() + seconds, lambda: limit.reschedule(0.0))
        try:
            yield
        finally:
            timer.cancel()


class SystemClock:
    """The machine's clocks."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_s(self) -> float:
        return time.monotonic()

    async def sleep_until(self, when_s: float) -> None:
        await asyncio.sleep(max(0.0, when_s - time.monotonic()))

    def call_at(self, when_s: float, callback: Callable[[], None]) -> TimerHandle:
        loop = asyncio.get_running_loop()
        return loop.call_later(max(0.0, when_s - time.monotonic()), callback)


class Alarm:
    """Calls `callback` once after it was armed; arming it again meanwhile changes nothing."""

    def __init__(self, clock: Clock, callback: Callable[[], None]) -> None:
        self._clock = clock
        self._callback = callback
        self._timer: TimerHandle | None = None

    def arm(self, delay_s: float) -> None:
        """Call the callback after `delay_s`, unless it is armed already."""
        if self._timer is None:
            self._timer = self._clock.call_at(self._clock.monotonic_s() + delay_s, self._ring)

    def cancel(self) -> None:
        """Disarm it."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _ring(self) -> None:
        self._timer = None
        self._callback()
