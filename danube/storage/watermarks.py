"""How full a disk may get: from when on it is said, and from when on nothing more is appended. Pure.

Each level is left only when an eighth more than its mark is free, so that a disk at the mark does not swing between
two levels.
"""

from dataclasses import dataclass
from enum import IntEnum

from danube.model.limits.broker import DISK_REFUSE_BYTES, DISK_WARN_BYTES

_REST = 8


class SpaceLevel(IntEnum):
    """How much room a disk has left."""

    OK = 0
    WARN = 1
    """Little: the log says so."""
    REFUSE = 2
    """Too little: appends are refused, everything else goes on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Watermarks:
    """Free bytes at which a disk's level changes; 0 is never."""

    warn_below_bytes: int = DISK_WARN_BYTES
    refuse_below_bytes: int = DISK_REFUSE_BYTES


def space_level(free_bytes: int, before: SpaceLevel, marks: Watermarks) -> SpaceLevel:
    """The level of a disk that was at `before` when it was last looked at."""
    if free_bytes < _bound(marks.refuse_below_bytes, is_left=before is SpaceLevel.REFUSE):
        return SpaceLevel.REFUSE
    if free_bytes < _bound(marks.warn_below_bytes, is_left=before >= SpaceLevel.WARN):
        return SpaceLevel.WARN
    return SpaceLevel.OK


def enough_bytes(mark_bytes: int) -> int:
    """How much must be free for a level to be left."""
    return mark_bytes + mark_bytes // _REST


def _bound(mark_bytes: int, *, is_left: bool) -> int:
    return enough_bytes(mark_bytes) if is_left else mark_bytes
