"""Cursors: the record of a subscription's position, and the cursors that wait to be written. Pure.

The layout is drawn in `docs/formats/batch.md`. The last record of a subscription in journal order counts. Ranges past
CURSOR_RANGES_MAX are left out, and their messages delivered again.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from danube.model.limits.broker import CURSOR_FAILURES_MAX, CURSOR_RANGES_MAX
from danube.model.plans.durability import Durability
from danube.model.ranges import OffsetRange
from danube.model.subscription import Cursor, FailedRange
from danube.runtime.checksum import other_version
from danube.runtime.sealed import OVERHEAD_BYTES, OtherVersionError, Sealed, UnsealError
from danube.storage.batches.stored_batch import Saved


class _Stored(NamedTuple):
    subscription_id: int
    position: int
    beyond: tuple[OffsetRange, ...]
    failed: tuple[FailedRange, ...]


_CURSOR = Sealed(b"DnCu", _Stored)
_FIXED_BYTES = OVERHEAD_BYTES + 1 + 2 * 9 + 2 * 5
_RANGE_BYTES, _FAILED_BYTES = 19, 28  # at most


def encode_cursor(subscription_id: int, cursor: Cursor) -> bytes:
    """The body of a cursor record."""
    kept = within_bounds(cursor)
    return _CURSOR.seal(_Stored(subscription_id, kept.position, kept.beyond, kept.failed))


def decode_cursor(body: bytes) -> tuple[int, Cursor] | None:
    """The subscription's id and its cursor, or None when the bytes are not a valid record.

    Raises NewerDataFolderError for one of another version.
    """
    try:
        found = _CURSOR.unseal(body)
    except OtherVersionError as error:
        raise other_version("a cursor", error.found, error.known) from error
    except UnsealError:
        return None
    cursor = Cursor(found.position, found.beyond, found.failed)
    return (found.subscription_id, cursor) if cursor == within_bounds(cursor) else None


def within_bounds(cursor: Cursor, ranges_max: int | None = None) -> Cursor:
    """The cursor with the lowest ranges alone, as many as may be."""
    ranges_max = CURSOR_RANGES_MAX if ranges_max is None else ranges_max
    if len(cursor.beyond) <= ranges_max and len(cursor.failed) <= CURSOR_FAILURES_MAX:
        return cursor
    return Cursor(cursor.position, cursor.beyond[:ranges_max], cursor.failed[:CURSOR_FAILURES_MAX])


def encoded_bytes(cursor: Cursor) -> int:
    """Length of a cursor's record, at most."""
    ranges, failed = min(len(cursor.beyond), CURSOR_RANGES_MAX), min(len(cursor.failed), CURSOR_FAILURES_MAX)
    return _FIXED_BYTES + _RANGE_BYTES * ranges + _FAILED_BYTES * failed


@dataclass(slots=True)
class PendingCursor:
    """A cursor that is not durable yet, and its callbacks."""

    cursor: Cursor
    epoch: int
    """Of the topic's owner."""
    durability: Durability = Durability.FSYNC
    """Of the topic: when the cursor is saved."""
    waiting: list[Saved] = field(default_factory=list)
    body_bytes: int = 0
    """Of its record, once it is in a round."""
    is_gone: bool = False
    """True if its subscription was deleted while it was being written."""


CursorKey = tuple[int, int]
"""Topic id and subscription id."""


class PendingCursors:
    """The last cursor per subscription, until a round has it. The longest waiting goes first."""

    def __init__(self) -> None:
        self._pending: dict[CursorKey, PendingCursor] = {}
        self._urgent = False

    def __len__(self) -> int:
        return len(self._pending)

    @property
    def urgent(self) -> bool:
        """True if a round should be started for them now."""
        return self._urgent and bool(self._pending)

    def put(
        self,
        key: CursorKey,
        cursor: Cursor,
        epoch: int,
        saved: Saved | None,
        durability: Durability = Durability.FSYNC,
    ) -> None:
        """Have `cursor` written, instead of the one before it."""
        pending = self._pending.setdefault(key, PendingCursor(cursor, epoch))
        pending.cursor, pending.epoch, pending.durability = cursor, epoch, durability
        if saved is not None:
            pending.waiting.append(saved)
            self._urgent = True

    def become_strict(self, topic_id: int) -> None:
        """From now on waiting cursors of this topic are saved only after a sync."""
        for key, pending in self._pending.items():
            if key[0] == topic_id:
                pending.durability = Durability.FSYNC

    def hurry(self) -> None:
        """Start a round for them: they have waited long enough."""
        self._urgent = True

    def let_wait(self) -> None:
        """Start no round for them: one has failed."""
        self._urgent = False

    def take(self, bytes_max: int) -> dict[CursorKey, PendingCursor]:
        """Cursors for the round being gathered, as many as fit; when urgent, at least one."""
        taken: dict[CursorKey, PendingCursor] = {}
        room = bytes_max
        for key, pending in self._pending.items():
            room -= encoded_bytes(pending.cursor)
            if room < 0 and (taken or not self._urgent):
                break
            taken[key] = pending
        for key in taken:
            del self._pending[key]
        self._urgent = self._urgent and bool(self._pending)
        return taken

    def put_back(self, key: CursorKey, failed: PendingCursor) -> None:
        """Have a cursor of a failed round written by a later one, unless there is a newer one."""
        self._pending.setdefault(key, PendingCursor(failed.cursor, failed.epoch, failed.durability))

    def drop(self, topic_id: int, subscription_id: int) -> list[Saved]:
        """Drop a subscription's cursor; answers its callbacks."""
        gone = self._pending.pop((topic_id, subscription_id), None)
        return gone.waiting if gone else []

    def drop_topic(self, topic_id: int) -> list[Saved]:
        """Drop a topic's cursors; answers their callbacks."""
        gone = [key for key in self._pending if key[0] == topic_id]
        return [saved for key in gone for saved in self._pending.pop(key).waiting]

    def drop_all(self) -> list[Saved]:
        """Drop all cursors; answers their callbacks."""
        waiting = [saved for pending in self._pending.values() for saved in pending.waiting]
        self._pending.clear()
        self._urgent = False
        return waiting
