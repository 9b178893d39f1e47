"""The clock, as far as it is believed, and a word in the log when it is not."""

import logging

from danube.runtime.clock import Clock
from danube.storage.retention.retention_clock import RetentionClock

_log = logging.getLogger(__name__)


class ClockJumpGuard:
    """What something that goes by time takes for now; each jump of the clock is said once."""

    def __init__(self, clock: Clock, what: str, *, settled_s: float, newest_ms: int | None = None) -> None:
        """`what` goes by it, as the log says it; the others are those of `RetentionClock`."""
        self._clock = clock
        self._what = what
        self._settled_s = settled_s
        self._time = RetentionClock(clock.now_ms(), clock.monotonic_s(), newest_ms, settled_s=settled_s)
        self._time.look(clock.now_ms(), clock.monotonic_s())
        self._told_step_ms = self._time.step_ms

    @property
    def step_ms(self) -> int | None:
        """By how much the clock was off when it was looked at last; None when it was believed."""
        return self._told_step_ms

    def now_ms(self) -> int:
        """The time by which things are old, in milliseconds since the Unix epoch."""
        now_ms = self._time.look(self._clock.now_ms(), self._clock.monotonic_s())
        step_ms = self._time.step_ms
        if step_ms is None and self._told_step_ms is not None:
            _log.info("%s goes by the clock again", self._what)
        elif step_ms is not None and step_ms != self._told_step_ms:
            _log.warning(
                "the clock has jumped by %d s: %s goes by the earlier of what it says and what it should say, until "
                "it is set right, or has gone on evenly for %d min",
                *(step_ms // 1_000, self._what, self._settled_s // 60),
            )
        self._told_step_ms = step_ms
        return now_ms
