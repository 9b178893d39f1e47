"""Acknowledgements that nobody waits for, with a bounded number of them on their way."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from danube.model.errors import DanubeError
from danube.model.limits.broker import CLIENT_ACKS_IN_FLIGHT_MAX
from danube.runtime.tasks import TaskScope

Work = Callable[[], Awaitable[None]]
"""Makes the call: a function, so that nothing is left behind when it is cancelled before it began."""

_log = logging.getLogger(__name__)


class AckPipeline:
    """Runs acknowledgements in the background. One that fails means that its message comes again."""

    def __init__(self, scope: TaskScope) -> None:
        self._scope = scope
        self._room = asyncio.Semaphore(CLIENT_ACKS_IN_FLIGHT_MAX)
        self._under_way = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._error: DanubeError | None = None

    async def add(self, work: Work) -> None:
        """Start `work`, waiting while there is no room."""
        await self._room.acquire()
        self._under_way += 1
        self._idle.clear()
        self._scope.spawn(self._run(work), "acknowledgement")

    async def flush(self) -> None:
        """Return once nothing is under way. Raises the first error since the last time."""
        await self._idle.wait()
        error, self._error = self._error, None
        if error is not None:
            raise error

    async def _run(self, work: Work) -> None:
        try:
            await work()
        except DanubeError as error:
            _log.warning("an acknowledgement failed, its message will come again: %s", error)
            self._error = self._error or error
        finally:
            self._room.release()
            self._under_way -= 1
            if not self._under_way:
                self._idle.set()
