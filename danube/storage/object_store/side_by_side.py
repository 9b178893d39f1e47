"""Requests side by side: a few threads that wait for the object store."""

import threading
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from danube.runtime.blocking import BlockingThread

T = TypeVar("T")


class SideBySide:
    """Carries out several pieces of blocking work at once; with no threads, as in simulations, one after the other."""

    def __init__(self, threads: int) -> None:
        self._threads = [BlockingThread(f"objects-{number}") for number in range(threads)]
        self._turn = 0

    def run(self, work: Sequence[Callable[[], T]]) -> list[T]:
        """The results, in order. Raises the first error, after all have ended."""
        if not self._threads or len(work) == 1:
            return [one() for one in work]
        ended = [self.start(one) for one in work]
        found = [one.wait() for one in ended]
        for _, error in found:
            if error is not None:
                raise error
        return [result for result, _ in found]  # type: ignore[misc]

    def start(self, work: Callable[[], T]) -> "Ended[T]":
        """Start one piece of work, or do it at once where there are no threads."""
        ended: Ended[T] = Ended(work)
        if self._threads:
            self._turn = (self._turn + 1) % len(self._threads)
            self._threads[self._turn].start(ended.carry_out)
        else:
            ended.carry_out()
        return ended

    def close(self) -> None:
        """End after what was started."""
        for thread in self._threads:
            thread.leave()


class Ended(Generic[T]):
    """The end of one piece of work."""

    def __init__(self, work: Callable[[], T]) -> None:
        self._work = work
        self._event = threading.Event()
        self._outcome: tuple[T | None, BaseException | None] = (None, None)

    def wait(self) -> tuple[T | None, BaseException | None]:
        """Result, or error, once it has ended."""
        self._event.wait()
        return self._outcome

    def carry_out(self) -> None:
        """Do it. Never raises."""
        try:
            self._outcome = self._work(), None
        except BaseException as error:  # raised where it is waited for
            self._outcome = None, error
        self._event.set()
