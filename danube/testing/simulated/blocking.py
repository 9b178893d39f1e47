"""Blocking work in simulated time: it takes a moment, in which the rest of the program goes on."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from danube.runtime.clock import Clock
from danube.runtime.rng import Rng

T = TypeVar("T")


class SimRunner:
    """A `BlockingRunner` whose work is done one piece after the other, each at a moment within its share of time."""

    def __init__(self, clock: Clock, rng: Rng, *, longest_s: float = 0.005) -> None:
        """A piece of work takes up to `longest_s`."""
        self._clock = clock
        self._rng = rng
        self._longest_s = longest_s
        self._free_s = 0.0

    async def run(self, work: Callable[[], T]) -> T:
        done = asyncio.get_running_loop().create_future()
        outcome: list[T | BaseException] = []
        start_s = max(self._clock.monotonic_s(), self._free_s)
        work_s, self._free_s = sorted(start_s + self._rng.uniform(0.0, self._longest_s) for _ in range(2))
        self._clock.call_at(work_s, lambda: outcome.append(_outcome(work)))
        self._clock.call_at(self._free_s, lambda: done.set_result(None))
        try:
            await asyncio.shield(done)
        except asyncio.CancelledError:
            await asyncio.wait([done])
            raise
        result = outcome[0]
        if isinstance(result, BaseException):
            raise result
        return result

    def rest(self) -> None:
        return None

    async def aclose(self) -> None:
        await self.run(lambda: None)


def _outcome(work: Callable[[], T]) -> T | BaseException:
    try:
        return work()
    except BaseException as error:  # the waiter gets it, whatever it is
        return error
