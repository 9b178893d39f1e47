"""Deadlines of the calls of one connection: one timer for all of them, since most calls end long before."""

from collections.abc import Callable

from danube.runtime.clock import Clock, TimerHandle


class Deadlines:
    """Tells of each deadline that has passed, by the number of its stream."""

    __slots__ = ("_armed_s", "_clock", "_expire", "_timer", "_when_s")

    def __init__(self, clock: Clock, expire: Callable[[int], None]) -> None:
        self._clock = clock
        self._expire = expire
        self._when_s: dict[int, float] = {}
        self._timer: TimerHandle | None = None
        self._armed_s = 0.0

    def add(self, stream_id: int, when_s: float) -> None:
        """Tell at that time, unless the call has ended by then."""
        self._when_s[stream_id] = when_s
        if self._timer is None or when_s < self._armed_s:
            self._arm(when_s)

    def discard(self, stream_id: int) -> None:
        """The call has ended."""
        self._when_s.pop(stream_id, None)

    def close(self) -> None:
        """Tell nothing more."""
        self._when_s.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self, when_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._armed_s = when_s
        self._timer = self._clock.call_at(when_s, self._fire)

    def _fire(self) -> None:
        self._timer = None
        now_s = self._clock.monotonic_s()
        for stream_id in [stream_id for stream_id, when_s in self._when_s.items() if when_s <= now_s]:
            self._when_s.pop(stream_id, None)
            self._expire(stream_id)
        if self._when_s:
            self._arm(min(self._when_s.values()))
