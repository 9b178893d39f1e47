"""Plans of flushes: when a pass runs, the segments and manifests it makes, the files that may be removed. Pure.

A pass covers the oldest closed files, as many as make it worth while: syncs are paid by the topic, so with many topics
more bytes are gathered first. A topic's new batches become one segment, or several of full size, and small neighbours
are merged with them, so that reads from a tier are large. Merged segments are on the disk twice until metadata names
the new ones: so one flush merges little, and nothing while there is little room.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from danube.metadata.records.storage import EpochRange, TopicStorage
from danube.model.limits.broker import (
    FLUSH_FILES_MAX,
    FLUSH_FILES_WAIT_MAX,
    FLUSH_TOPIC_BYTES,
    FLUSH_WAIT_S,
    JOURNAL_FILE_AGE_MIN_S,
    JOURNAL_FILE_DEAD_BYTES,
    JOURNAL_FILE_DEAD_WAIT_S,
)
from danube.model.subscription import Cursor
from danube.storage.batches.envelope import ENVELOPE_BYTES
from danube.storage.batches.producer_state import StoredNumbers
from danube.storage.journal.index import ClosedFile, IndexRun
from danube.storage.segment.manifest import Manifest, Segment

_NEIGHBOURS_MAX = 64
"""Segments before the new ones that may be merged with them: older ones were merged when they were new."""
_MERGED_SEGMENTS = 2
"""Of the largest size: the bytes that one flush merges at most."""

ProducerStates = tuple[tuple[StoredNumbers, ...], ...]


def files_of_pass(closed: Sequence[ClosedFile]) -> Sequence[ClosedFile]:
    """The first closed files: those that one pass flushes."""
    topics: set[int] = set()
    size = 0
    for number, file in enumerate(closed[:FLUSH_FILES_MAX], 1):
        topics |= file.topics
        size += file.end_position - file.base_position
        if size >= len(topics) * FLUSH_TOPIC_BYTES:
            return closed[:number]
    return closed[:FLUSH_FILES_MAX]


class Waiting:
    """Waiting times of closed files, in monotonic time, since wall time may have been wrong when they were closed.

    The wall clock is read once for each file: for the age of its newest record when the file is seen first.
    """

    def __init__(self) -> None:
        self._since_s: dict[int, float] = {}

    def update(self, closed: Sequence[ClosedFile], now_ms: int, now_s: float) -> None:
        """Set the files that are closed now."""
        self._since_s = {
            file.sequence: self._since_s.get(file.sequence, now_s - max(0, now_ms - file.newest_append_ms) / 1_000)
            for file in closed
        }

    def waited_s(self, file: ClosedFile, now_s: float) -> float:
        """Time that a file has waited; 0 of one that was not noted."""
        return now_s - self._since_s.get(file.sequence, now_s)


def is_worth_a_pass(files: Sequence[ClosedFile], waited_s: float, *, is_full: bool = False) -> bool:
    """True if these files, the first closed ones, should be flushed now, not wait for more bytes of each topic.

    `waited_s` is the waiting time of the first. On a full disk they do not wait.
    """
    if not files:
        return False
    if len(files) >= FLUSH_FILES_WAIT_MAX or waited_s >= FLUSH_WAIT_S or is_full:
        return True
    topics = frozenset[int]().union(*(file.topics for file in files))
    return files[-1].end_position - files[0].base_position >= len(topics) * FLUSH_TOPIC_BYTES


def is_worth_closing(dead_bytes: int, waited_s: float, *, is_full: bool = False) -> bool:
    """True if to close the journal's open file so that records of deleted topics in it can be removed.

    `waited_s` is the time since one was closed for that. On a full disk there is no wait.
    """
    if is_full and dead_bytes >= JOURNAL_FILE_DEAD_BYTES:
        return True
    wait_s = JOURNAL_FILE_AGE_MIN_S if dead_bytes >= JOURNAL_FILE_DEAD_BYTES else JOURNAL_FILE_DEAD_WAIT_S
    return dead_bytes > 0 and waited_s >= wait_s


def first_needed(closed: Sequence[ClosedFile], covered: Callable[[int], float]) -> int:
    """The sequence of the first closed file with records that no manifest has; all before it may be removed.

    `covered` answers up to which position of the journal a topic's records are in the manifest that metadata names.
    """
    if not closed:
        return 0
    reached = {topic_id: covered(topic_id) for topic_id in frozenset[int]().union(*(file.topics for file in closed))}
    behind = {topic_id: position for topic_id, position in reached.items() if position < closed[-1].end_position}
    for file in closed:
        if any(behind[topic_id] < file.end_position for topic_id in file.topics.intersection(behind)):
            return file.sequence
    return closed[-1].sequence + 1


@dataclass(frozen=True, slots=True)
class Piece:
    """One planned segment: sealed ones and new batches, in this order."""

    shape: Segment
    """Its expected shape; of one that stays, its actual one."""
    sources: tuple[Segment, ...] = ()
    fresh: range = range(0)
    """Numbers of the new batches."""

    @property
    def stays(self) -> bool:
        """True if it is sealed already."""
        return len(self.sources) == 1 and not self.fresh

    @property
    def merges(self) -> bool:
        """True if a sealed segment is written again in it."""
        return bool(self.sources) and not self.stays


def plan_pieces(segments: Sequence[Segment], fresh: IndexRun, bytes_max: int, *, merges: bool = True) -> list[Piece]:
    """The segments after a flush, in order: `segments`, then `fresh`; small neighbours are merged if it `merges`."""
    sealed = [Piece(segment, (segment,)) for segment in segments]
    new = [Piece(_shape(fresh, part), fresh=part) for part in _split(fresh.lengths, bytes_max)]
    if not merges:
        return [*sealed, *new]
    tail = max(0, len(segments) - _NEIGHBOURS_MAX)
    pieces = [*sealed[tail:], *new]
    while _bytes_merged(pieces) < _MERGED_SEGMENTS * bytes_max:
        run = plan_merge([piece.shape for piece in pieces], bytes_max)
        if run is None:
            break
        pieces[run.start : run.stop] = [_merged(pieces[run.start : run.stop])]
    return [*sealed[:tail], *pieces]


def epochs_after(record: TopicStorage, end_offset: int) -> tuple[EpochRange, ...]:
    """The epochs of a topic with records in journals only, once its segments end at `end_offset`.

    The newest is always one: it names the topic's owner, or the journal with its cursors. The others have nothing but
    their records, since each later epoch begins with a copy of the cursors.
    """
    older = (one for one in record.epochs[:-1] if one.end_offset is None or one.end_offset > end_offset)
    return (*older, *record.epochs[-1:])


def manifest_after_flush(
    before: Manifest,
    version: int,
    segments: Sequence[Segment],
    *,
    cursors: Mapping[int, Cursor],
    producer_states: ProducerStates,
    journal_id: int,
    position: int,
    epochs: Sequence[EpochRange] = (),
) -> Manifest:
    """The manifest version that holds a journal's records below `position`.

    `cursors` and `producer_states` are those of now, which is later: a replay of the journal over them ends at the
    same. Numbers of batches that are not in here are left to the journal, which may lose them with the batches.
    `epochs` are those of the topic's record: journals that none of them names are left out.
    """
    named = {one.journal_id for one in epochs}
    journals = {each: known for each, known in before.journals.items() if not epochs or each in named}
    last = segments[-1] if segments else None
    return replace(
        before,
        version=version,
        end_offset=last.end_offset if last else before.end_offset,
        last_append_time_ms=last.last_append_time_ms if last else before.last_append_time_ms,
        segments=tuple(segments),
        cursors=dict(cursors),
        producer_states=_below(producer_states, last.end_offset if last else before.end_offset),
        journals={**journals, journal_id: position},
    )


def manifest_without(before: Manifest, version: int, dropped: int) -> Manifest:
    """The manifest version without the first `dropped` segments."""
    segments = before.segments[dropped:]
    start_offset = segments[0].base_offset if segments else before.end_offset
    return replace(before, version=version, start_offset=start_offset, segments=segments)


def _split(lengths: Sequence[int], bytes_max: int) -> list[range]:
    """Runs of at most `bytes_max`, or of one batch that is larger."""
    runs: list[range] = []
    first = size = 0
    for number, length in enumerate(lengths):
        if number > first and size + length > bytes_max:
            runs.append(range(first, number))
            first, size = number, 0
        size += length
    return [*runs, range(first, len(lengths))] if lengths else []


def _shape(fresh: IndexRun, numbers: range) -> Segment:
    part = fresh.part(numbers)
    body_bytes = sum(part.lengths)
    return Segment(
        base_offset=part.bases[0],
        end_offset=part.end_offset,
        manifest_version=0,
        first_append_time_ms=part.times[0],
        last_append_time_ms=part.times[-1],
        batches=len(part),
        body_bytes=body_bytes,
        file_bytes=body_bytes + ENVELOPE_BYTES * len(part),
    )


def _merged(pieces: Sequence[Piece]) -> Piece:
    first, last = pieces[0].shape, pieces[-1].shape
    fresh = [piece.fresh for piece in pieces if piece.fresh]
    return Piece(
        shape=replace(
            first,
            end_offset=last.end_offset,
            last_append_time_ms=last.last_append_time_ms,
            batches=sum(piece.shape.batches for piece in pieces),
            body_bytes=sum(piece.shape.body_bytes for piece in pieces),
            file_bytes=sum(piece.shape.file_bytes for piece in pieces),
        ),
        sources=tuple(source for piece in pieces for source in piece.sources),
        fresh=range(fresh[0].start, fresh[-1].stop) if fresh else range(0),
    )


def _bytes_merged(pieces: Sequence[Piece]) -> int:
    return sum(merged_bytes(piece.shape) for piece in pieces if piece.merges)


def _below(producer_states: ProducerStates, end_offset: int) -> ProducerStates:
    rows = (tuple(stored for stored in row if stored.base_offset < end_offset) for row in producer_states)
    return tuple(row for row in rows if row)


GROWTH = 4
"""Times: fewer segments with less, fewer bytes written again with more."""
FULL = 0.75
"""Of the largest size."""


def plan_merge(segments: Sequence[Segment], bytes_max: int) -> range | None:
    """The run of neighbours to merge next, the oldest that there is; None when there is nothing to gain.

    A flush makes a small segment of a quiet topic, so many of them would pile up. Neighbours are merged when that makes
    a segment GROWTH times as large as each of them, or a full one: FULL of what a segment may have, or more. Full ones
    are left alone. So a byte is written again at most log(bytes_max / size of its first segment) / log(GROWTH) times,
    and once more to fill a segment; a topic that is flushed evenly has about GROWTH - 1 segments of each size beside
    the full ones.

    Merged they have at most `bytes_max`, uncompressed and with their envelopes: what a merge holds in memory.
    """
    full = bytes_max * FULL
    sizes = [merged_bytes(segment) for segment in segments]
    for start, size in enumerate(sizes):
        if size < full:
            run = _run_from(sizes, start, bytes_max)
            if run is not None:
                return run
    return None


def merged_bytes(segment: Segment) -> int:
    """Size of a segment in a merge: its batches with their envelopes, or its file if that is larger."""
    return max(segment.body_bytes + segment.batches * ENVELOPE_BYTES, segment.file_bytes)


def _run_from(sizes: Sequence[int], start: int, bytes_max: int) -> range | None:
    """The longest run from `start` on that is worth a merge."""
    full = bytes_max * FULL
    total = largest = 0
    found = None
    for end in range(start, len(sizes)):
        total += sizes[end]
        largest = max(largest, sizes[end])
        if total > bytes_max or largest >= full:
            break
        if end > start and (total >= GROWTH * largest or total >= full):
            found = range(start, end + 1)
    return found
