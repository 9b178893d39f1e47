"""Background tasks with a name, an owner and an end, and a wake-up for tasks. Nothing else creates tasks."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from danube.model.errors import DanubeError

_log = logging.getLogger(__name__)

T = TypeVar("T")


class TaskScope:
    """The tasks of one owner: started by name, all ended and awaited by `close()`.

    A task that fails is logged with its traceback and reported to `on_failure`; the scope's other tasks go on.
    """

    def __init__(self, owner: str, on_failure: Callable[[BaseException], None] | None = None) -> None:
        self._owner = owner
        self._on_failure = on_failure
        self._tasks: dict[asyncio.Task[Any], None] = {}  # a set would end them in another order each time
        self._closed = False

    @property
    def closed(self) -> bool:
        """True once no further task can be started."""
        return self._closed

    def spawn(self, work: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        """Start `work` in the background. Raises RuntimeError once the scope is closed."""
        if self._closed:
            work.close()
            raise RuntimeError(f"{self._owner} is closed: it cannot start {name}")
        task = asyncio.get_running_loop().create_task(work, name=f"{self._owner}/{name}")
        self._tasks[task] = None
        task.add_done_callback(self._ended)
        return task

    async def close(self) -> None:
        """Cancel what still runs and wait until all of it has ended."""
        self._closed = True
        tasks = [task for task in self._tasks if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.pop(task, None)
        if task.cancelled():
            return
        error = task.exception()
        if error is None:
            return
        _log.error("background task failed: %s", task.get_name(), exc_info=error)
        if self._on_failure is not None:
            self._on_failure(error)


class Wakeup:
    """Wakes all waiters. Nothing is remembered: check the state, wait, check again."""

    __slots__ = ("_waiters",)

    def __init__(self) -> None:
        self._waiters: set[asyncio.Future[None]] = set()

    def notify(self) -> None:
        """Wake all that wait now."""
        for waiter in self._waiters:
            resolve(waiter, None)

    async def wait(self) -> None:
        """Return after the next `notify`."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.add(waiter)
        try:
            await waiter
        finally:
            self._waiters.discard(waiter)


def resolve(future: "asyncio.Future[T] | None", result: T) -> None:
    """Give a future its result, unless there is none to give it to, or it has one (or was cancelled)."""
    if future is not None and not future.done():
        future.set_result(result)


def is_being_cancelled() -> bool:
    """True while the current task is being cancelled: gRPC says the same of a call whose channel was closed."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def outcome_of(start: Callable[[Callable[[Any], None]], object]) -> Any:  # noqa: ANN401 - as the callback has it
    """Wait for the outcome that `start` gives to its callback. Raises it where it is a DanubeError."""
    future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    start(lambda outcome: resolve(future, outcome))
    outcome = await future
    if isinstance(outcome, DanubeError):
        raise outcome
    return outcome
