"""Merging over any history of cuts: bounded work for each byte, no segment too large, every message in its place."""

from dataclasses import dataclass
from math import log

from hypothesis import given
from hypothesis import strategies as st

from danube.storage.flush.flush_plan import FULL, GROWTH, merged_bytes, plan_merge
from danube.storage.segment.manifest import Segment

MAX = 4_096


@dataclass(frozen=True, slots=True)
class Piece:
    """What one cut brought, and how often it was written again since."""

    size: int
    rewrites: int = 0


class Topic:
    """Segments as lists of pieces, and as what they are planned by."""

    def __init__(self) -> None:
        self.pieces: list[list[Piece]] = []
        self.segments: list[Segment] = []
        self.end_offset = 0

    def cut(self, size: int) -> None:
        self.pieces.append([Piece(size)])
        self.segments.append(Segment(self.end_offset, self.end_offset + 1, 1, 0, 0, 1, 0, size))
        self.end_offset += 1

    def merge(self, run: range) -> None:
        merged = [Piece(one.size, one.rewrites + 1) for index in run for one in self.pieces[index]]
        first, last = self.segments[run.start], self.segments[run.stop - 1]
        size = sum(one.size for one in merged)
        self.pieces[run.start : run.stop] = [merged]
        self.segments[run.start : run.stop] = [
            Segment(first.base_offset, last.end_offset, 2, 0, 0, len(merged), 0, size)
        ]


def rewrites_max(size: int) -> int:
    """How often a byte of a segment of this size may be written again: each time into a larger one, once to fill."""
    return int(log(MAX / size) / log(GROWTH) + 1e-9) + 1


CUTS = st.lists(
    st.integers(60, 70) | st.integers(60, MAX // 8) | st.integers(60, 2 * MAX) | st.just(60), min_size=1, max_size=120
)


def cut_and_merged(cuts: list[int]) -> Topic:
    """A topic after all of it, merged after each cut as far as there is something to gain."""
    topic = Topic()
    for size in cuts:
        topic.cut(size)
        while (run := plan_merge(topic.segments, MAX)) is not None:
            topic.merge(run)
    return topic


@given(CUTS)
def test_each_byte_is_written_again_only_so_often(cuts: list[int]) -> None:
    for one in (piece for pieces in cut_and_merged(cuts).pieces for piece in pieces):
        assert one.rewrites <= (rewrites_max(one.size) if one.size < FULL * MAX else 0)


@given(CUTS)
def test_no_merge_makes_a_segment_that_is_too_large(cuts: list[int]) -> None:
    for pieces in cut_and_merged(cuts).pieces:
        assert len(pieces) == 1 or sum(one.size for one in pieces) <= MAX


@given(CUTS)
def test_every_message_stays_in_its_place(cuts: list[int]) -> None:
    topic = cut_and_merged(cuts)
    assert [one.size for pieces in topic.pieces for one in pieces] == cuts
    bounds = [(one.base_offset, one.end_offset) for one in topic.segments]
    assert [start for start, _ in bounds] == [0, *[end for _, end in bounds[:-1]]]
    assert bounds[-1][1] == len(cuts)


@given(CUTS)
def test_few_segments_are_left(cuts: list[int]) -> None:
    sizes = [merged_bytes(one) for one in cut_and_merged(cuts).segments]
    for start in range(len(sizes) - 32):
        assert sum(sizes[start : start + 32]) > FULL * MAX
