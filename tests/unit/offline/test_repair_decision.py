"""What is decided about a damaged topic: no sound offset is lost, none is used twice, the log has no gap."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from danube.model.limits.broker import PLACEHOLDERS_MAX
from danube.model.ranges import OffsetRange
from danube.model.subscription import Cursor
from danube.offline.storage.repair.repair_decision import (
    RepairedTopic,
    Rewrite,
    Source,
    Stay,
    filled,
    merged,
    plan_topic,
    unread,
)
from danube.storage.segment.manifest import Segment


def segment(first: int, end: int) -> Segment:
    return Segment(first, end, 1, 1_000, 1_000, 1, 10, 100)


def stays(first: int, end: int) -> Source:
    return Source(f"{first}.segment", (range(first, end),), segment(first, end))


def rest(name: str, *sound: range) -> Source:
    return Source(name, sound)


def test_a_hole_is_filled_between_segments_that_stay() -> None:
    repaired = plan_topic(0, [stays(0, 10), stays(15, 20)])
    assert repaired.steps == (Stay(segment(0, 10)), Rewrite([(None, range(10, 15))]), Stay(segment(15, 20)))
    assert (repaired.start_offset, repaired.end_offset, repaired.lost) == (0, 20, (range(10, 15),))


def test_what_is_left_of_a_segment_is_written_anew_with_the_hole_in_it() -> None:
    repaired = plan_topic(0, [rest("a", range(3), range(5, 10)), rest("journal", range(10, 12))])
    parts = [("a", range(3)), (None, range(3, 5)), ("a", range(5, 10)), ("journal", range(10, 12))]
    assert repaired.steps == (Rewrite(parts),)


def test_what_another_place_has_of_a_hole_is_put_into_it() -> None:
    asked: list[range] = []

    def spare(hole: range) -> Source:
        asked.append(hole)
        return rest("journal", range(hole.start, hole.start + 1))

    sources = filled([stays(2, 10), rest("a", range(10, 12), range(15, 18))], range(20), spare)
    assert asked == [range(2), range(12, 15), range(18, 20)]
    assert [one.name for one in sources] == ["journal", "2.segment", "a", "journal", "a", "journal"]
    assert plan_topic(0, sources, 20).lost == (range(1, 2), range(13, 15), range(19, 20))


def test_where_nothing_sound_is_before_the_hole_the_log_begins_behind_it() -> None:
    repaired = plan_topic(0, [rest("a"), stays(10, 20)])
    assert (repaired.start_offset, repaired.steps, repaired.lost) == (10, (Stay(segment(10, 20)),), (range(10),))


def test_a_log_goes_on_where_it_had_surely_come_to() -> None:
    repaired = plan_topic(0, [stays(0, 10)], end_at_least=12)
    assert (repaired.end_offset, repaired.lost) == (12, (range(10, 12),))


def test_a_log_of_which_nothing_is_left_goes_on_where_it_had_come_to() -> None:
    repaired = plan_topic(0, [], end_at_least=12)
    assert (repaired.start_offset, repaired.end_offset, repaired.steps) == (12, 12, ())


def test_past_the_most_markers_the_log_begins_behind_the_hole_and_what_was_sound_is_told() -> None:
    far = 10 + PLACEHOLDERS_MAX + 1
    repaired = plan_topic(0, [stays(0, 10), stays(far, far + 5)])
    assert (repaired.start_offset, repaired.left_out) == (far, (range(10),))


def test_a_merged_segment_counts_before_those_it_was_made_of() -> None:
    repaired = plan_topic(None, [stays(0, 20), stays(0, 10), stays(10, 20)])
    assert repaired.steps == (Stay(segment(0, 20)),)


@pytest.mark.parametrize(
    ("cursor", "expected"),
    [(Cursor(0), 4), (Cursor(6), 3), (Cursor(20), 0), (Cursor(0, (OffsetRange(6, 8), OffsetRange(11, 30))), 1)],
)
def test_unread_are_those_that_a_subscription_had_not_acknowledged(cursor: Cursor, expected: int) -> None:
    assert unread(cursor, [range(5, 8), range(12, 13)]) == expected


@st.composite
def damaged_topics(draw: st.DrawFn) -> tuple[int, list[Source], int]:
    at = start = draw(st.integers(0, 5))
    sources = []
    for number in range(draw(st.integers(0, 5))):
        end = at + draw(st.integers(1, 10))
        if draw(st.booleans()):
            sources.append(stays(at, end))
        else:
            kept = sorted(draw(st.sets(st.integers(at, end - 1))))
            sources.append(Source(f"damaged {number}", merged(range(one, one + 1) for one in kept)))
        at = end
    return start, sources, at + draw(st.integers(0, 3))


@given(damaged_topics())
def test_every_offset_is_kept_or_lost_and_each_once(topic: tuple[int, list[Source], int]) -> None:
    start, sources, end_at_least = topic
    repaired = plan_topic(start, sources, end_at_least)
    sound = {offset for source in sources for part in source.sound for offset in part}
    kept, marked = offsets_of(repaired)
    lost = [offset for part in repaired.lost for offset in part]
    assert sorted(kept) == sorted(sound)
    assert sorted(kept + marked) == list(range(repaired.start_offset, repaired.end_offset))
    assert sorted([*kept, *lost]) == list(range(start, repaired.end_offset))
    assert repaired.end_offset >= end_at_least


def offsets_of(repaired: RepairedTopic) -> tuple[list[int], list[int]]:
    """Those that are kept, and those that are marked, in the order of the steps."""
    kept: list[int] = []
    marked: list[int] = []
    for step in repaired.steps:
        if isinstance(step, Stay):
            kept += range(step.segment.base_offset, step.segment.end_offset)
        else:
            for name, part in step.parts:
                (kept if name else marked).extend(part)
    return kept, marked
