"""Compaction: which small segments to merge next. Pure.

A flush makes a small segment of a quiet topic, so many of them would pile up. Neighbours are merged when that makes a
segment GROWTH times as large as each of them, or a full one: FULL of what a segment may have, or more. Full ones are
left alone. So a byte is written again at most log(bytes_max / size of its first segment) / log(GROWTH) times, and once
more to fill a segment; and a topic that is flushed evenly has about GROWTH - 1 segments of each size beside the full
ones.
"""

from collections.abc import Sequence

from danube.storage.batches.envelope import ENVELOPE_BYTES
from danube.storage.segment.manifest import Segment

GROWTH = 4
"""Times: fewer segments with less, fewer bytes written again with more."""
FULL = 0.75
"""Of the largest size."""


def plan_merge(segments: Sequence[Segment], bytes_max: int) -> range | None:
    """The run of neighbours to merge next, the oldest that there is; None when there is nothing to gain.

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
