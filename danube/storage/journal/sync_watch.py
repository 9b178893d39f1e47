"""Whether the disk is unusually slow for the journal's syncs, and how long cold reads had better stay off it. Pure.

Publishers wait for syncs, and a disk that is busy, or throttled by whoever rents it out, makes syncs wait behind reads.
A replay can wait. What is usual is learned from the syncs themselves, so that a disk that always takes its time is
read like any other: the median, by stochastic approximation (a step up when one took longer, else a step down).
"""

from danube.model.limits.broker import (
    COLD_READ_REST_RATIO,
    COLD_READ_WAIT_S_MAX,
    SYNC_SLOW_RATIO,
    SYNC_USUAL_S_MAX,
    SYNC_USUAL_S_MIN,
)

_STEP = 1.02
_LOOK_AGAIN_S = SYNC_USUAL_S_MIN


class SyncWatch:
    """Told of each sync by the thread that makes it, and asked by the event loop. Times are monotonic, in seconds."""

    def __init__(self) -> None:
        self._usual_s = SYNC_USUAL_S_MIN
        self._began_s: float | None = None
        self._rest_until_s = float("-inf")

    def began(self, now_s: float) -> None:
        """A sync begins."""
        self._began_s = now_s

    def ended(self, now_s: float) -> None:
        """The sync that began is over."""
        if self._began_s is None:
            return
        took_s = now_s - self._began_s
        if took_s > SYNC_SLOW_RATIO * self._usual_s:
            self._rest_until_s = now_s + min(COLD_READ_REST_RATIO * took_s, COLD_READ_WAIT_S_MAX)
        usual_s = self._usual_s * _STEP if took_s > self._usual_s else self._usual_s / _STEP
        self._usual_s = min(max(usual_s, SYNC_USUAL_S_MIN), SYNC_USUAL_S_MAX)
        self._began_s = None  # last: a read that asks from another thread never slips in between the sync and its rest

    def read_wait_s(self, now_s: float) -> float:
        """For how long no cold read should begin, before this is asked again; 0 when one may."""
        began_s = self._began_s
        if began_s is not None and now_s - began_s > self._usual_s:
            return _LOOK_AGAIN_S
        return max(0.0, self._rest_until_s - now_s)
