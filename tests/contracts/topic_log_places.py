"""Where a topic's log may be kept, as the contract of topic logs asks it: journal, segments, both; any disk; any owner.

A placement says after appends where the batches are. Another way to keep them joins by one more line in PLACEMENTS.
"""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Protocol, cast

from danube.runtime.disk import Disk, LocalDisk
from danube.storage.log.topic_log import TopicLog
from danube.storage.store import Storage
from danube.testing.simulated.clock import SimClock
from danube.testing.simulated.disk import SimDisk
from tests.unit.storage.store.storage_world import StorageWorld, flush_all
from tests.unit.storage.takeover.storages_world import StoragesWorld, flush_whole

Placement = Callable[[Storage], Awaitable[None]]


async def in_the_journal(storage: Storage) -> None:
    """Leave everything as it was appended."""


async def in_segments(storage: Storage) -> None:
    """Cut everything."""
    await flush_all(storage)


async def in_both(storage: Storage) -> None:
    """Cut what is in closed files, and leave the rest."""
    await storage.flush()


PLACEMENTS: dict[str, Placement] = {"journal": in_the_journal, "segments": in_segments, "both": in_both}
TAKEN = {"taken": False, "taken+cut": True}
"""In a shared folder, with another broker than the one that it was appended to; and whether that one has cut it."""
DISKS = ("sim", "local")


class LogPlace(Protocol):
    """Logs of one storage, whose batches are where the placement puts them."""

    changes_owner: bool
    """Whether `settle` ends the life of the one that was appended to: what was in its memory only is gone."""

    async def open(self) -> None:
        """Begin."""

    @property
    def storage(self) -> Storage:
        """The one that is open."""

    @property
    def clock(self) -> SimClock:
        """Its time."""

    @property
    def sim(self) -> SimDisk:
        """Its disk, of those that are on a simulated one."""

    def log(self, topic_id: int = 1) -> TopicLog:
        """The log of a topic, under a new epoch."""

    async def settle(self) -> None:
        """Have everything that was appended put where this placement keeps it."""

    async def reload(self) -> None:
        """Close the storage and open it again."""

    async def close(self) -> None:
        """End."""


def log_place(placement: str, disk: str, folder: Path) -> LogPlace:
    """A place by its name."""
    made: Disk = LocalDisk(folder) if disk == "local" else SimDisk()
    if placement in TAKEN:
        return TakenPlace(made, is_flushed=TAKEN[placement])
    return OwnPlace(PLACEMENTS[placement], made)


class OwnPlace:
    """In a broker's own folder."""

    changes_owner = False

    def __init__(self, place: Placement, disk: Disk) -> None:
        self._place = place
        self._world = StorageWorld(disk, threads=isinstance(disk, LocalDisk))
        self._epoch = 0

    async def open(self) -> None:
        await self._world.open()

    @property
    def storage(self) -> Storage:
        return self._world.storage

    @property
    def clock(self) -> SimClock:
        return self._world.clock

    @property
    def sim(self) -> SimDisk:
        return self._world.sim

    def log(self, topic_id: int = 1) -> TopicLog:
        self._epoch += 1
        return self.storage.topic(topic_id, self._epoch)

    async def settle(self) -> None:
        await self._place(self.storage)

    async def reload(self) -> None:
        await self._world.reopen()

    async def close(self) -> None:
        await self._world.end()


class TakenPlace:
    """In a folder that brokers share: to settle is that another broker takes all topics over."""

    changes_owner = True
    topics = (1, 2, 3)

    def __init__(self, disk: Disk, *, is_flushed: bool) -> None:
        self._world = StoragesWorld(disk)
        self._is_flushed = is_flushed
        self._number = 1
        self._logs: list[MovedLog] = []

    async def open(self) -> None:
        await self._world.create(*self.topics)
        await self._world.start(self._number)
        await self.storage.acquire(self.topics)

    @property
    def storage(self) -> Any:
        return self._world.storage(self._number)

    @property
    def clock(self) -> SimClock:
        return self._world.clock

    @property
    def sim(self) -> SimDisk:
        assert isinstance(self._world.disk, SimDisk)
        return self._world.disk

    def log(self, topic_id: int = 1) -> TopicLog:
        log = MovedLog(self.storage.topic(topic_id))
        self._logs.append(log)
        return cast("TopicLog", log)

    async def settle(self) -> None:
        """The former owner is not told, and goes on reading."""
        self._number += 1
        taker = await self._world.start(self._number)
        assert await taker.acquire(self.topics) == frozenset(self.topics)
        for log in self._logs:
            log.move(taker.topic(log.now.topic_id))
        if self._is_flushed:
            await flush_whole(taker)
            assert await taker.remove_journals() == 1

    async def reload(self) -> None:
        await self._world.stop(self._number)
        await self._world.start(self._number)
        self._logs.clear()

    async def close(self) -> None:
        await self._world.end()


class MovedLog:
    """A topic's log wherever the topic is: what a client sees that follows it from owner to owner."""

    def __init__(self, log: TopicLog) -> None:
        self.now = log
        self._listeners: list[Callable[[int], None]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.now, name)

    def on_durable(self, listener: Callable[[int], None]) -> None:
        """As `TopicLog`; the listener goes along."""
        self._listeners.append(listener)
        self.now.on_durable(listener)

    def move(self, log: TopicLog) -> None:
        """Be the next owner's."""
        self.now = log
        for listener in self._listeners:
            log.on_durable(listener)
