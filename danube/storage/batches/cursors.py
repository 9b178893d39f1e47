"""Cursors: the record of a subscription's position, and the cursors that wait to be written. Pure.

The layout is drawn in `docs/formats/batch.md`. The last record of a subscription in journal order counts. Ranges past
CURSOR_RANGES_MAX are left out, and their messages delivered again.
"""

import struct
from dataclasses import dataclass, field
from itertools import chain

from danube.model.limits.broker import CURSOR_FAILURES_MAX, CURSOR_RANGES_MAX
from danube.model.plans.durability import Durability
from danube.model.ranges import OffsetRange
from danube.model.subscription import Cursor, FailedRange
from danube.runtime.checksum import CRC_BYTES, is_intact, refuse_other_version, with_crc
from danube.storage.batches.stored_batch import Saved

MAGIC = b"DnCu"
VERSION = 1

_HEADER = struct.Struct("<4sB3sQQI")
_COUNT = struct.Struct("<I")
_FAILED = struct.Struct("<QQI")
_FAILURES_MAX = 2**32 - 1
_RANGE_BYTES = 16
_RESERVED = bytes(3)


def encode_cursor(subscription_id: int, cursor: Cursor) -> bytes:
    """The body of a cursor record."""
    ranges = cursor.beyond[:CURSOR_RANGES_MAX]
    content = _HEADER.pack(MAGIC, VERSION, _RESERVED, subscription_id, cursor.position, len(ranges)) + struct.pack(
        f"<{2 * len(ranges)}Q", *chain.from_iterable(ranges)
    )
    return with_crc(content + encode_failed(cursor.failed))


def decode_cursor(body: bytes) -> tuple[int, Cursor] | None:
    """The subscription's id and its cursor, or None when the bytes are not a valid record.

    Raises NewerDataFolderError for one of another version.
    """
    refuse_other_version("a cursor", body, MAGIC, VERSION)
    if len(body) < _HEADER.size + CRC_BYTES or not is_intact(body):
        return None
    magic, version, reserved, subscription_id, position, count = _HEADER.unpack_from(body)
    if magic != MAGIC or version != VERSION or reserved != _RESERVED or count > CURSOR_RANGES_MAX:
        return None
    ranges_end = _HEADER.size + _RANGE_BYTES * count
    failed = decode_failed(body[ranges_end:-CRC_BYTES])
    if failed is None or len(body) != _bytes(count, len(failed)):
        return None
    numbers = struct.unpack_from(f"<{2 * count}Q", body, _HEADER.size)
    ranges = tuple(OffsetRange(start, end) for start, end in zip(numbers[::2], numbers[1::2], strict=True))
    return subscription_id, Cursor(position, ranges, failed)


def encode_failed(failed: tuple[FailedRange, ...]) -> bytes:
    """Ranges of messages that failed: how many, and each of them."""
    kept = failed[:CURSOR_FAILURES_MAX]
    rows = (_FAILED.pack(start, end, min(failures, _FAILURES_MAX)) for start, end, failures in kept)
    return _COUNT.pack(len(kept)) + b"".join(rows)


def decode_failed(encoded: bytes | memoryview) -> tuple[FailedRange, ...] | None:
    """The ranges that `encoded` begins with, or None when there are not as many as it says, or more than may be."""
    if len(encoded) < _COUNT.size:
        return None
    (count,) = _COUNT.unpack_from(encoded)
    end = failed_bytes(count)
    if count > CURSOR_FAILURES_MAX or len(encoded) < end:
        return None
    return tuple(FailedRange(*row) for row in _FAILED.iter_unpack(encoded[_COUNT.size : end]))


def failed_bytes(count: int) -> int:
    """Length of so many encoded ranges of messages that failed."""
    return _COUNT.size + _FAILED.size * count


def encoded_bytes(cursor: Cursor) -> int:
    """Length of a cursor's record."""
    return _bytes(min(len(cursor.beyond), CURSOR_RANGES_MAX), min(len(cursor.failed), CURSOR_FAILURES_MAX))


def _bytes(ranges: int, failed: int) -> int:
    return _HEADER.size + _RANGE_BYTES * ranges + failed_bytes(failed) + CRC_BYTES


@dataclass(slots=True)
class PendingCursor:
    """A cursor that is not durable yet, and its callbacks."""

    cursor: Cursor
    epoch: int
    """Of the topic's owner."""
    durability: Durability = Durability.FSYNC
    """Of the topic: when the cursor is saved."""
    waiting: list[Saved] = field(default_factory=list)
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
