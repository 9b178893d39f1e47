"""Room on the disk: a warning when it gets little, and appends refused before there is none.

Each level is left only when an eighth more than its mark is free: a disk at the mark does not swing between two levels.
"""

import logging
import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

from danube.model.errors import StorageUnavailableError
from danube.model.limits.broker import DISK_REFUSE_BYTES, DISK_WARN_BYTES
from danube.runtime.blocking import BlockingRunner
from danube.runtime.disk import DiskRoom

_REST = 8


class SpaceLevel(IntEnum):
    """Room that a disk has left."""

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
    """Free bytes at which a level is left."""
    return mark_bytes + mark_bytes // _REST


def _bound(mark_bytes: int, *, is_left: bool) -> int:
    return enough_bytes(mark_bytes) if is_left else mark_bytes


_MIB = 1024 * 1024
_IN_USE = (
    "the disk is full, and the room that was kept back is in use to delete something: free more space, and appends go"
    " on by themselves. Reading goes on all the time"
)

_log = logging.getLogger(__name__)


class SpaceGate:
    """Admission of appends by free space; a refusal costs nothing but the question.

    Between two looks at the disk it counts the bytes that it admitted, so the mark holds at any rate of messages.
    """

    def __init__(self, marks: Watermarks) -> None:
        self._marks = marks
        self._refusal: str | None = None
        self._room: DiskRoom | None = None
        self._admit_until: float = math.inf
        """What `admitted_bytes` may grow to before the next look."""
        self._is_reserve_used = False
        self.admitted_bytes = 0
        """By all appends that the journal took."""
        self.outage: Callable[[], str | None] | None = None
        """Answers why a store behind the disk takes nothing for now."""
        self.level = SpaceLevel.OK
        self.free_bytes: int | None = None
        """As last seen; None before the first look."""

    @property
    def refusal(self) -> str | None:
        """The reason that appends are refused, or None."""
        return self._refusal or (self.outage() if self.outage is not None else None)

    def check(self, size: int) -> None:
        """Raise StorageUnavailableError while there is too little room for an append of so many bytes."""
        if self._refusal is None and self.admitted_bytes + size > self._admit_until and self._room is not None:
            self._judge(
                DiskRoom(min(self._room.free_bytes, self._marks.refuse_below_bytes - 1), self._room.total_bytes)
            )
        if (reason := self.refusal) is not None:
            raise StorageUnavailableError(reason)

    def update(self, room: DiskRoom, unwritten_bytes: int = 0) -> None:
        """Set the free space, less `unwritten_bytes` that were admitted; a change of the level is logged once."""
        self._room = room
        self.free_bytes = room.free_bytes
        left_bytes = room.free_bytes - unwritten_bytes - self._marks.refuse_below_bytes
        self._admit_until = self.admitted_bytes + left_bytes if self._marks.refuse_below_bytes else math.inf
        self._judge(room)

    def note_reserve(self, *, is_used: bool) -> None:
        """Refuse appends while the reserve for administration is used. From any thread."""
        self._is_reserve_used = is_used
        if self._room is not None:
            self._judge(self._room)

    def _judge(self, room: DiskRoom) -> None:
        level = space_level(room.free_bytes, self.level, self._marks)
        self._refusal = _refusal(room, self._marks.refuse_below_bytes) if level is SpaceLevel.REFUSE else None
        if self._is_reserve_used:
            level, self._refusal = SpaceLevel.REFUSE, _IN_USE
        if level is not self.level:
            self.level = level
            self._log_level(room)

    def _log_level(self, room: DiskRoom) -> None:
        if self._refusal is not None:
            _log.error("appends are refused: %s", self._refusal)
        elif self.level is SpaceLevel.WARN:
            _log.warning("%s", _warning(room, self._marks))
        else:
            _log.warning("the disk has room again: %d MiB are free", room.free_bytes // _MIB)


def _refusal(room: DiskRoom, mark_bytes: int) -> str:
    if room.total_bytes < enough_bytes(mark_bytes):
        return (
            f"the whole disk has {room.total_bytes // _MIB} MiB, and {mark_bytes // _MIB} are to stay free on it: set"
            " disk_refuse_free_bytes lower (0 keeps nothing back), or use a larger disk. Reading goes on all the time"
        )
    return (
        f"the disk has {room.free_bytes // _MIB} MiB left, and {mark_bytes // _MIB} are kept back: free some space or"
        " let topics keep less, and appends go on by themselves; or set disk_refuse_free_bytes lower. Reading goes on"
        " all the time"
    )


def _warning(room: DiskRoom, marks: Watermarks) -> str:
    left = f"the disk has {room.free_bytes // _MIB} MiB left"
    if room.total_bytes < enough_bytes(marks.warn_below_bytes):
        left = f"the whole disk has {room.total_bytes // _MIB} MiB, fewer than disk_warn_free_bytes"
    if not marks.refuse_below_bytes:
        return f"{left}: appends go on until it is full (disk_refuse_free_bytes is 0); free some space"
    refused = f"below {marks.refuse_below_bytes // _MIB} MiB (disk_refuse_free_bytes) appends are refused"
    return f"{left}: {refused}; free some space"


async def check_space(
    gate: SpaceGate, room: Callable[[], DiskRoom], runner: BlockingRunner, backlog_bytes: int
) -> None:
    """Read the free space; a disk that does not answer stays as seen last. `backlog_bytes` wait to be written now."""
    written_bytes = gate.admitted_bytes - backlog_bytes
    try:
        found = await runner.run(room)
        gate.update(found, gate.admitted_bytes - written_bytes)
    except OSError as error:
        _log.warning("the disk does not say how much is free: %s", error)
