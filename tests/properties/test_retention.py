"""Retention over any topic: a prefix goes, nothing that must stay, and the more the later it gets."""

from hypothesis import given
from hypothesis import strategies as st

from danube.storage.retention.rules import Retention, Unsealed, segments_to_drop, trim_preview
from danube.storage.segment.manifest import Manifest, Segment
from tests.unit.storage.manifests import NOW_MS, manifest_of, sizes

TIMES = st.integers(NOW_MS - 2_000, NOW_MS + 20_000)
TOPICS = st.lists(st.integers(1, 100), max_size=8).map(lambda bodies: manifest_of(sizes(*bodies)))
RETENTIONS = st.builds(Retention, st.none() | st.integers(0, 10_000), st.none() | st.integers(0, 800), st.booleans())
UNREAD = st.none() | st.integers(0, 90)
JOURNAL = st.integers(0, 300)


def may_go(manifest: Manifest, index: int, retention: Retention, now_ms: int, journal_bytes: int) -> bool:
    """Whether a limit, for itself, says of one segment that it goes: the rules, one segment at a time."""
    segment = manifest.segments[index]
    is_old = retention.max_age_ms is not None and now_ms - segment.last_append_time_ms > retention.max_age_ms
    bytes_from_here = sum(each.body_bytes for each in manifest.segments[index:]) + journal_bytes
    return is_old or (retention.max_bytes is not None and bytes_from_here > retention.max_bytes)


@given(TOPICS, RETENTIONS, TIMES, UNREAD, JOURNAL)
def test_exactly_what_may_go_goes(
    manifest: Manifest, retention: Retention, now_ms: int, unread: int | None, journal_bytes: int
) -> None:
    dropped = segments_to_drop(manifest, retention, now_ms, unread, journal_bytes)
    for index, segment in enumerate(manifest.segments):
        is_read = unread is None or not retention.keep_unread or segment.end_offset <= unread
        goes = is_read and may_go(manifest, index, retention, now_ms, journal_bytes)
        assert (index < dropped) == (goes and segment is not manifest.segments[-1])


@given(TOPICS, RETENTIONS, st.tuples(TIMES, TIMES).map(sorted), UNREAD, JOURNAL)
def test_the_later_the_more(
    manifest: Manifest, retention: Retention, times: list[int], unread: int | None, journal_bytes: int
) -> None:
    sooner, later = (segments_to_drop(manifest, retention, now_ms, unread, journal_bytes) for now_ms in times)
    assert sooner <= later


@given(TOPICS, RETENTIONS, TIMES, UNREAD, st.data())
def test_what_is_told_to_go_goes_and_once_all_is_cut_nothing_goes_that_was_not_told(
    manifest: Manifest, retention: Retention, now_ms: int, unread: int | None, data: st.DataObject
) -> None:
    """The journal is cut into segments of one message each, and one more follows."""
    messages = data.draw(st.integers(1, 30))
    end, cutoff_ms = manifest.end_offset, now_ms - (retention.max_age_ms or 0)
    start_ms = manifest.last_append_time_ms + 1 if manifest.segments else NOW_MS
    times = sorted(start_ms + data.draw(st.integers(0, 5_000)) for _ in range(messages))
    cut = tuple(Segment(end + n, end + n + 1, 99, ms, ms, 1, 10, 10) for n, ms in enumerate((*times, 2**50)))
    old = sum(ms < cutoff_ms for ms in times)
    unsealed = Unsealed(start_offset=end, old_end_offset=end + old, end_offset=end + messages, body_bytes=10 * messages)
    found = trim_preview(manifest, retention, now_ms, unread, unsealed)
    assert found.segments == segments_to_drop(manifest, retention, now_ms, unread, 10 * messages)
    assert found.messages + found.later_messages == found.end_offset - manifest.start_offset
    later = manifest_of((*manifest.segments, *cut))
    dropped = segments_to_drop(later, retention, now_ms, unread, -10)  # the one that follows does not count
    assert later.segments[dropped].base_offset <= found.end_offset
    is_known = retention.max_bytes is None or retention.max_bytes >= 10 * messages
    if is_known and (unread is None or not retention.keep_unread):
        assert later.segments[dropped].base_offset == found.end_offset
