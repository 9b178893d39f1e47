"""High-water mark of a data folder: how far the metadata had come when the folder last acted upon it.

The file `metadata.mark` stands beside the metadata. It is durable before a change of the metadata is answered, so
metadata that is behind the mark has lost changes: an older copy was put back, or its write-ahead log is gone. It is
never ahead of metadata that is whole.

Two slots of 28 bytes, at bytes 0 and 4096, are written in turn; the valid one with the higher number counts.
Little-endian, no padding:

    at  bytes  field
    0   4      magic "DnMm"
    4   4      number of this write
    8   8      revision of the metadata
    16  8      the last topic id given out
    24  4      CRC-32C of the 24 bytes before it
"""

import logging
import struct
from dataclasses import dataclass
from pathlib import Path

from danube.runtime.checksum import CRC_BYTES, is_intact, with_crc
from danube.runtime.disk import LocalDisk

NAME = "metadata.mark"
"""Within the data folder."""

_MAGIC = b"DnMm"
_SLOT = struct.Struct("<4sIQQ")
_SLOT_BYTES = _SLOT.size + CRC_BYTES
_PLACES = (0, 4096)

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Reached:
    """Progress of metadata."""

    revision: int = 0
    topic_id: int = 0
    """The last one given out."""

    def is_behind(self, other: "Reached") -> bool:
        """True if it is behind in anything."""
        return self.revision < other.revision or self.topic_id < other.topic_id

    def joined(self, other: "Reached") -> "Reached":
        """The greater of both, in each number."""
        return Reached(max(self.revision, other.revision), max(self.topic_id, other.topic_id))


@dataclass(frozen=True, slots=True)
class Rollback:
    """Metadata that is behind its mark."""

    found: Reached
    marked: Reached

    def __str__(self) -> str:
        found, marked = self.found, self.marked
        return (
            f"it is at revision {found.revision} with topic ids up to {found.topic_id}, and revision {marked.revision}"
            f" with topic ids up to {marked.topic_id} was acted upon"
        )


def rollback_of(found: Reached, marked: Reached | None, *, is_accepted: bool) -> Rollback | None:
    """Difference between metadata and its mark; None where it is not behind.

    One that a person has accepted stays one until a broker has taken it in, even if a repair has changed the metadata.
    """
    marked = marked or Reached()
    return Rollback(found, marked) if is_accepted or found.is_behind(marked) else None


class HighWaterMark:
    """The mark in one data folder. All of it blocks, in one thread."""

    def __init__(self, folder: Path) -> None:
        self._disk = LocalDisk(folder)
        self._slots = [_decode(self._disk, at) for at in _PLACES]
        self._is_there = self._disk.exists(NAME)
        self._is_failing = False

    @property
    def is_unreadable(self) -> bool:
        """True if the folder has a damaged one."""
        return self._is_there and self.reached is None

    @property
    def reached(self) -> Reached | None:
        """Content of the mark; None where it is missing or damaged."""
        found = [slot for slot in self._slots if slot is not None]
        return max(found, key=lambda slot: slot[0])[1] if found else None

    def advance(self, reached: Reached) -> None:
        """Raise the mark to at least this, durably."""
        before = self.reached or Reached()
        if before.is_behind(reached):
            self.write(before.joined(reached))

    def write(self, reached: Reached) -> None:
        """Have it say this, durably. A disk that fails leaves the mark before, which is still true."""
        if reached == self.reached:
            return
        number, place = self._next()
        encoded = _encode(number, reached)
        try:
            if self._is_there and self.reached is not None:
                self._disk.overwrite(NAME, _PLACES[place], encoded)
            else:
                self._disk.replace_file(NAME, encoded.ljust(_PLACES[-1] + _SLOT_BYTES, b"\0"))
                self._is_there = True
        except OSError as error:
            if not self._is_failing:
                _log.warning("%s could not be written, so lost changes of the metadata may go unseen: %s", NAME, error)
            self._is_failing = True
        else:
            self._slots[place], self._is_failing = (number, reached), False

    def _next(self) -> tuple[int, int]:
        """The number of the next write, and its slot: not the one that counts now."""
        numbers = [slot[0] if slot is not None else -1 for slot in self._slots]
        return max(numbers) + 1, numbers.index(min(numbers))


def _encode(number: int, reached: Reached) -> bytes:
    return with_crc(_SLOT.pack(_MAGIC, number, reached.revision, reached.topic_id))


def _decode(disk: LocalDisk, at: int) -> tuple[int, Reached] | None:
    """Number and content of the slot at this byte; None when it is not what was written."""
    try:
        file = disk.open_read(NAME)
    except OSError:
        return None
    try:
        encoded = file.read(at, _SLOT_BYTES)
    finally:
        file.close()
    if len(encoded) < _SLOT_BYTES or not is_intact(encoded):
        return None
    magic, number, *reached = _SLOT.unpack_from(encoded)
    return (number, Reached(*reached)) if magic == _MAGIC else None
