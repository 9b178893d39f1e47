"""Pump: reads a source ahead of its task, so that a batch can be sent while the next record is waited for."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

from danube.connect.batch import Out
from danube.runtime.clock import Clock
from danube.runtime.tasks import TaskScope


class Pump:
    """Reads an iterator into a queue of one batch, and collects batches from that."""

    def __init__(self, records: AsyncIterator[Out[Any]], size: int, clock: Clock) -> None:
        self._records = records
        self._size = size
        self._clock = clock
        self._queue: asyncio.Queue[Out[Any] | None] = asyncio.Queue(size)
        self._scope = TaskScope("connector's source")
        self._error: Exception | None = None
        self.ended = False
        """The iterator is at its end, and all its records were collected."""

    def start(self) -> None:
        """Begin to read."""
        self._scope.spawn(self._read(), "read")

    async def batch(self, *, idle_s: float, linger_s: float) -> list[Out[Any]]:
        """The next records: none after `idle_s`, else those that come within `linger_s` of the first.

        Raises what the iterator raised, after the records before it.
        """
        found: list[Out[Any]] = []
        until_s = self._clock.monotonic_s() + idle_s
        with suppress(TimeoutError):
            while len(found) < self._size and not self.ended:
                record = await self._next(until_s - self._clock.monotonic_s())
                if record is None:
                    self.ended = True
                    break
                if not found:
                    until_s = self._clock.monotonic_s() + linger_s
                found.append(record)
        if self.ended and not found and self._error is not None:
            raise self._error
        return found

    async def close(self) -> None:
        """End the iterator."""
        await self._scope.close()
        if (aclose := getattr(self._records, "aclose", None)) is not None:
            await aclose()

    async def _next(self, timeout_s: float) -> Out[Any] | None:
        if not self._queue.empty():
            return self._queue.get_nowait()
        async with asyncio.timeout(max(timeout_s, 0)):
            return await self._queue.get()

    async def _read(self) -> None:
        try:
            async for record in self._records:
                await self._queue.put(record)
        except Exception as error:
            self._error = error  # raised by `batch`
        await self._queue.put(None)
