"""A clock whose time moves only when the test says so.

Timers fire in order of their time, then of their asking. `advance` needs no event loop; `run_for` and `run_until_idle`
let the tasks of the running loop go on after every timer, so that simulated time never overtakes the work it causes.
A timer asked for a time that has already come fires at the next of these calls, `advance(0)` included.
"""

import asyncio
import heapq
import itertools
from collections.abc import Callable

START_MS = 1_750_000_000_000
"""First time of the wall clock: a date like today's, so that code which formats dates sees a normal one."""

_YIELDS_MAX = 1_000_000  # a loop that has not come to rest by then never will
_END_STEPS_MAX = 100


class SimTimer:
    """A callback that waits for its time."""

    __slots__ = ("_callback",)

    def __init__(self, callback: Callable[[], None]) -> None:
        self._callback: Callable[[], None] | None = callback

    @property
    def waiting(self) -> bool:
        """True until it fires or is called off."""
        return self._callback is not None

    def cancel(self) -> None:
        self._callback = None

    def fire(self) -> None:
        """Call back, unless that was done or called off before."""
        callback, self._callback = self._callback, None
        if callback is not None:
            callback()


class SimClock:
    """A `Clock` for tests: both its times move together, and only forward unless `jump_wall` is used."""

    def __init__(self, *, start_ms: int = START_MS, start_s: float = 0.0) -> None:
        self._wall_offset_s = start_ms / 1000 - start_s
        self._now_s = start_s
        self._timers: list[tuple[float, int, SimTimer]] = []
        self._asked = itertools.count()

    def now_ms(self) -> int:
        return round((self._now_s + self._wall_offset_s) * 1000)

    def monotonic_s(self) -> float:
        return self._now_s

    async def sleep_until(self, when_s: float) -> None:
        if when_s <= self._now_s:
            await asyncio.sleep(0)
            return
        woken = asyncio.get_running_loop().create_future()
        timer = self.call_at(when_s, lambda: None if woken.done() else woken.set_result(None))
        try:
            await woken
        finally:
            timer.cancel()

    def call_at(self, when_s: float, callback: Callable[[], None]) -> SimTimer:
        timer = SimTimer(callback)
        heapq.heappush(self._timers, (when_s, next(self._asked), timer))
        return timer

    def jump_wall(self, seconds: float) -> None:
        """Set the wall clock forward, or back when negative, as an operator or NTP may; the monotonic time stays."""
        self._wall_offset_s += seconds

    def next_timer_s(self) -> float | None:
        """The monotonic time of the earliest waiting timer; None when nothing waits."""
        while self._timers and not self._timers[0][2].waiting:
            heapq.heappop(self._timers)
        return self._timers[0][0] if self._timers else None

    def advance(self, seconds: float) -> None:
        """Move time on; what falls due is called from here, each at its own time. Tasks it wakes run with the loop."""
        end_s = self._now_s + seconds
        while self._fire_next(end_s):
            pass
        self._now_s = end_s

    def skip(self, seconds: float) -> None:
        """Move time on at once, as for a machine that is paused: what fell due meanwhile is called now, once."""
        self._now_s += seconds
        self.advance(0.0)

    async def run_for(self, seconds: float) -> None:
        """Move time on, with the event loop at rest before every timer and at the end."""
        end_s = self._now_s + seconds
        await settle()
        while self._fire_next(end_s):
            await settle()
        self._now_s = end_s

    async def run_until_idle(self, *, within_s: float = 3_600.0) -> None:
        """Run timers and tasks until nothing waits for time any more.

        Raises TimeoutError when that takes more than `within_s` of simulated time: something rearms itself for ever.
        """
        end_s = self._now_s + within_s
        await settle()
        while self._fire_next(end_s):
            await settle()
        if self.next_timer_s() is not None:
            raise TimeoutError(f"timers are still being set after {within_s} simulated seconds")

    def _fire_next(self, end_s: float) -> bool:
        """Fire the earliest timer that is due by `end_s`, at its time; say whether there was one."""
        next_s = self.next_timer_s()
        if next_s is None or next_s > end_s:
            return False
        timer = heapq.heappop(self._timers)[2]
        self._now_s = max(self._now_s, next_s)
        timer.fire()
        return True


async def end_tasks(clock: SimClock) -> None:
    """Cancel whatever still runs of a process that is no more. Raises RuntimeError when something does not end."""
    for _ in range(_END_STEPS_MAX):
        left = asyncio.all_tasks() - {asyncio.current_task()}
        if not left:
            return
        for task in left:
            task.cancel()
        await clock.run_for(1.0)
    raise RuntimeError("tasks of a dead process do not end")


async def settle() -> None:
    """Let every task and callback of the running loop go on until all of them wait for something.

    Raises RuntimeError when they never come to rest.
    """
    ready = getattr(asyncio.get_running_loop(), "_ready")  # noqa: B009 - asyncio has no public word for "nothing to run"
    for _ in range(_YIELDS_MAX):
        await asyncio.sleep(0)
        if not ready:
            return
    raise RuntimeError("the event loop does not come to rest: a task spins")
