"""Watches objects until counting references has freed them all."""

import asyncio
import gc
import weakref
from collections.abc import Iterator
from contextlib import contextmanager

from danube.testing.patience import PATIENCE_S


@contextmanager
def uncollected() -> Iterator[None]:
    """No garbage collection meanwhile."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


class Freed:
    """Knows which objects there still are."""

    def __init__(self) -> None:
        self._alive: set[weakref.ref[object]] = set()
        self._changed = asyncio.Event()
        self.seen = 0

    def watch(self, *objects: object) -> None:
        self._alive.update(weakref.ref(each, self._gone) for each in objects)
        self.seen += len(objects)
        self._changed.set()

    async def all(self, seen: int) -> None:
        """Return once so many objects were made and all of them are freed."""
        async with asyncio.timeout(PATIENCE_S):
            while self._alive or self.seen < seen:
                self._changed.clear()
                await self._changed.wait()

    def _gone(self, reference: "weakref.ref[object]") -> None:
        self._alive.discard(reference)
        self._changed.set()
