import pytest

from danube.storage.retention.rules import Retention, TrimPreview, Unsealed, segments_to_drop, trim_preview
from tests.unit.storage.manifests import NOW_MS, manifest_of, sizes

FOUR = manifest_of(sizes(100, 200, 300, 400))
"""Segments of ten offsets each, a second long, the first one from NOW_MS on."""
FOR_EVER = Retention(None, None)
NOTHING_LONGER_THAN_A_SECOND = Retention(1_000, None)
MUCH_LATER_MS = NOW_MS + 10**9


def test_without_a_limit_everything_stays() -> None:
    assert segments_to_drop(FOUR, FOR_EVER, MUCH_LATER_MS, None, 10**12) == 0


@pytest.mark.parametrize(("age_ms", "dropped"), [(1_998, 0), (1_999, 0), (2_000, 1), (2_999, 1), (3_000, 2)])
def test_a_segment_goes_when_its_last_message_is_too_old(age_ms: int, dropped: int) -> None:
    assert segments_to_drop(FOUR, NOTHING_LONGER_THAN_A_SECOND, NOW_MS + age_ms, None, 0) == dropped


@pytest.mark.parametrize(
    ("bytes_max", "in_journal", "dropped"),
    [(1_000, 0, 0), (999, 0, 1), (900, 0, 1), (899, 0, 2), (1_000, 1, 1), (1_000, 301, 3), (0, 0, 3)],
)
def test_the_oldest_go_until_no_more_is_there_than_may_be(bytes_max: int, in_journal: int, dropped: int) -> None:
    assert segments_to_drop(FOUR, Retention(None, bytes_max), NOW_MS, None, in_journal) == dropped


def test_the_newest_segment_stays_whatever_its_age_and_size() -> None:
    retention = Retention(0, 0, keep_unread=False)
    assert segments_to_drop(FOUR, retention, MUCH_LATER_MS, 0, 10**12) == 3
    assert segments_to_drop(manifest_of(sizes(1)), retention, MUCH_LATER_MS, None, 10**12) == 0
    assert segments_to_drop(manifest_of(()), retention, MUCH_LATER_MS, None, 10**12) == 0


@pytest.mark.parametrize(("oldest_unread", "dropped"), [(0, 0), (9, 0), (10, 1), (29, 2), (30, 3), (40, 3), (10**6, 3)])
def test_what_is_unread_stays(oldest_unread: int, dropped: int) -> None:
    for retention in (Retention(0, None), Retention(None, 0), Retention(0, 0)):
        assert segments_to_drop(FOUR, retention, MUCH_LATER_MS, oldest_unread, 0) == dropped


def test_what_is_unread_goes_where_that_was_asked_for() -> None:
    assert segments_to_drop(FOUR, Retention(0, None, keep_unread=False), MUCH_LATER_MS, 0, 0) == 3


def test_the_tighter_of_two_limits_decides() -> None:
    assert segments_to_drop(FOUR, Retention(1_000, 900), NOW_MS + 3_000, None, 0) == 2
    assert segments_to_drop(FOUR, Retention(1_000, 400), NOW_MS + 3_000, None, 0) == 3


# What would go


def unsealed(*, old: int = 0, messages: int = 10, body_bytes: int = 500) -> Unsealed:
    """What follows on FOUR in the journal: the first `old` messages of it are too old."""
    return Unsealed(start_offset=40, old_end_offset=40 + old, end_offset=40 + messages, body_bytes=body_bytes)


def test_what_goes_at_once_is_told_with_its_messages_bytes_and_times() -> None:
    found = trim_preview(FOUR, NOTHING_LONGER_THAN_A_SECOND, NOW_MS + 3_000, None, unsealed())
    assert found == TrimPreview(
        segments=2,
        messages=20,
        body_bytes=300,
        first_append_time_ms=NOW_MS,
        last_append_time_ms=NOW_MS + 1_999,
        end_offset=20,
    )


def test_what_is_past_the_limits_and_cannot_go_yet_is_told_apart() -> None:
    found = trim_preview(FOUR, NOTHING_LONGER_THAN_A_SECOND, MUCH_LATER_MS, None, unsealed(old=3))
    assert (found.segments, found.messages, found.body_bytes) == (3, 30, 600)
    assert (found.later_messages, found.later_bytes, found.end_offset) == (13, 400 + 150, 43)


@pytest.mark.parametrize(
    ("bytes_max", "at_once", "later"),
    [
        (1_500, 0, 0),
        (1_499, 10, 0),
        (900, 30, 0),
        (899, 30, 10),
        (500, 30, 10),
        (499, 30, 20),
        (0, 30, 20),
    ],
)
def test_what_is_too_much_is_told_with_all_that_may_go_with_it(bytes_max: int, at_once: int, later: int) -> None:
    found = trim_preview(FOUR, Retention(None, bytes_max), NOW_MS, None, unsealed())
    assert (found.messages, found.later_messages, found.end_offset) == (at_once, later, at_once + later)


def test_what_is_unread_is_not_told_to_go_unless_it_does() -> None:
    kept = trim_preview(FOUR, Retention(0, None), MUCH_LATER_MS, 35, unsealed(old=10))
    assert (kept.messages, kept.end_offset) == (30, 35)
    dropped = trim_preview(FOUR, Retention(0, None, keep_unread=False), MUCH_LATER_MS, 35, unsealed(old=10))
    assert (dropped.messages, dropped.end_offset) == (30, 50)


def test_of_a_topic_that_was_never_flushed_everything_goes_later() -> None:
    journal = Unsealed(start_offset=0, old_end_offset=4, end_offset=10, body_bytes=500)
    found = trim_preview(manifest_of(()), NOTHING_LONGER_THAN_A_SECOND, NOW_MS, None, journal)
    assert (found.segments, found.messages, found.later_messages, found.later_bytes) == (0, 0, 4, 200)
    assert trim_preview(manifest_of(()), FOR_EVER, NOW_MS, None, journal) == TrimPreview()
