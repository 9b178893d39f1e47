"""The memory of a process that runs for long."""

import contextlib
import gc
import threading
from collections.abc import Iterator


def settle_memory() -> None:
    """Have the garbage collector leave alone what a start has made: modules and tables, which live to the end.

    Else each of its full rounds, on the event loop in the midst of everything, would look at all of it again.
    """
    gc.collect()
    gc.freeze()


class _Pauses:
    """How many are under way, in all threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0
        self._was_enabled = False

    def begin(self) -> None:
        with self._lock:
            if not self._count:
                self._was_enabled = gc.isenabled()
                gc.disable()
            self._count += 1

    def end(self) -> None:
        with self._lock:
            self._count -= 1
            if not self._count and self._was_enabled:
                gc.enable()


_pauses = _Pauses()


@contextlib.contextmanager
def collections_paused() -> Iterator[None]:
    """Have the garbage collector begin no round meanwhile, in any thread: for work with very many objects, no cycles.

    While they are made, rounds begin all the time; each looks at all of them, and every thread waits for it. What
    others leave in cycles stays in memory until the last of those who paused has ended.
    """
    _pauses.begin()
    try:
        yield
    finally:
        _pauses.end()
