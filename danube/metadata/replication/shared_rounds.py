"""Shared rounds: readers that wait for one question to the others, asked for all of them."""

import asyncio
from collections.abc import Awaitable, Callable

from danube.model.errors import DanubeError
from danube.runtime.tasks import resolve


class SharedRounds:
    """Readers that arrive during a round wait for the next one; so no answer is older than the question."""

    def __init__(self, ask: Callable[[], Awaitable[None]]) -> None:
        self._ask = ask
        self._next: asyncio.Future[DanubeError | None] | None = None
        self._wanted = asyncio.Event()
        self._under_way: asyncio.Future[DanubeError | None] | None = None

    async def join(self) -> None:
        """Return once a round that begins from now on has ended. Raises what it raised."""
        if self._next is None:
            self._next = asyncio.get_running_loop().create_future()
            self._wanted.set()
        error = await asyncio.shield(self._next)
        if error is not None:
            raise type(error)(str(error)) from error  # each reader its own: a traceback grows with every raise

    async def run(self) -> None:
        """Make rounds while somebody waits, until cancelled."""
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            self._under_way, self._next = self._next, None
            resolve(self._under_way, await self._round())
            self._under_way = None

    def fail(self, error: DanubeError) -> None:
        """Tell all who wait that there will be no more rounds."""
        for waiting in (self._under_way, self._next):
            resolve(waiting, error)
        self._next = self._under_way = None

    async def _round(self) -> DanubeError | None:
        try:
            await self._ask()
        except DanubeError as error:
            return error
        return None
