"""Where a topic's log may be kept, as the contract of topic logs asks it: journal, segments, both; any disk.

A placement says after appends where the batches are. Another way to keep them joins by one more line in PLACEMENTS.
"""

from collections.abc import Awaitable, Callable
from pathlib import Path

from danube.runtime.disk import LocalDisk
from danube.storage.store import Storage
from danube.storage.tiered_log import TieredLog
from danube.testing.disk import SimDisk
from tests.unit.storage.store.storage_world import StorageWorld, cut_all

Placement = Callable[[Storage], Awaitable[None]]


async def in_the_journal(storage: Storage) -> None:
    """Leave everything as it was appended."""


async def in_segments(storage: Storage) -> None:
    """Cut everything."""
    await cut_all(storage)


async def in_both(storage: Storage) -> None:
    """Cut what is in closed files, and leave the rest."""
    await storage.cut()


PLACEMENTS: dict[str, Placement] = {"journal": in_the_journal, "segments": in_segments, "both": in_both}
DISKS = ("sim", "local")


class LogPlace:
    """Logs of one storage, whose batches are where the placement puts them."""

    def __init__(self, placement: str, disk: str, folder: Path) -> None:
        self._place = PLACEMENTS[placement]
        self.world = StorageWorld(LocalDisk(folder), threads=True) if disk == "local" else StorageWorld(SimDisk())
        self._epoch = 0

    async def open(self) -> None:
        await self.world.open()

    @property
    def storage(self) -> Storage:
        return self.world.storage

    def log(self, topic_id: int = 1) -> TieredLog:
        """The log of a topic, under a new epoch."""
        self._epoch += 1
        return self.storage.topic(topic_id, self._epoch)

    async def settle(self) -> None:
        """Have everything that was appended put where this placement keeps it."""
        await self._place(self.storage)

    async def reload(self) -> None:
        """Close the storage and open it again."""
        await self.world.reopen()

    async def close(self) -> None:
        await self.world.end()
