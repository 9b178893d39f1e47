"""Producer states of a topic: the last numbered batches of each idempotent producer, and their offsets. Pure.

A batch is numbered when its header's producer id has SEQUENCED_BIT: the id then names a producer, and the base sequence
is the number of the first record. All of this follows from the batches in the journal, in their order, so a
restart recovers it.
"""

import struct
from collections import OrderedDict, deque
from collections.abc import Iterable
from typing import NamedTuple

from danube.model.limits.stream import DEDUPLICATION_BATCHES_MAX, DEDUPLICATION_PRODUCERS_MAX
from danube.model.message import SEQUENCED_BIT

_NUMBERS = struct.Struct("<8xQQ16xI")  # producer id, base sequence and count of a body's header (batch.py)
_CRC = struct.Struct("<I")


class SequencedBatch(NamedTuple):
    """One batch as its producer numbered it."""

    numbering_id: int
    base_sequence: int
    records: int
    body_crc: int
    """Distinguishes a batch that is sent again from another one with the same numbers."""

    @property
    def end_sequence(self) -> int:
        """The sequence number of the next batch."""
        return self.base_sequence + self.records


class StoredNumbers(NamedTuple):
    """A stored numbered batch, and its offset."""

    batch: SequencedBatch
    base_offset: int


def sequenced_batch(body: bytes) -> SequencedBatch | None:
    """The numbers in the header of a checked body; None when it is not numbered."""
    return numbers_of(body) if _NUMBERS.unpack_from(body)[0] & SEQUENCED_BIT else None


def numbers_of(body: bytes) -> SequencedBatch:
    """The same of a body that is known to be numbered."""
    identity, sequence, count = _NUMBERS.unpack_from(body)
    return SequencedBatch(identity, sequence, count, _CRC.unpack_from(body, len(body) - _CRC.size)[0])


class StoredProducerStates:
    """The last batches of each idempotent producer of a topic; the one that stored nothing for longest is evicted."""

    __slots__ = ("_batches_max", "_last_offset", "_rows", "_rows_max")

    def __init__(
        self, rows_max: int = DEDUPLICATION_PRODUCERS_MAX, batches_max: int = DEDUPLICATION_BATCHES_MAX
    ) -> None:
        self._rows: OrderedDict[int, deque[StoredNumbers]] = OrderedDict()
        self._rows_max = rows_max
        self._batches_max = batches_max
        self._last_offset = -1

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, batch: SequencedBatch, base_offset: int) -> None:
        """Add a durable batch, the next one in journal order.

        One that is not above the last one is known: so a journal may be replayed over a later snapshot.
        """
        if base_offset <= self._last_offset:
            return
        self._last_offset = base_offset
        row = self._rows.get(batch.numbering_id)
        if row is None:
            row = self._rows[batch.numbering_id] = deque(maxlen=self._batches_max)
            if len(self._rows) > self._rows_max:
                self._rows.popitem(last=False)
        else:
            self._rows.move_to_end(batch.numbering_id)
        row.append(StoredNumbers(batch, base_offset))

    def restore(self, rows: Iterable[Iterable[StoredNumbers]]) -> None:
        """Start with rows as `rows()` answers them."""
        for row in rows:
            kept = deque(row, maxlen=self._batches_max)
            if kept:
                self._rows[kept[-1].batch.numbering_id] = kept
                self._last_offset = max(self._last_offset, kept[-1].base_offset)

    def rows(self) -> tuple[tuple[StoredNumbers, ...], ...]:
        """All rows as tuples; the one that stored nothing for longest comes first."""
        return tuple(map(tuple, self._rows.values()))

    def drop_from(self, offset: int) -> None:
        """Drop the batches at `offset` and above: they are not stored after all."""
        if self._last_offset >= offset:
            rows = [[stored for stored in row if stored.base_offset < offset] for row in self._rows.values()]
            self._rows.clear()
            self._last_offset = -1
            self.restore(rows)

    def next_sequence(self, numbering_id: int) -> int:
        """The number after the last one stored; 0 of a row that is not known (any more)."""
        row = self._rows.get(numbering_id)
        return row[-1].batch.end_sequence if row else 0

    def offset_of(self, batch: SequencedBatch) -> int | None:
        """The offset of this very batch; None when it is not stored, or was too long ago."""
        for stored in self._rows.get(batch.numbering_id, ()):
            if stored.batch == batch:
                return stored.base_offset
        return None
