"""When segments were there whose messages are stamped ahead of the clock: that is how old they are. Pure.

A clock that was wrong for a minute may have stamped a message with a time years ahead, and no append time of a topic
goes back. By its stamps such a topic would keep everything until that time comes.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import NamedTuple

from danube.model.limits.broker import CLOCK_STEP_MAX_S, SEEN_MARKS_PER_AGE
from danube.storage.segment.manifest import Manifest, Segment

_END_OFFSET = attrgetter("end_offset")
_LAST_TIME = attrgetter("last_append_time_ms")
_SEEN_MS = attrgetter("seen_ms")


class Seen(NamedTuple):
    """What was in segments at a time that can be believed."""

    end_offset: int
    seen_ms: int


Marks = tuple[Seen, ...]
"""Of one topic; both fields grow."""


def is_ahead(append_time_ms: int, now_ms: int) -> bool:
    """Whether a message cannot have been appended then, but for a clock that was wrong."""
    return append_time_ms > now_ms + CLOCK_STEP_MAX_S * 1_000


def note_seen(marks: Marks, manifest: Manifest, max_age_ms: int, now_ms: int) -> Marks:
    """The marks of a topic, with what is in segments now; none where no segment is stamped ahead.

    There are few: one for each part of `max_age_ms`, and of those that are older only the last.
    """
    if not is_ahead(manifest.last_append_time_ms, now_ms):
        return ()
    first = max(0, bisect_right(marks, now_ms - max_age_ms, key=_SEEN_MS) - 1)
    marks = marks[first:]
    last = marks[-1] if marks else Seen(manifest.start_offset, 0)
    if manifest.end_offset <= last.end_offset or (now_ms - last.seen_ms) * SEEN_MARKS_PER_AGE < max_age_ms:
        return marks
    return (*marks, Seen(manifest.end_offset, now_ms))


def as_seen(manifest: Manifest, marks: Marks, now_ms: int) -> Manifest:
    """The manifest with no segment newer than when it was seen first, for retention to judge."""
    first = bisect_right(manifest.segments, now_ms, key=_LAST_TIME)
    if first == len(manifest.segments):
        return manifest
    return replace(manifest, segments=tuple(_as_seen(manifest.segments, first, marks, now_ms)))


def _as_seen(segments: Sequence[Segment], first: int, marks: Marks, now_ms: int) -> Iterator[Segment]:
    yield from segments[:first]
    at_least_ms = segments[first - 1].last_append_time_ms if first else 0
    for segment in segments[first:]:
        number = bisect_left(marks, segment.end_offset, key=_END_OFFSET)
        seen_ms = marks[number].seen_ms if number < len(marks) else now_ms
        yield replace(segment, last_append_time_ms=min(segment.last_append_time_ms, max(seen_ms, at_least_ms)))
