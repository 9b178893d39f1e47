"""When a read of files may go to the disk: live messages first."""

from danube.model.limits.broker import COLD_READ_WAIT_S_MAX
from danube.runtime.clock import Clock, sleep_for
from danube.storage.journal.sync_watch import SyncWatch


class ColdReadThrottle:
    """Has cold reads wait while the disk is unusually slow for the journal's syncs."""

    def __init__(self, clock: Clock, watch: SyncWatch) -> None:
        self._clock = clock
        self._watch = watch
        self.waited_s = 0.0
        """By all reads together."""

    async def come(self) -> bool:
        """Return when a read may begin, after COLD_READ_WAIT_S_MAX at the latest; answers whether it had to wait."""
        began_s = now_s = self._clock.monotonic_s()
        until_s = began_s + COLD_READ_WAIT_S_MAX
        while (wait_s := min(self._watch.read_wait_s(now_s), until_s - now_s)) > 0:
            await sleep_for(self._clock, wait_s)
            now_s = self._clock.monotonic_s()
        self.waited_s += now_s - began_s
        return now_s > began_s
