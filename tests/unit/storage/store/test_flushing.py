"""What a cut is going to be, for any journal and any history."""

from array import array
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
from danube.storage.batches.producer_state import SequencedBatch, StoredNumbers
from danube.storage.flush.flush_plan import (
    Piece,
    Waiting,
    files_of_pass,
    first_needed,
    is_worth_a_pass,
    is_worth_closing,
    manifest_after_flush,
    manifest_without,
    plan_pieces,
)
from danube.storage.journal.index import ClosedFile, IndexRun
from danube.storage.segment.manifest import Manifest, Segment

BYTES_MAX = 1_000
SIZES = st.lists(st.integers(1, 1_500), max_size=30)


def batches(sizes: list[int], first: int = 0) -> IndexRun:
    numbers = range(first, first + len(sizes))
    positions = array("Q", [10 * number for number in numbers])
    return IndexRun(array("Q", numbers), positions, array("Q", numbers), array("I", sizes), numbers.stop)


def segments(sizes: list[int]) -> list[Segment]:
    return [Segment(at, at + 1, at + 1, at, at, 1, size, size + 100) for at, size in enumerate(sizes)]


def files(topics_of_each: Sequence[set[int]], file_bytes: int = 100) -> list[ClosedFile]:
    return [
        ClosedFile(
            sequence=number,
            base_position=(number - 1) * file_bytes,
            end_position=number * file_bytes,
            topics=frozenset(topics),
            oldest_append_ms=0,
            newest_append_ms=0,
        )
        for number, topics in enumerate(topics_of_each, 1)
    ]


def covers(pieces: list[Piece]) -> list[tuple[int, int]]:
    return [(piece.shape.base_offset, piece.shape.end_offset) for piece in pieces]


@given(SIZES, SIZES)
def test_the_pieces_hold_every_offset_once_and_in_order(sealed: list[int], fresh: list[int]) -> None:
    pieces = plan_pieces(segments(sealed), batches(fresh, len(sealed)), BYTES_MAX)
    held = covers(pieces)
    assert all(before[1] == after[0] for before, after in pairwise(held))
    if held:
        assert (held[0][0], held[-1][1]) == (0, len(sealed) + len(fresh))


@given(SIZES, SIZES)
def test_each_new_batch_and_each_sealed_segment_is_in_one_piece(sealed: list[int], fresh: list[int]) -> None:
    pieces = plan_pieces(segments(sealed), batches(fresh, len(sealed)), BYTES_MAX)
    assert [source for piece in pieces for source in piece.sources] == segments(sealed)
    assert [number for piece in pieces for number in piece.fresh] == list(range(len(fresh)))


@given(SIZES, SIZES)
def test_a_new_segment_is_no_larger_than_it_may_be_unless_one_batch_is(sealed: list[int], fresh: list[int]) -> None:
    for piece in plan_pieces(segments(sealed), batches(fresh, len(sealed)), BYTES_MAX):
        assert piece.stays or piece.shape.body_bytes <= BYTES_MAX or len(piece.fresh) == 1


@given(SIZES, SIZES)
def test_a_piece_says_how_many_batches_and_bytes_it_will_have(sealed: list[int], fresh: list[int]) -> None:
    pieces = plan_pieces(segments(sealed), batches(fresh, len(sealed)), BYTES_MAX)
    assert sum(piece.shape.body_bytes for piece in pieces) == sum(sealed) + sum(fresh)
    assert sum(piece.shape.batches for piece in pieces) == len(sealed) + len(fresh)


@given(st.lists(st.integers(1, 400), min_size=1, max_size=200))
def test_cut_after_cut_the_segments_stay_few(sizes: list[int]) -> None:
    held: list[Segment] = []
    for number, size in enumerate(sizes, 1):
        pieces = plan_pieces(held, batches([size], len(pieces_end(held))), BYTES_MAX)
        held = [replace(piece.shape, manifest_version=number) for piece in pieces]
    full = sum(sizes) // (BYTES_MAX // 2) + 1
    assert len(held) <= 3 * full + 20


@given(SIZES, SIZES)
def test_a_cut_that_merges_nothing_leaves_what_is_sealed_alone(sealed: list[int], fresh: list[int]) -> None:
    pieces = plan_pieces(segments(sealed), batches(fresh, len(sealed)), BYTES_MAX, merges=False)
    assert [piece.shape for piece in pieces if piece.stays] == segments(sealed)
    assert [number for piece in pieces if not piece.stays for number in piece.fresh] == list(range(len(fresh)))


def test_after_cuts_that_merged_nothing_each_cut_merges_little_until_all_is_made_up_for() -> None:
    held = segments([200] * 60)
    for number in range(1, 30):
        pieces = plan_pieces(held, batches([10], held[-1].end_offset), BYTES_MAX)
        assert sum(piece.shape.body_bytes for piece in pieces if piece.merges) <= 3 * BYTES_MAX
        held = [replace(piece.shape, manifest_version=number) for piece in pieces]
    assert len(held) < 30


def pieces_end(held: list[Segment]) -> range:
    return range(held[-1].end_offset) if held else range(0)


# Files


@given(st.lists(st.sets(st.integers(1, 5), max_size=5), max_size=20))
def test_a_pass_takes_the_oldest_files_and_at_least_one(topics_of_each: list[set[int]]) -> None:
    closed = files(topics_of_each)
    taken = files_of_pass(closed)
    assert list(taken) == closed[: len(taken)]
    assert bool(taken) == bool(closed)
    assert len(taken) <= FLUSH_FILES_MAX


def test_a_pass_takes_one_file_when_each_topic_has_enough_in_it() -> None:
    assert len(files_of_pass(files([{1, 2}] * 5, file_bytes=2 * FLUSH_TOPIC_BYTES))) == 1
    assert len(files_of_pass(files([{1, 2, 3}] * 5, file_bytes=2 * FLUSH_TOPIC_BYTES))) == 2


def test_few_bytes_of_many_topics_wait_for_more_but_not_for_ever() -> None:
    closed = files([{1, 2}] * 2)
    assert not is_worth_a_pass([], 0)
    assert not is_worth_a_pass(closed, 0)
    assert is_worth_a_pass(closed, FLUSH_WAIT_S)
    assert is_worth_a_pass(closed, 0, is_full=True)
    assert is_worth_a_pass(files([{1, 2}] * FLUSH_FILES_WAIT_MAX), 0)
    assert is_worth_a_pass(files([{1, 2}] * 2, file_bytes=FLUSH_TOPIC_BYTES), 0)


@pytest.mark.parametrize(("newest_ms", "waited_s"), [(0, 60.0), (59_000, 1.0), (10**12, 0.0)])
def test_a_file_waits_from_its_newest_record_on_or_from_now_if_that_is_ahead(newest_ms: int, waited_s: float) -> None:
    (file,) = [replace(one, newest_append_ms=newest_ms) for one in files([{1}])]
    waiting = Waiting()
    waiting.update([file], 60_000, 500.0)
    waiting.update(
        [file, *files([{2}, {3}])[1:]], 10**15, 510.0
    )  # what the clock says later of the same file is nothing
    assert waiting.waited_s(file, 520.0) == waited_s + 20.0


def test_a_file_that_is_gone_is_not_remembered() -> None:
    (file,) = files([{1}])
    waiting = Waiting()
    waiting.update([file], 0, 500.0)
    waiting.update([], 0, 510.0)
    assert waiting.waited_s(file, 520.0) == 0.0


def test_a_file_is_closed_for_much_of_deleted_topics_soon_for_little_later_and_for_nothing_never() -> None:
    soon, later = JOURNAL_FILE_AGE_MIN_S, JOURNAL_FILE_DEAD_WAIT_S
    much = JOURNAL_FILE_DEAD_BYTES
    cases = ((much, soon), (much, soon - 1), (much - 1, soon), (1, later), (1, later - 1), (0, 10 * later))
    assert [is_worth_closing(*each) for each in cases] == [True, False, False, True, False, False]
    assert [is_worth_closing(each, 0, is_full=True) for each in (much, much - 1)] == [True, False]


@given(
    st.lists(st.sets(st.integers(1, 3), max_size=3), max_size=8), st.lists(st.integers(0, 900), min_size=3, max_size=3)
)
def test_a_file_goes_only_when_all_of_its_topics_are_covered_and_all_before_it_go(
    topics_of_each: list[set[int]], covered: list[int]
) -> None:
    closed = files(topics_of_each)
    needed = first_needed(closed, lambda topic_id: covered[topic_id - 1])
    for file in closed:
        if file.sequence < needed:
            assert all(covered[topic_id - 1] >= file.end_position for topic_id in file.topics)
        elif file.sequence == needed:
            assert any(covered[topic_id - 1] < file.end_position for topic_id in file.topics)


# Manifests


def test_a_manifest_leaves_numbers_of_batches_that_are_not_in_it_to_the_journal() -> None:
    rows = tuple(
        tuple(StoredNumbers(SequencedBatch(row, at, 1, 0), at) for at in offsets)
        for row, offsets in ((1, (3, 9)), (2, (12,)))
    )
    after = manifest_after_flush(
        Manifest(topic_id=1, version=4, journals={8: 5}),
        5,
        segments([1] * 10),
        cursors={7: Cursor(11)},
        producer_states=rows,
        journal_id=9,
        position=1_000,
    )
    assert after.producer_states == (rows[0],)
    assert (after.cursors, after.journals) == ({7: Cursor(11)}, {8: 5, 9: 1_000})
    assert (after.version, after.end_offset) == (5, 10)
    after.validate()


def test_a_manifest_of_cursors_alone_keeps_its_segments() -> None:
    before = Manifest(topic_id=1, version=1, end_offset=2, segments=tuple(segments([1, 1])), last_append_time_ms=1)
    after = manifest_after_flush(
        before, 2, before.segments, cursors={1: Cursor(2)}, producer_states=(), journal_id=3, position=50
    )
    assert (after.segments, after.end_offset, after.last_append_time_ms) == (before.segments, 2, 1)


@given(st.integers(1, 10), st.data())
def test_a_manifest_without_its_first_segments_begins_where_the_next_one_does(count: int, data: st.DataObject) -> None:
    before = Manifest(topic_id=1, version=1, end_offset=count, segments=tuple(segments([1] * count)))
    dropped = data.draw(st.integers(0, count))
    after = manifest_without(before, 2, dropped)
    assert (after.start_offset, after.end_offset) == (dropped, count)
    after.validate()
