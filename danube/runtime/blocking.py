"""Hand-off of blocking work to one thread. Nothing else in the project starts threads.

The work that was started always finishes: cancelling the waiter does not abandon a half-done write.
"""

import asyncio
import concurrent.futures
from collections.abc import Callable
from typing import Protocol, TypeVar

T = TypeVar("T")


class BlockingRunner(Protocol):
    """Runs blocking functions in the order in which they were handed over, away from the event loop."""

    async def run(self, work: Callable[[], T]) -> T:
        """Run `work` and answer its result; if the waiter is cancelled, the work still finishes first."""

    def close(self) -> None:
        """Wait for what was handed over, then end."""

    async def aclose(self) -> None:
        """The same, without blocking the event loop."""


class BlockingThread:
    """One thread for one owner, started at the first use."""

    def __init__(self, name: str) -> None:
        self._executor = concurrent.futures.ThreadPoolExecutor(max_workers=1, thread_name_prefix=name)

    async def run(self, work: Callable[[], T]) -> T:
        future = asyncio.get_running_loop().run_in_executor(self._executor, work)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            await asyncio.wait([future])
            raise

    def close(self) -> None:
        self._executor.shutdown(wait=True)

    async def aclose(self) -> None:
        await self.run(lambda: None)  # the last in the queue: when it is done, so is all the rest
        self._executor.shutdown(wait=False)


class InlineRunner:
    """Runs the work where it is called: for simulations, where nothing blocks."""

    async def run(self, work: Callable[[], T]) -> T:
        return work()

    def close(self) -> None:
        return None

    async def aclose(self) -> None:
        return None
