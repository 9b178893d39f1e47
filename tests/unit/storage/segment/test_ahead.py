"""Segments stamped ahead of the clock are as old as they have been there."""

from dataclasses import replace

from danube.model.limits.broker import SEEN_MARKS_PER_AGE
from danube.storage.retention.retention_clock import Marks, Seen, as_seen, refreshed_marks
from danube.storage.retention.rules import Retention, segments_to_drop
from danube.storage.segment.manifest import Manifest
from tests.unit.storage.manifests import NOW_MS, manifest_of, sizes

YEAR_MS = 365 * 86_400_000
AGE_MS = 160_000
BY_AGE = Retention(AGE_MS, None)
FOUR = manifest_of(sizes(100, 200, 300, 400))
"""Of ten offsets and a second each, from NOW_MS on."""


def ahead(manifest: Manifest) -> Manifest:
    """The same, but all after the first segment was stamped by a clock a year ahead."""
    first, *others = manifest.segments
    moved = [
        replace(one, last_append_time_ms=NOW_MS + YEAR_MS, first_append_time_ms=NOW_MS + YEAR_MS) for one in others
    ]
    return replace(manifest, segments=(first, *moved), last_append_time_ms=NOW_MS + YEAR_MS)


def test_of_a_topic_that_the_clock_has_reached_nothing_is_noted_and_nothing_changed() -> None:
    later_ms = FOUR.last_append_time_ms
    assert refreshed_marks((Seen(10, 5),), FOUR, AGE_MS, later_ms) == ()
    assert as_seen(FOUR, (), later_ms) is FOUR


def test_a_segment_from_the_future_goes_when_it_has_been_there_for_its_time() -> None:
    now_ms = NOW_MS + 10_000
    marks = refreshed_marks((), ahead(FOUR), AGE_MS, now_ms)
    assert marks == (Seen(40, now_ms),)
    for later_ms, dropped in ((AGE_MS, 1), (AGE_MS + 1, 3)):
        seen = as_seen(ahead(FOUR), marks, now_ms + later_ms)
        assert segments_to_drop(seen, BY_AGE, now_ms + later_ms, None, 0) == dropped


def test_what_nobody_has_noted_is_as_new_as_can_be() -> None:
    now_ms = NOW_MS + 10_000
    assert [one.last_append_time_ms for one in as_seen(ahead(FOUR), (Seen(20, now_ms - 5),), now_ms).segments] == [
        FOUR.segments[0].last_append_time_ms,
        now_ms - 5,
        now_ms,
        now_ms,
    ]


def test_segments_stay_in_the_order_of_their_times() -> None:
    now_ms = FOUR.segments[0].last_append_time_ms
    seen = as_seen(ahead(FOUR), (Seen(40, now_ms - 500),), now_ms)
    times = [one.last_append_time_ms for one in seen.segments]
    assert times == sorted(times)


def test_the_marks_of_a_topic_that_goes_on_are_few() -> None:
    marks: Marks = ()
    for turn in range(1, 1_000):
        grown = replace(ahead(FOUR), end_offset=40 + turn)
        marks = refreshed_marks(marks, grown, AGE_MS, NOW_MS + 1_000 * turn)
        assert list(marks) == sorted(marks)
    assert 2 < len(marks) <= SEEN_MARKS_PER_AGE + 2
    assert marks[0].seen_ms <= NOW_MS + 999_000 - AGE_MS < marks[1].seen_ms
