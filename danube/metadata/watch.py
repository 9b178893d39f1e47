"""Watches over one store: a snapshot, then every change once and in order, within a bounded buffer.

A hub receives all changes in the order of their revisions, on the event loop. A watch that is not read keeps up to
METADATA_WATCH_EVENTS_MAX of them; past that it drops them, emits `Resync` and begins with a new snapshot.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from itertools import chain

from danube.metadata.commands import Change, prefix_bounds
from danube.metadata.store import Changed, Entry, Resync, SnapshotEnd, WatchEvent
from danube.model.limits.metadata import METADATA_WATCH_EVENTS_MAX

Begin = Callable[[Sequence[Entry], int], None]
"""Takes the entries below the prefix and the revision at which they stood."""

TakeSnapshot = Callable[[str, Begin], Awaitable[None]]
"""Has `begin` called with a snapshot of a prefix: after the hub was told all changes up to its revision, before it is
told any later one."""


class WatchHub:
    """The watches of one store."""

    def __init__(self, take_snapshot: TakeSnapshot, *, events_max: int = METADATA_WATCH_EVENTS_MAX) -> None:
        self._take_snapshot = take_snapshot
        self._events_max = events_max
        self._watches: dict[HubWatch, None] = {}  # in the order in which they were asked for

    def watch(self, prefix: str) -> "HubWatch":
        """A new watch; its first snapshot is taken when it is first read."""
        watch = HubWatch(prefix, self._take_snapshot, self._drop, self._events_max)
        self._watches[watch] = None
        return watch

    def publish(self, changes: Sequence[Change]) -> None:
        for watch in self._watches:
            for change in changes:
                watch.tell(change)

    def reset(self) -> None:
        """The store has jumped: what changed in between cannot be told, so every watch begins anew."""
        for watch in self._watches:
            watch.lose()

    async def close(self) -> None:
        for watch in list(self._watches):
            await watch.close()

    def _drop(self, watch: "HubWatch") -> None:
        self._watches.pop(watch, None)


class HubWatch:
    """One stream, for one reader. A reader that was cancelled while waiting misses nothing when it reads on."""

    def __init__(
        self, prefix: str, take_snapshot: TakeSnapshot, on_close: Callable[["HubWatch"], None], events_max: int
    ) -> None:
        self._prefix = prefix
        self._start, self._end = prefix_bounds(prefix)
        self._take_snapshot = take_snapshot
        self._on_close = on_close
        self._events_max = events_max
        self._snapshot: Iterator[WatchEvent] = iter(())
        self._changes: deque[Change] = deque()
        self._live = False  # whether changes are being kept: from a snapshot on, until they are too many
        self._lost = False  # whether the reader must be told that changes were forgotten
        self._closed = False
        self._wake = asyncio.Event()

    def __aiter__(self) -> "HubWatch":
        return self

    async def __anext__(self) -> WatchEvent:
        while not self._closed:
            event = self._next()
            if event is not None:
                return event
            if self._live:
                self._wake.clear()
                await self._wake.wait()
            else:
                await self._take_snapshot(self._prefix, self._begin)
        raise StopAsyncIteration

    def tell(self, change: Change) -> None:
        """Queue a change for the reader, if it concerns this watch."""
        key = change.entry.key if isinstance(change, Changed) else change.key
        if not self._live or not self._start <= key < self._end:
            return
        if len(self._changes) < self._events_max:
            self._changes.append(change)
        else:
            self._drop_changes()
        self._wake.set()

    def lose(self) -> None:
        """Have the reader told that changes were lost; one that has not begun yet has lost nothing."""
        if self._live:
            self._drop_changes()
            self._wake.set()

    async def close(self) -> None:
        self._closed = True
        self._live = False
        self._snapshot = iter(())
        self._changes.clear()
        self._on_close(self)
        self._wake.set()

    def _next(self) -> WatchEvent | None:
        if self._lost:
            self._lost = False
            return Resync()
        event = next(self._snapshot, None)
        if event is None and self._changes:
            event = self._changes.popleft()
        return event

    def _begin(self, entries: Sequence[Entry], revision: int) -> None:
        if self._closed or self._live:
            return
        self._snapshot = chain(map(Changed, entries), (SnapshotEnd(revision),))
        self._live = True
        self._wake.set()

    def _drop_changes(self) -> None:
        self._live = False
        self._lost = True
        self._snapshot = iter(())
        self._changes.clear()
