"""Watch cache: a followed copy of a key range of a metadata store."""

import asyncio
import logging
from collections.abc import Callable, Mapping

from danube.metadata.store import Changed, Entry, MetadataStore, Removed, Resync, SnapshotEnd, WatchEvent
from danube.model.errors import DanubeError
from danube.model.limits.metadata import CLUSTER_RETRY_S
from danube.runtime.clock import Clock, sleep_for

_log = logging.getLogger(__name__)


OnChange = Callable[[str, Entry | None], None]
"""Called with each key that changed, in order, and its entry as it stands now; None when it is gone."""


class WatchCache:
    """A copy that is late by a moment and never wrong in order; while the store is away it stays as it was.

    After a break the copy is replaced at once by the new snapshot: no reader sees half of one.
    """

    def __init__(self, store: MetadataStore, prefix: str, clock: Clock, on_change: OnChange) -> None:
        self._store = store
        self._prefix = prefix
        self._clock = clock
        self._on_change = on_change
        self._entries: dict[str, Entry] = {}
        self._snapshot: dict[str, Entry] | None = {}
        """Entries of the snapshot that is coming; None between snapshots."""
        self._ready = asyncio.Event()

    @property
    def entries(self) -> Mapping[str, Entry]:
        """All keys as they stood last."""
        return self._entries

    async def ready(self) -> None:
        """Return once the first snapshot was told."""
        await self._ready.wait()

    async def run(self) -> None:
        """Follow the store until it is closed."""
        while not await self._followed():
            self.apply(Resync())
            await sleep_for(self._clock, CLUSTER_RETRY_S)

    def apply(self, event: WatchEvent) -> None:
        """Apply one event of the watch."""
        match event:
            case Resync():
                self._snapshot = {}
            case SnapshotEnd():
                self._replace(self._snapshot or {})
            case Changed(entry) if self._snapshot is not None:
                self._snapshot[entry.key] = entry
            case Changed(entry):
                self._set(entry)
            case Removed(key):
                self._remove(key)

    async def _followed(self) -> bool:
        """True if the watch came to its end, as it does when the store is closed."""
        try:
            watch = self._store.watch(self._prefix)
            try:
                async for event in watch:
                    self.apply(event)
            finally:
                await watch.close()
        except DanubeError as error:
            _log.warning("what is below %s cannot be followed, and is tried again: %s", self._prefix, error)
            return False
        return True

    def _replace(self, snapshot: dict[str, Entry]) -> None:
        self._snapshot = None
        for key in [key for key in self._entries if key not in snapshot]:
            self._remove(key)
        for key, entry in snapshot.items():
            if self._entries.get(key) != entry:
                self._set(entry)
        self._ready.set()

    def _set(self, entry: Entry) -> None:
        self._entries[entry.key] = entry
        self._on_change(entry.key, entry)

    def _remove(self, key: str) -> None:
        if self._entries.pop(key, None) is not None:
            self._on_change(key, None)
