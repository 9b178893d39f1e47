"""Positions in the journal: of files, and of each topic's batches (28 bytes a batch). Pure."""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from danube.model.errors import StorageUnavailableError
from danube.model.subscription import Cursor
from danube.storage.batches.producer_state import StoredNumbers


class Located(NamedTuple):
    """One batch and its position."""

    base_offset: int
    end_offset: int
    position: int
    """Of its envelope, in the journal."""
    body_bytes: int
    append_time_ms: int


@dataclass(frozen=True, slots=True)
class IndexRun:
    """Batches that follow each other, column by column."""

    bases: "array[int]"
    positions: "array[int]"
    times: "array[int]"
    lengths: "array[int]"
    end_offset: int
    """The offset after the last record."""

    def __len__(self) -> int:
        """Number of batches."""
        return len(self.bases)

    @property
    def ends(self) -> "array[int]":
        """The offsets after the last record of each."""
        ends = self.bases[1:]
        if self.bases:
            ends.append(self.end_offset)
        return ends

    def above(self, position: int) -> "IndexRun":
        """The batches at `position` and behind it."""
        first = bisect_left(self.positions, position)
        return self.part(range(first, len(self))) if first else self

    def part(self, numbers: range) -> "IndexRun":
        """The batches of these numbers, as a copy; `numbers` has step 1 and is within the run."""
        first, last = numbers.start, numbers.stop
        end_offset = self.bases[last] if last < len(self) else self.end_offset
        return IndexRun(
            self.bases[first:last],
            self.positions[first:last],
            self.times[first:last],
            self.lengths[first:last],
            end_offset,
        )

    def located(self) -> list[Located]:
        """One by one, in order."""
        return list(map(Located, self.bases, self.ends, self.positions, self.lengths, self.times))


def joined(runs: Sequence[IndexRun]) -> IndexRun:
    """Runs that follow on each other, as one; their positions may be of different journals."""
    if len(runs) == 1:
        return runs[0]
    whole = TopicIndex()
    for run in runs:
        whole.extend(run)
    return whole.up_to(whole.end_offset)


class TopicIndex:
    """The batches of one topic in offset order, without a gap; those below `start_offset` are elsewhere."""

    __slots__ = ("_bases", "_lengths", "_positions", "_times", "body_bytes", "end_offset", "last_append_time_ms")

    def __init__(self, start_offset: int = 0, last_append_time_ms: int = 0) -> None:
        self._bases = array("Q")
        self._positions = array("Q")
        self._times = array("Q")
        self._lengths = array("I")
        self.end_offset = start_offset
        """The offset after the last record."""
        self.last_append_time_ms = last_append_time_ms
        """Of the newest batch, dropped or not; 0 when there never was one."""
        self.body_bytes = 0
        """Of all batches in here together."""

    def __len__(self) -> int:
        return len(self._bases)

    def __getitem__(self, number: int) -> Located:
        last = number == len(self._bases) - 1
        end = self.end_offset if last else self._bases[number + 1]
        return Located(self._bases[number], end, self._positions[number], self._lengths[number], self._times[number])

    @property
    def start_offset(self) -> int:
        """The first offset in here; `end_offset` when there is none."""
        return self._bases[0] if self._bases else self.end_offset

    @property
    def start_position(self) -> int | None:
        """Position of the first batch; None without batches."""
        return self._positions[0] if self._positions else None

    def append(self, batch: Located) -> None:
        """Add the next batch. Raises ValueError unless it begins where the last one ended and time did not go back."""
        self.add(*batch)

    def add(self, base_offset: int, end_offset: int, position: int, body_bytes: int, append_time_ms: int) -> None:
        """As `append`, of the fields of a batch."""
        if base_offset != self.end_offset or end_offset <= base_offset:
            raise ValueError(f"a batch with offset {base_offset} follows after offset {self.end_offset}")
        if append_time_ms < self.last_append_time_ms:
            raise ValueError(f"the append time goes back at offset {base_offset}")
        self._bases.append(base_offset)
        self._positions.append(position)
        self._times.append(append_time_ms)
        self._lengths.append(body_bytes)
        self.end_offset = end_offset
        self.last_append_time_ms = append_time_ms
        self.body_bytes += body_bytes

    def fits(self, run: IndexRun) -> bool:
        """True if `run` follows on the last batch."""
        return not run or (run.bases[0] == self.end_offset and run.times[0] >= self.last_append_time_ms)

    def extend(self, run: IndexRun) -> None:
        """Add all batches of a run that fits."""
        if not run:
            return
        self._bases.extend(run.bases)
        self._positions.extend(run.positions)
        self._times.extend(run.times)
        self._lengths.extend(run.lengths)
        self.end_offset = run.end_offset
        self.last_append_time_ms = run.times[-1]
        self.body_bytes += sum(run.lengths)

    def between(self, position: int, end_position: int) -> IndexRun:
        """The batches whose envelopes are from `position` up to `end_position`, as a copy.

        Callable from any thread while another one adds batches behind `end_position`: so the end is read first.
        """
        end_offset = self.end_offset
        first, last = bisect_left(self._positions, position), bisect_left(self._positions, end_position)
        return self._run(first, last, end_offset)

    def up_to(self, offset: int) -> IndexRun:
        """The batches that begin below `offset`, as a copy."""
        return self._run(0, bisect_left(self._bases, offset), self.end_offset)

    def run_at(self, offset: int, bytes_max: int, end_offset: int | None = None) -> IndexRun:
        """The batch that holds `offset`, and those after it whose bodies fit in `bytes_max` with it, as a copy.

        None of them begins at `end_offset` or above. Raises IndexError as `find`.
        """
        lengths, first = self._lengths, self.find(offset)
        end = len(lengths) if end_offset is None else bisect_left(self._bases, end_offset)
        last, room = first, bytes_max
        while last < end:
            room -= lengths[last]
            if room < 0 and last > first:
                break
            last += 1
        return self._run(first, last, self.end_offset)

    def drop_below(self, offset: int) -> None:
        """Drop the batches that end at `offset` or below it."""
        count = len(self._bases) if offset >= self.end_offset else max(0, bisect_right(self._bases, offset) - 1)
        self.body_bytes -= sum(self._lengths[:count])
        del self._bases[:count], self._positions[:count], self._times[:count], self._lengths[:count]

    def reaches(self, position: int) -> bool:
        """True if there is a batch at `position` or behind it."""
        return bool(self._positions) and self._positions[-1] >= position

    def body_bytes_from(self, position: int) -> int:
        """Bytes of bodies at `position` and behind it."""
        if not self.reaches(position):
            return 0
        return sum(self._lengths[bisect_left(self._positions, position) :])

    def first_append_ms_from(self, position: int) -> int | None:
        """Append time of the first batch at `position` or behind it; None when there is none."""
        number = bisect_left(self._positions, position)
        return self._times[number] if number < len(self._times) else None

    def base_offset(self, number: int) -> int:
        """The first offset of batch `number`."""
        return self._bases[number]

    def find(self, offset: int) -> int:
        """The number of the batch that holds `offset`; how many there are when none does yet.

        Raises IndexError for an offset below the first one in here.
        """
        if offset >= self.end_offset:
            return len(self._bases)
        number = bisect_right(self._bases, offset) - 1
        if number < 0:
            raise IndexError(f"offset {offset} is below {self.start_offset}, the first in the journal")
        return number

    def offset_at(self, append_time_ms: int) -> int:
        """The first offset of the first batch appended at this time or later; `end_offset` when there is none."""
        number = bisect_left(self._times, append_time_ms)
        return self._bases[number] if number < len(self._bases) else self.end_offset

    def append_time_ms(self, offset: int) -> int | None:
        """Append time of the batch that holds `offset`; None when none does."""
        if not self.start_offset <= offset < self.end_offset:
            return None
        return self._times[self.find(offset)]

    def _run(self, first: int, last: int, end_offset: int) -> IndexRun:
        """The batches `[first, last)`, as a copy; `end_offset` is where the last one of all ends."""
        whole = IndexRun(self._bases, self._positions, self._times, self._lengths, end_offset)
        return whole.part(range(first, last))


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosedFile:
    """A file of the journal that is complete, and synced to its end."""

    sequence: int
    base_position: int
    end_position: int
    topics: frozenset[int]
    """Every topic with a record in it, cursors too, deleted topics too."""
    oldest_append_ms: int
    """Of all records in it."""
    newest_append_ms: int

    @property
    def file_bytes(self) -> int:
        """Its length."""
        return self.end_position - self.base_position


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicBase:
    """A topic's state in segments, from which the journal goes on."""

    topic_id: int
    end_offset: int
    """The topic's next record in the journal has this offset."""
    last_append_time_ms: int
    cursors: Mapping[int, Cursor] = field(default_factory=dict)
    """By subscription id."""
    producer_states: tuple[tuple[StoredNumbers, ...], ...] = ()
    """A tuple for each row of numbers; the row that stored nothing for longest comes first."""
    covered: Mapping[int, int] = field(default_factory=dict)
    """By journal id: the topic's records below this position of that journal count no more."""


@dataclass(frozen=True, slots=True)
class TopicSnapshot:
    """A topic's durable cursors and producer states."""

    cursors: dict[int, Cursor]
    producer_states: tuple[tuple[StoredNumbers, ...], ...]


@dataclass(frozen=True, slots=True)
class FileStart:
    """Begin of a file in its journal."""

    sequence: int
    base_position: int
    rounds_before: int
    """Rounds of the journal before its first one."""


class FileTable:
    """The files of a journal by position. It changes on the loop's thread, and is read from any."""

    def __init__(self) -> None:
        self._table: tuple[list[FileStart], list[int]] = ([], [])
        """The files, and the base position of each."""

    def __len__(self) -> int:
        return len(self._table[0])

    @property
    def base_position(self) -> int:
        """Base position of the first file."""
        return self._table[1][0]

    @property
    def starts(self) -> list[FileStart]:
        """All of them, oldest first."""
        return self._table[0]

    def add(self, start: FileStart) -> None:
        """Add the next file."""
        self._table[0].append(start)
        self._table[1].append(start.base_position)

    def drop_below(self, base_position: int) -> None:
        """Drop the files that begin below a position; a reader in another thread sees all of that or nothing."""
        starts, bases = self._table
        count = bisect_left(bases, base_position)
        self._table = (starts[count:], bases[count:])

    def split(self, positions: Sequence[int]) -> list[tuple[FileStart, range]]:
        """The files of ascending positions, each with the numbers of its positions.

        Raises StorageUnavailableError when a file was removed: a deleted topic may still be read.
        """
        starts, bases = self._table
        found: list[tuple[FileStart, range]] = []
        first = 0
        while first < len(positions):
            number = self._number(bases, positions[first])
            is_last = number + 1 == len(bases)
            end = len(positions) if is_last else bisect_left(positions, bases[number + 1], first)
            found.append((starts[number], range(first, end)))
            first = end
        return found

    @staticmethod
    def _number(bases: Sequence[int], position: int) -> int:
        number = bisect_right(bases, position) - 1
        if number < 0:
            raise StorageUnavailableError(f"position {position} of the journal is in a file that was removed")
        return number
