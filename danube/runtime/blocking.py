"""Hand-off of blocking work to one thread. Nothing else in the project starts threads.

The work that was started always finishes: cancelling the waiter does not abandon a half-done write.
"""

import asyncio
import contextlib
import queue
import threading
import time
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from danube.model.errors import ShuttingDownError

T = TypeVar("T")

REST_AFTER_S = 0.000_5
"""A thread that has computed for less goes on."""
REST_MAX_S = 0.005
"""Longest rest, however long it has computed."""


async def run_apart(name: str, work: Callable[[], T]) -> T:
    """Run `work` in a thread of its own: for what is rare enough not to keep one."""
    thread = BlockingThread(name)
    try:
        return await thread.run(work)
    finally:
        await thread.aclose()


class BlockingRunner(Protocol):
    """Runs blocking functions in the order in which they were handed over, away from the event loop."""

    async def run(self, work: Callable[[], T]) -> T:
        """Run `work` and answer its result; if the waiter is cancelled, the work still finishes first."""

    def rest(self) -> None:
        """Called now and then by work that computes for long: others are let to the interpreter meanwhile."""

    async def aclose(self) -> None:
        """Wait for what was handed over, then end."""


class BlockingThread:
    """One thread for one owner, started at the first use.

    A hand-off costs one queue, one future and one wake-up of the loop: what the journal pays for each round.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._queue: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._closed = False
        self._rested_s = 0.0
        """Time that the thread had computed when it rested last."""

    async def run(self, work: Callable[[], T]) -> T:
        """As the protocol; raises ShuttingDownError once closed, RuntimeError when the system has no thread to give."""
        handed_over = _HandedOver(work)
        self.start(handed_over.carry_out)
        result: T = await handed_over.wait()
        return result

    def start(self, work: Callable[[], None]) -> None:
        """Have `work` done in its turn and tell nobody, for owners without an event loop. It must not raise."""
        if self._closed:
            raise ShuttingDownError(f"the thread {self._name} is closed: start what it is part of again")
        if self._thread is None:
            thread = threading.Thread(target=self._work_off, name=self._name, daemon=True)
            thread.start()
            self._thread = thread  # not before: one that could not start would be waited for for ever
        self._queue.put(work)

    def rest(self) -> None:
        """As the protocol: sleep for as long as the thread has computed since it did last.

        After each system call the event loop waits for the interpreter until a thread that computes lets go of it,
        5 ms as a rule, and a message takes several. So the pieces of long work are to be much shorter.
        """
        computed_s = time.thread_time() - self._rested_s
        if computed_s >= REST_AFTER_S:
            time.sleep(min(computed_s, REST_MAX_S))
            self._rested_s = time.thread_time()

    def leave(self) -> None:
        """End after what was handed over, without waiting for it."""
        if not self._closed:
            self._closed = True
            self._queue.put(None)

    def close(self) -> None:
        """As `aclose`, for owners without an event loop: it blocks."""
        self.leave()
        if self._thread is not None:
            self._thread.join()

    async def aclose(self) -> None:
        if not self._closed and self._thread is not None:
            await self.run(lambda: None)  # the last in the queue: when it is done, so is all the rest
        self.leave()

    def _work_off(self) -> None:
        while (work := self._queue.get()) is not None:
            work()


class _HandedOver:
    """One piece of work, between the loop that waits for it and the thread that does it."""

    __slots__ = ("_abandoned", "_ended", "_future", "_loop", "_work")

    def __init__(self, work: Callable[[], Any]) -> None:
        self._work = work
        self._loop = asyncio.get_running_loop()
        self._future: asyncio.Future[Any] = self._loop.create_future()
        self._ended = False
        self._abandoned: asyncio.Future[None] | None = None
        """Resolved when the work has ended, for a waiter that was cancelled."""

    async def wait(self) -> Any:  # noqa: ANN401 - whatever the work answers
        try:
            return await self._future
        except asyncio.CancelledError:
            if not self._ended:
                self._abandoned = self._loop.create_future()
                await self._see_it_end(self._abandoned)
            raise

    def carry_out(self) -> None:
        """Do the work, in the thread, and tell the loop; a loop that is closed has nobody left to tell."""
        try:
            result, error = self._work(), None
        except BaseException as raised:  # raised again where it is waited for
            result, error = None, raised
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._tell, result, error)

    def _tell(self, result: Any, error: BaseException | None) -> None:  # noqa: ANN401 - as above
        self._ended = True
        if self._abandoned is not None:
            self._abandoned.set_result(None)
        if self._future.done():
            return
        if error is None:
            self._future.set_result(result)
        else:
            self._future.set_exception(error)

    @staticmethod
    async def _see_it_end(ended: "asyncio.Future[None]") -> None:
        while not ended.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.shield(ended)


class InlineRunner:
    """Runs the work where it is called: for simulations, where nothing blocks."""

    async def run(self, work: Callable[[], T]) -> T:
        return work()

    def rest(self) -> None:
        return None

    async def aclose(self) -> None:
        return None


class OwnedThread:
    """A thread for one function that goes on until its owner has it return: what must keep time beside a busy loop.

    What the function raises is raised again by `ended`.
    """

    def __init__(self, name: str, work: Callable[[], None]) -> None:
        self._work = work
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ended: asyncio.Future[None] | None = None

    def start(self) -> None:
        """Run the function. To be called once, on the loop that `ended` will be awaited on."""
        self._loop = asyncio.get_running_loop()
        self._ended = self._loop.create_future()
        self._thread.start()

    def call_back(self, callback: Callable[..., object], *arguments: object) -> None:
        """Have the loop call `callback`, in the order asked for; a closed loop calls nobody. From the thread."""
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(callback, *arguments)

    async def ended(self) -> None:
        """Return once the function has returned; its owner has told it to. At once if it was never started."""
        if self._ended is not None:
            await asyncio.shield(self._ended)

    def _run(self) -> None:
        error: BaseException | None = None
        try:
            self._work()
        except BaseException as raised:  # raised again where it is waited for
            error = raised
        self.call_back(self._tell, error)

    def _tell(self, error: BaseException | None) -> None:
        if self._ended is not None and not self._ended.done():
            if error is None:
                self._ended.set_result(None)
            else:
                self._ended.set_exception(error)
                self._ended.exception()  # it is told where it is awaited, or to the owner by other ways


class LoopThread:
    """An event loop that runs in a thread of its own, for callers without one."""

    def __init__(self, name: str) -> None:
        self.loop = asyncio.new_event_loop()
        """For `run_coroutine_threadsafe`."""
        self._thread = threading.Thread(target=self.loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop the loop, and wait for its thread; it blocks."""
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()
