"""An event loop whose time is simulated: when nothing is left to do, it is at once as late as the next timer says.

For code that waits by the loop's own time (`asyncio.sleep`, `asyncio.timeout`) and does no input or output: hours pass
in a moment, and the same program does the same things in the same order each time.
"""

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

STUCK_S = 36_000.0  # of simulated time, or nothing to wait for at all: then the program will never end


class SimulatedLoop(asyncio.SelectorEventLoop):
    """The loop. Sockets and threads do not work with it, but for what the loop itself needs."""

    def __init__(self) -> None:
        self._now_s = 0.0
        super().__init__(_Leaping(self._leap))

    def time(self) -> float:
        return self._now_s

    def _leap(self, seconds: float | None) -> None:
        if seconds is None or self._now_s > STUCK_S:
            raise RuntimeError("nothing will ever happen again: a task waits for what nobody does")
        self._now_s += seconds


class _Leaping(selectors.DefaultSelector):
    """Waits no time, and says how long it would have waited."""

    def __init__(self, leap: Callable[[float | None], None]) -> None:
        super().__init__()
        self._waited = leap

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready and (timeout is None or timeout > 0):
            self._waited(timeout)
        return ready


def loop_s() -> float:
    """Seconds on the running loop: monotonic, and simulated where the loop's are."""
    return asyncio.get_running_loop().time()


def run_simulated(program: Coroutine[Any, Any, T]) -> T:
    """Run the program to its end on a loop of its own."""
    with asyncio.Runner(loop_factory=SimulatedLoop) as runner:
        return runner.run(program)


class LoopClock:
    """A `Clock` that shows the running loop's time: simulated where the loop's is."""

    def now_ms(self) -> int:
        return round(self.monotonic_s() * 1000)

    def monotonic_s(self) -> float:
        return loop_s()

    async def sleep_until(self, when_s: float) -> None:
        await asyncio.sleep(max(0.0, when_s - self.monotonic_s()))

    def call_at(self, when_s: float, callback: Callable[[], None]) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_at(when_s, callback)
