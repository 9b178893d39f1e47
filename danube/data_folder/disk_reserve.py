"""Disk reserve: a file of the data folder that is given up when a full disk is to be cleared, or stops the metadata.

Metadata, audit log and journal all write before a deletion frees anything, and so does a start. A reserve that is given
up is an empty file, so the next start knows it. Until it is there again no message is accepted: nothing else uses its
space.
"""

import logging
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from danube.model.limits.broker import DISK_RESERVE_BYTES_MAX, DISK_RESERVE_RATIO, DISK_ROOM_BYTES_MIN
from danube.runtime.disk import DiskRoom, preallocate

RESERVE = "reserve"
"""The file."""

_log = logging.getLogger(__name__)


class HasRoom(Protocol):
    """The disk that the folder is on."""

    def room(self) -> DiskRoom:
        """As `Disk.room`."""


class DiskReserve:
    """The reserve of one data folder. Everything blocks, and may be called from any thread."""

    def __init__(self, folder: Path, disk: HasRoom) -> None:
        self._path = folder / RESERVE
        self._disk = disk
        self._changing = threading.Lock()
        self._on_used: Callable[..., None] = lambda **_: None

    def follow(self, on_used: Callable[..., None]) -> None:
        """Have `on_used(is_used=...)` called, from any thread, while the reserve is given up and when that changes."""
        self._on_used = on_used
        if self._path.exists() and not self._size():
            on_used(is_used=True)

    def keep(self) -> None:
        """Create the file where there is room for two of it; then messages are accepted again."""
        try:
            with self._changing:
                is_kept = self._make()
        except OSError as error:
            _log.warning("no room could be kept back for administration on a full disk: %s", error)
            return
        if is_kept:
            self._on_used(is_used=False)

    def make_room(self) -> bool:
        """Give the file up if the disk is nearly full; answers whether there is room to write something small."""
        try:
            with self._changing:
                given_up = self._give_up()
            if given_up:
                self._on_used(is_used=True)
            return self._disk.room().free_bytes >= DISK_ROOM_BYTES_MIN
        except OSError as error:
            _log.warning("the room kept back for administration could not be given up: %s", error)
            return False

    def _make(self) -> bool:
        if self._size():
            return True
        room = self._disk.room()
        size = min(DISK_RESERVE_BYTES_MAX, room.total_bytes // DISK_RESERVE_RATIO)
        if room.free_bytes < 2 * size:
            return False
        self._path.unlink(missing_ok=True)
        preallocate(self._path, size)
        return True

    def _give_up(self) -> bool:
        size = self._size()
        if not size or self._disk.room().free_bytes >= size:
            return False
        os.truncate(self._path, 0)
        return True

    def _size(self) -> int:
        return self._path.stat().st_size if self._path.exists() else 0
