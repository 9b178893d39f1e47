"""A member of a metadata cluster that measures itself when it is asked to, over its lines."""

import asyncio
import itertools
import os
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from danube.metadata.store import Changed, MetadataStore, Put, Transaction
from danube.runtime.tasks import TaskScope
from lab.metadata.member import open_member
from lab.metadata.wire import serve

VALUE = bytes(range(32, 132))
FILL_KEYS = 500
"""In one transaction, while the keys are made."""
_ids = itertools.count()


class Measured:
    """One store, and what is measured of it. Latencies are in seconds; all methods answer plain data."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self._tasks = TaskScope("measured")
        self._latencies: list[float] = []
        self._following: asyncio.Task[None] | None = None

    async def fill(self, keys: int) -> None:
        """Have so many keys."""
        for first in range(0, keys, FILL_KEYS):
            writes = tuple(Put(_key(index), VALUE) for index in range(first, min(keys, first + FILL_KEYS)))
            await self._store.transact(Transaction(f"fill {os.getpid()} {next(_ids)}", (), writes))

    async def writes(self, count: int, in_flight: int, keys: int) -> list[float]:
        """Put keys: the time of all, and then of each."""
        return await _timed(count, in_flight, lambda index: self._store.put(_key(index * 7919 % keys), VALUE))

    async def reads(self, count: int, in_flight: int, keys: int, linearizable: int) -> list[float]:
        """The same for reads."""
        strict = bool(linearizable)
        return await _timed(
            count, in_flight, lambda index: self._store.get(_key(index * 7919 % keys), linearizable=strict)
        )

    async def follow(self) -> None:
        """Watch what `stamp` writes, from now on: in this member or another one."""
        self._latencies.clear()
        watch = self._store.watch("/bench/stamps")
        events = aiter(watch)
        await anext(events)  # the end of the snapshot, or one of its keys

        async def read() -> None:
            async for event in events:
                if isinstance(event, Changed):
                    self._latencies.append(time.monotonic() - float(event.entry.value))

        self._following = self._tasks.spawn(read(), "follow")

    async def stamp(self, count: int) -> None:
        """Put the time, again and again."""
        for _ in range(count):
            await self._store.put("/bench/stamps/now", repr(time.monotonic()).encode())
            await asyncio.sleep(0)  # a store in memory answers without a turn of the loop, in which watchers read

    async def followed(self) -> list[float]:
        """Time of each change from the call to the watcher."""
        await self._store.get("/bench/stamps/now", linearizable=True)
        if self._following is not None:
            self._following.cancel()
            with suppress(asyncio.CancelledError):
                await self._following
        return self._latencies

    async def resident(self) -> int:
        """Bytes of memory of this process."""
        return _resident_bytes()

    def methods(self) -> dict[str, Callable[..., Awaitable[Any]]]:
        """By their names on the lines."""
        return {
            "fill": self.fill,
            "writes": self.writes,
            "reads": self.reads,
            "follow": self.follow,
            "stamp": self.stamp,
            "followed": self.followed,
            "resident": self.resident,
        }


async def _timed(count: int, in_flight: int, call: Callable[[int], Awaitable[object]]) -> list[float]:
    latencies: list[float] = []
    numbers = iter(range(count))

    async def work() -> None:
        for index in numbers:
            began_s = time.monotonic()
            await call(index)
            latencies.append(time.monotonic() - began_s)

    began_s = time.monotonic()
    await asyncio.gather(*(work() for _ in range(in_flight)))
    return [time.monotonic() - began_s, *latencies]


def _resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def _key(index: int) -> str:
    return f"/bench/keys/{index}"


async def _main() -> None:
    opened = await open_member(sys.argv[1:])
    try:
        await serve(opened.store, opened.methods | Measured(opened.store).methods())
    finally:
        await opened.store.close()


if __name__ == "__main__":
    asyncio.run(_main())
