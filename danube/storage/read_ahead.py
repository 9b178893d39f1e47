"""What cold readers are about to ask for, read with what they asked for: fewer hand-offs to the thread. Pure.

Who goes on where an answer ended is taken to read in order, and READ_AHEAD_ANSWERS times as much is read from the files
at once; what was not asked for yet waits here. It was durable and checked when it was read, and stored bytes never
change, so it is as good as read anew. All readers together have one bound: what was not asked for longest goes first,
and is read again.
"""

from danube.model.limits import READ_AHEAD_ANSWERS, READ_AHEAD_BYTES_MAX, READ_AHEAD_READERS_MAX
from danube.storage.log import StoredBatch
from danube.storage.segment.kept import Kept

_BATCH_BYTES = 300  # what a kept batch costs besides its body, roughly

_Place = tuple[int, int]
"""Topic id and offset."""


class ReadAhead:
    """Batches that are at hand before they are asked for, and who reads in order."""

    def __init__(self, bytes_max: int = READ_AHEAD_BYTES_MAX) -> None:
        self._kept: Kept[_Place, list[StoredBatch]] = Kept(bytes_max)
        self._expected: Kept[_Place, None] = Kept(READ_AHEAD_READERS_MAX)

    @property
    def bytes(self) -> int:
        """What it takes in memory, roughly."""
        return self._kept.bytes

    def take(self, topic_id: int, offset: int, bytes_max: int) -> list[StoredBatch] | None:
        """The batches from `offset` on: one, and as many as fit; None when they were not read ahead."""
        batches = self._kept.get((topic_id, offset))
        if batches is None:
            return None
        self._kept.drop((topic_id, offset))
        return self._answer(topic_id, batches, bytes_max)

    def bytes_to_read(self, topic_id: int, offset: int, bytes_max: int) -> int:
        """How much to read for a reader who asks for `bytes_max` at `offset`."""
        is_expected = (topic_id, offset) in self._expected
        self._expected.drop((topic_id, offset))
        return bytes_max * READ_AHEAD_ANSWERS if is_expected else bytes_max

    def keep(self, topic_id: int, batches: list[StoredBatch], bytes_max: int) -> list[StoredBatch]:
        """What is answered of batches that were read for a reader who asked for `bytes_max`; the others are kept."""
        return self._answer(topic_id, batches, bytes_max) if batches else batches

    def forget(self, topic_id: int) -> None:
        """Let go of a topic."""
        for kept in (self._kept, self._expected):
            kept.drop_all(lambda place: place[0] == topic_id)

    def _answer(self, topic_id: int, batches: list[StoredBatch], bytes_max: int) -> list[StoredBatch]:
        count = _fitting(batches, bytes_max)
        answer, rest = batches[:count], batches[count:]
        if rest:
            cost_bytes = sum(len(batch.body) + _BATCH_BYTES for batch in rest)
            self._kept.put((topic_id, rest[0].base_offset), rest, cost_bytes)
        else:
            self._expected.put((topic_id, answer[-1].end_offset), None, 1)
        return answer


def _fitting(batches: list[StoredBatch], bytes_max: int) -> int:
    """How many of them are one answer: one, and those after it that fit."""
    room = bytes_max - len(batches[0].body)
    for number, batch in enumerate(batches[1:], 1):
        room -= len(batch.body)
        if room < 0:
            return number
    return len(batches)
