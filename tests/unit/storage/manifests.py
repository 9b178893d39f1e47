"""Manifests to test with: one with something of everything, and any that can be."""

from hypothesis import strategies as st

from danube.model.message import SEQUENCED_BIT
from danube.model.ranges import OffsetRange, RangeSet
from danube.model.subscription import Cursor, FailedRange
from danube.storage.batches.producer_state import SequencedBatch, StoredNumbers
from danube.storage.segment.manifest import Manifest, Segment

UINT32, UINT64 = 2**32 - 1, 2**64 - 1
NOW_MS = 1_750_000_000_000


def row(numbering_id: int, *numbers: tuple[int, int, int, int]) -> tuple[StoredNumbers, ...]:
    """A row: base sequence, records, CRC and base offset of each batch."""
    return tuple(
        StoredNumbers(SequencedBatch(numbering_id, base_sequence, records, crc), base_offset)
        for base_sequence, records, crc, base_offset in numbers
    )


FULL = Manifest(
    topic_id=11,
    version=4,
    start_offset=40,
    end_offset=1_000_100,
    last_append_time_ms=NOW_MS + 9,
    segments=(
        Segment(40, 100, 2, NOW_MS, NOW_MS + 5, 3, 600, 900),
        Segment(100, 1_000_100, 4, NOW_MS + 5, NOW_MS + 9, 70_000, 30_000_000, 34_000_000),
    ),
    cursors={901: Cursor(2, (OffsetRange(3, 4), OffsetRange(6, 9))), 5: Cursor(1_000_100)},
    producer_states=(
        row(SEQUENCED_BIT | 9, (5, 3, 0xDEADBEEF, 70), (8, 1, 1, 90)),
        row(SEQUENCED_BIT | 2, (0, 1, 2, 99)),
    ),
    journals={2**63 - 1: 123_456, 8: 0},
)


def sizes(*body_bytes: int, base_offset: int = 0, ms_each: int = 1_000) -> tuple[Segment, ...]:
    """Segments of ten records each, one after the other, each a second long."""
    return tuple(
        Segment(
            base_offset + 10 * index,
            base_offset + 10 * index + 10,
            index + 1,
            NOW_MS + ms_each * index,
            NOW_MS + ms_each * index + ms_each - 1,
            1,
            size,
            size + 100,
        )
        for index, size in enumerate(body_bytes)
    )


def manifest_of(segments: tuple[Segment, ...]) -> Manifest:
    """A manifest with these segments and nothing else."""
    return Manifest(
        topic_id=7,
        version=len(segments) + 1,
        start_offset=segments[0].base_offset if segments else 0,
        end_offset=segments[-1].end_offset if segments else 0,
        last_append_time_ms=segments[-1].last_append_time_ms if segments else 0,
        segments=segments,
    )


@st.composite
def segment_runs(draw: st.DrawFn) -> tuple[Segment, ...]:
    """Any segments that one topic could have."""
    offset, time_ms = draw(st.integers(0, 2**40)), draw(st.integers(0, 2**41))
    segments = []
    for _ in range(draw(st.integers(0, 8))):
        end, first_ms = offset + draw(st.integers(1, 2**20)), time_ms + draw(st.integers(0, 10_000))
        time_ms = first_ms + draw(st.integers(0, 10_000))
        manifest_version, batches = draw(st.integers(1, 10**10 - 1)), draw(st.integers(1, UINT32))
        body, file = draw(st.integers(0, UINT64)), draw(st.integers(0, UINT64))
        segments.append(Segment(offset, end, manifest_version, first_ms, time_ms, batches, body, file))
        offset = end
    return tuple(segments)


ids = st.integers(0, UINT64)
cursors = st.builds(
    lambda position, ranges, failed: Cursor(
        position,
        tuple(RangeSet(OffsetRange(position + 1 + start, position + 1 + start + length) for start, length in ranges)),
        tuple(FailedRange(position + start, position + start + 1, failures) for start, failures in failed.items()),
    ),
    st.integers(0, 2**40),
    st.lists(st.tuples(st.integers(0, 1_000), st.integers(1, 20)), max_size=6),
    st.dictionaries(st.integers(0, 1_000), st.integers(1, UINT32), max_size=2),
)
batches = st.tuples(ids, st.integers(1, UINT32), st.integers(0, UINT32), ids)
rows = st.builds(
    lambda numbering_id, numbers: row(numbering_id, *numbers), ids, st.lists(batches, min_size=1, max_size=4)
)


@st.composite
def manifests(draw: st.DrawFn) -> Manifest:
    """Any manifest."""
    segments = draw(segment_runs())
    start = segments[0].base_offset if segments else draw(ids)
    return Manifest(
        topic_id=draw(ids),
        version=draw(ids),
        start_offset=start,
        end_offset=segments[-1].end_offset if segments else start,
        last_append_time_ms=draw(ids),
        segments=segments,
        cursors=draw(st.dictionaries(ids, cursors, max_size=3)),
        producer_states=tuple(draw(st.lists(rows, max_size=3))),
        journals=draw(st.dictionaries(ids, ids, max_size=3)),
    )
