"""The time that retention goes by: a clock that jumps is not believed until it has gone on evenly for long. Pure.

What is deleted does not come back, so a jump of the clock alone must delete nothing, and time that really passes must.
Monotonic time tells the two apart while a broker runs. Of the time before its start the newest message tells.
"""

from danube.model.limits.broker import CLOCK_CAUGHT_UP_S, CLOCK_STEP_MAX_S

_STEP_MAX_MS = round(CLOCK_STEP_MAX_S * 1_000)


class RetentionClock:
    """Wall time as far as monotonic time bears it out, or somebody had `settled_s` to set it right.

    While the clock is doubted, time goes on evenly from where it was believed last; when the clock is behind that, as
    the clock says. So it is never later than the clock, but for less than a millisecond.
    """

    def __init__(self, now_ms: int, now_s: float, newest_ms: int | None = None, *, settled_s: float) -> None:
        """`newest_ms` is when the newest of all messages was appended: what came after it has to be borne out.

        A clock that is behind it now, and catches up with it before it is believed, was behind: machines without a
        clock of their own start so. Then CLOCK_CAUGHT_UP_S are enough to count from that message.
        """
        self._settled_s = settled_s
        self._known_ms = now_ms if newest_ms is None else min(now_ms, newest_ms)
        self._newest_ms = newest_ms if newest_ms is not None and newest_ms > now_ms else None
        self._known_s = now_s
        self._since_s = now_s
        self.step_ms: int | None = None
        """By how much the clock is off from what is expected, in the future when positive; None while it is not."""

    def look(self, now_ms: int, now_s: float) -> int:
        """The time now, in milliseconds since the Unix epoch, given what both clocks say."""
        passed_ms = round((now_s - self._known_s) * 1_000)
        self._catch_up(now_ms - passed_ms, now_s)
        expected_ms = self._known_ms + passed_ms
        step_ms = now_ms - expected_ms
        if abs(step_ms) <= _STEP_MAX_MS:
            self.step_ms = None
            if now_s - self._known_s >= self._settled_s:
                self._believe(now_ms, now_s)
            return now_ms
        if self._has_stepped(step_ms):
            self.step_ms, self._since_s = step_ms, now_s
        elif now_s - self._since_s >= self._settled_s:
            self._believe(now_ms, now_s)
            return now_ms
        return min(now_ms, expected_ms)

    def _catch_up(self, started_ms: int, now_s: float) -> None:
        """Count from the newest message if the clock shows itself, `started_ms` being the start by what it says now."""
        if self._newest_ms is None or started_ms < self._newest_ms - _STEP_MAX_MS:
            return
        if not self._has_stepped(started_ms - self._known_ms) and now_s - self._since_s >= CLOCK_CAUGHT_UP_S:
            self._known_ms, self._newest_ms = self._newest_ms, None
            self.step_ms = started_ms - self._known_ms  # the same clock, gone on evenly for as long

    def _has_stepped(self, step_ms: int) -> bool:
        return self.step_ms is None or abs(step_ms - self.step_ms) > _STEP_MAX_MS

    def _believe(self, now_ms: int, now_s: float) -> None:
        self._known_ms, self._known_s, self.step_ms, self._newest_ms = now_ms, now_s, None, None
