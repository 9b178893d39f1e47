"""What a topic's log remembers of numbered batches: which were stored last, and where. Pure.

A batch is numbered when its header's producer id has NUMBERED_BIT: the id then names a row of numbers, and the base
sequence is the number of the first record. All that is kept here follows from the batches in the journal, in their
order, so a broker that starts anew knows what it knew before.
"""

import struct
from collections import OrderedDict, deque
from typing import NamedTuple

from danube.model.limits import DEDUPLICATION_BATCHES_MAX, DEDUPLICATION_PRODUCERS_MAX
from danube.model.message import NUMBERED_BIT

_NUMBERS = struct.Struct("<8xQQ16xI")  # producer id, base sequence and count of a body's header (batch.py)
_CRC = struct.Struct("<I")


class NumberedBatch(NamedTuple):
    """One batch as its producer numbered it."""

    numbering_id: int
    base_sequence: int
    records: int
    body_crc: int
    """Tells a batch that is sent again from another one with the same numbers."""

    @property
    def end_sequence(self) -> int:
        """The number that the next batch begins with."""
        return self.base_sequence + self.records


class StoredNumbers(NamedTuple):
    """A numbered batch that is stored, and where."""

    batch: NumberedBatch
    base_offset: int


def numbered_batch(body: bytes) -> NumberedBatch | None:
    """What the header of a body that was checked says of its numbers; None when they do not count."""
    identity, sequence, count = _NUMBERS.unpack_from(body)
    if not identity & NUMBERED_BIT:
        return None
    return NumberedBatch(identity, sequence, count, _CRC.unpack_from(body, len(body) - _CRC.size)[0])


class StoredNumberings:
    """The last batches of each row of numbers of one topic; the row that stored nothing for longest goes first."""

    __slots__ = ("_batches_max", "_rows", "_rows_max")

    def __init__(
        self, rows_max: int = DEDUPLICATION_PRODUCERS_MAX, batches_max: int = DEDUPLICATION_BATCHES_MAX
    ) -> None:
        self._rows: OrderedDict[int, deque[StoredNumbers]] = OrderedDict()
        self._rows_max = rows_max
        self._batches_max = batches_max

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, batch: NumberedBatch, base_offset: int) -> None:
        """Remember a batch that is durable: the next one in journal order."""
        row = self._rows.get(batch.numbering_id)
        if row is None:
            row = self._rows[batch.numbering_id] = deque(maxlen=self._batches_max)
            if len(self._rows) > self._rows_max:
                self._rows.popitem(last=False)
        else:
            self._rows.move_to_end(batch.numbering_id)
        row.append(StoredNumbers(batch, base_offset))

    def next_sequence(self, numbering_id: int) -> int:
        """The number after the last one stored; 0 of a row that is not known (any more)."""
        row = self._rows.get(numbering_id)
        return row[-1].batch.end_sequence if row else 0

    def offset_of(self, batch: NumberedBatch) -> int | None:
        """Where this very batch is stored; None when it is not, or was too long ago."""
        for stored in self._rows.get(batch.numbering_id, ()):
            if stored.batch == batch:
                return stored.base_offset
        return None
