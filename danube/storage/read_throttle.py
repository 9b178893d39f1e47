"""Cold reads give way to the journal's syncs while the disk is unusually slow.

Publishers wait for syncs, and a disk that is busy, or throttled by its provider, makes syncs wait behind reads. A
replay can wait. The usual time of a sync is learned from the syncs, so a disk that is always slow is read like any
other: the median, by stochastic approximation (a step up when one took longer, else a step down).
"""

from danube.model.limits.broker import (
    COLD_READ_REST_RATIO,
    COLD_READ_WAIT_S_MAX,
    SYNC_SLOW_RATIO,
    SYNC_USUAL_S_MAX,
    SYNC_USUAL_S_MIN,
)
from danube.runtime.clock import Clock, sleep_for

_STEP = 1.02
_LOOK_AGAIN_S = SYNC_USUAL_S_MIN


class SyncWatch:
    """Usual time of a sync: the syncing thread writes it, the event loop reads it. Times are monotonic, in seconds."""

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


class ColdReadThrottle:
    """Delays cold reads while a `SyncWatch` says that syncs are slow."""

    def __init__(self, clock: Clock, watch: SyncWatch) -> None:
        self._clock = clock
        self._watch = watch
        self.waited_s = 0.0
        """By all reads together."""

    async def wait(self) -> bool:
        """Return when a read may begin, after COLD_READ_WAIT_S_MAX at the latest; answers whether it had to wait."""
        began_s = now_s = self._clock.monotonic_s()
        until_s = began_s + COLD_READ_WAIT_S_MAX
        while (wait_s := min(self._watch.read_wait_s(now_s), until_s - now_s)) > 0:
            await sleep_for(self._clock, wait_s)
            now_s = self._clock.monotonic_s()
        self.waited_s += now_s - began_s
        return now_s > began_s
