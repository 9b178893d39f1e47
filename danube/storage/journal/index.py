"""Where the batches of one topic stand in the journal: 28 bytes a batch. Pure."""

from array import array
from bisect import bisect_left, bisect_right
from typing import NamedTuple


class Located(NamedTuple):
    """One batch and where it is."""

    base_offset: int
    end_offset: int
    position: int
    """Of its envelope, in the journal."""
    body_bytes: int
    append_time_ms: int


class TopicIndex:
    """The batches of one topic in offset order, without a gap between them."""

    __slots__ = ("_bases", "_lengths", "_positions", "_times", "body_bytes", "end_offset")

    def __init__(self) -> None:
        self._bases = array("Q")
        self._positions = array("Q")
        self._times = array("Q")
        self._lengths = array("I")
        self.end_offset = 0
        """The offset after the last record."""
        self.body_bytes = 0
        """Of all batches together."""

    def __len__(self) -> int:
        return len(self._bases)

    def __getitem__(self, number: int) -> Located:
        last = number == len(self._bases) - 1
        end = self.end_offset if last else self._bases[number + 1]
        return Located(self._bases[number], end, self._positions[number], self._lengths[number], self._times[number])

    @property
    def last_append_time_ms(self) -> int:
        """Of the newest batch; 0 when there is none."""
        return self._times[-1] if self._times else 0

    def append(self, batch: Located) -> None:
        """Add the next batch. Raises ValueError unless it begins where the last one ended and time did not go back."""
        if batch.base_offset != self.end_offset or batch.end_offset <= batch.base_offset:
            raise ValueError(f"a batch with offset {batch.base_offset} follows after offset {self.end_offset}")
        if batch.append_time_ms < self.last_append_time_ms:
            raise ValueError(f"the append time goes back at offset {batch.base_offset}")
        self._bases.append(batch.base_offset)
        self._positions.append(batch.position)
        self._times.append(batch.append_time_ms)
        self._lengths.append(batch.body_bytes)
        self.end_offset = batch.end_offset
        self.body_bytes += batch.body_bytes

    def base_offset(self, number: int) -> int:
        """The first offset of batch `number`."""
        return self._bases[number]

    def find(self, offset: int) -> int:
        """The number of the batch that holds `offset`; how many there are when none does yet."""
        if offset >= self.end_offset:
            return len(self._bases)
        return bisect_right(self._bases, offset) - 1

    def find_time(self, append_time_ms: int) -> int:
        """The number of the first batch appended at this time or later; how many there are when there is none."""
        return bisect_left(self._times, append_time_ms)
