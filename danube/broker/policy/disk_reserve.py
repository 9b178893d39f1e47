"""Disk reserve: a file of the data folder that is removed when a full disk is to be cleared.

Metadata, audit log and journal all write before a deletion frees anything. While the file is removed no message is
accepted, so that nothing else uses its space.
"""

import logging
from pathlib import Path
from typing import Protocol

from danube.model.limits.broker import DISK_RESERVE_BYTES_MAX, DISK_RESERVE_RATIO
from danube.runtime.blocking import BlockingRunner
from danube.runtime.disk import DiskRoom, preallocate
from danube.storage.store import Storage

RESERVE = "reserve"
"""The file."""

_PLENTY_BYTES = 8 * DISK_RESERVE_BYTES_MAX  # as measured a moment ago

_log = logging.getLogger(__name__)


class HasRoom(Protocol):
    """The disk that the folder is on."""

    def room(self) -> DiskRoom:
        """As `Disk.room`."""


class DiskReserve:
    """The reserve of one broker."""

    def __init__(self, folder: Path, disk: HasRoom, storage: Storage, runner: BlockingRunner) -> None:
        self._path = folder / RESERVE
        self._disk = disk
        self._storage = storage
        self._runner = runner

    async def keep(self) -> None:
        """Create the file where there is room for two of it; then messages are accepted again."""
        try:
            is_kept = await self._runner.run(self._make)
        except OSError as error:
            _log.warning("no room could be kept back for administration on a full disk: %s", error)
            return
        if is_kept:
            self._storage.note_reserve(is_used=False)

    async def give_up(self) -> None:
        """Make room for a deletion: remove the file if the disk is nearly full."""
        if (self._storage.free_bytes or 0) > _PLENTY_BYTES:
            return
        try:
            given_up = await self._runner.run(self._remove)
        except OSError as error:
            _log.warning("the room kept back for administration could not be given up: %s", error)
            return
        if given_up:
            self._storage.note_reserve(is_used=True)

    def _make(self) -> bool:
        if self._path.exists():
            return True
        room = self._disk.room()
        size = min(DISK_RESERVE_BYTES_MAX, room.total_bytes // DISK_RESERVE_RATIO)
        if room.free_bytes < 2 * size:
            return False
        preallocate(self._path, size)
        return True

    def _remove(self) -> bool:
        if not self._path.exists() or self._disk.room().free_bytes >= self._path.stat().st_size:
            return False
        self._path.unlink()
        return True
