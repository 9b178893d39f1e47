"""A callback at a later time, at most one at once."""

from collections.abc import Callable

from danube.runtime.clock import Clock, TimerHandle


class Alarm:
    """Calls `callback` once after it was armed; arming it again meanwhile changes nothing."""

    def __init__(self, clock: Clock, callback: Callable[[], None]) -> None:
        self._clock = clock
        self._callback = callback
        self._timer: TimerHandle | None = None

    def arm(self, delay_s: float) -> None:
        """Have the callback called after `delay_s`, unless it is going to be called already."""
        if self._timer is None:
            self._timer = self._clock.call_at(self._clock.monotonic_s() + delay_s, self._ring)

    def cancel(self) -> None:
        """Call it off."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _ring(self) -> None:
        self._timer = None
        self._callback()
