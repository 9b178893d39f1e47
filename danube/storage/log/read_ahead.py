"""Read-ahead for cold readers that read in order: fewer hand-offs to the reading thread. Pure.

For a reader that continues where an answer ended, READ_AHEAD_ANSWERS times as much is read from the files at once, and
the rest waits here. It was durable and checked when it was read, and stored bytes never change. All readers share one
bound: batches that were not asked for longest are dropped, and read again.

A reader that uses data more slowly than it was read, and than READ_AHEAD_PACE, would gain nothing: for it no more is
read than it asks for. So the syncs of live messages wait behind little.
"""

from typing import NamedTuple

from danube.model.limits.broker import READ_AHEAD_ANSWERS, READ_AHEAD_BYTES_MAX, READ_AHEAD_PACE, READ_AHEAD_READERS_MAX
from danube.storage.batches.stored_batch import StoredBatch
from danube.storage.segment.reader_cache import LruCache

_BATCH_BYTES = 300  # what a kept batch costs besides its body, roughly

_Place = tuple[int, int]
"""Topic id and offset."""


class FileRead(NamedTuple):
    """One read of the files, in monotonic time."""

    body_bytes: int
    began_s: float
    ended_s: float

    def is_paced(self, used_s: float) -> bool:
        """True if a reader that had used all of it at `used_s` is the slower side."""
        using_s = used_s - self.ended_s
        return using_s > self.ended_s - self.began_s and self.body_bytes < using_s * READ_AHEAD_PACE


class ReadAhead:
    """Batches that were read ahead, and the readers that read in order."""

    def __init__(self, bytes_max: int = READ_AHEAD_BYTES_MAX) -> None:
        self._kept: LruCache[_Place, tuple[list[StoredBatch], FileRead]] = LruCache(bytes_max)
        self._expected: LruCache[_Place, FileRead] = LruCache(READ_AHEAD_READERS_MAX)

    @property
    def bytes(self) -> int:
        """Memory that it uses, roughly."""
        return self._kept.bytes

    def take(self, topic_id: int, offset: int, bytes_max: int) -> list[StoredBatch] | None:
        """The batches from `offset` on: one, and as many as fit; None when they were not read ahead."""
        kept = self._kept.get((topic_id, offset))
        if kept is None:
            return None
        self._kept.drop((topic_id, offset))
        return self._answer(topic_id, *kept, bytes_max)

    def bytes_to_read(self, topic_id: int, offset: int, bytes_max: int, now_s: float) -> int:
        """Bytes to read for a reader that asks for `bytes_max` at `offset`."""
        before = self._expected.get((topic_id, offset))
        self._expected.drop((topic_id, offset))
        return bytes_max if before is None or before.is_paced(now_s) else bytes_max * READ_AHEAD_ANSWERS

    def keep(
        self, topic_id: int, batches: list[StoredBatch], bytes_max: int, began_s: float, ended_s: float
    ) -> list[StoredBatch]:
        """The answer, out of batches that were read, for a reader that asked for `bytes_max`; the others are kept."""
        if not batches:
            return batches
        read = FileRead(sum(len(batch.body) for batch in batches), began_s, ended_s)
        return self._answer(topic_id, batches, read, bytes_max)

    def forget(self, topic_id: int) -> None:
        """Drop a topic."""
        for kept in (self._kept, self._expected):
            kept.drop_all(lambda place: place[0] == topic_id)

    def _answer(self, topic_id: int, batches: list[StoredBatch], read: FileRead, bytes_max: int) -> list[StoredBatch]:
        count = _fitting(batches, bytes_max)
        answer, rest = batches[:count], batches[count:]
        if rest:
            cost_bytes = sum(len(batch.body) + _BATCH_BYTES for batch in rest)
            self._kept.put((topic_id, rest[0].base_offset), (rest, read), cost_bytes)
        else:
            self._expected.put((topic_id, answer[-1].end_offset), read, 1)
        return answer


def _fitting(batches: list[StoredBatch], bytes_max: int) -> int:
    """Number of batches in one answer: one, and those after it that fit."""
    room = bytes_max - len(batches[0].body)
    for number, batch in enumerate(batches[1:], 1):
        room -= len(batch.body)
        if room < 0:
            return number
    return len(batches)
