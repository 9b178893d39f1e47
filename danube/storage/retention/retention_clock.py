"""Retention clock: a step of the clock counts CLOCK_STEP_MAX_S at most, until the clock has run evenly for long. Pure.

What is deleted does not come back, so a jump of the clock alone must delete nothing, and time that really passes must.
Monotonic time tells the two apart while a broker runs. For the time before its start the newest message is the
evidence.

A clock that was wrong for a minute may also have given a message an append time years ahead, and no append time of a
topic goes back. Segments with such times are as old as the time at which they were seen first.
"""

import logging
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import NamedTuple

from danube.model.limits.broker import (
    CLOCK_CAUGHT_UP_S,
    CLOCK_STEP_MAX_S,
    SEEN_MARKS_PER_AGE,
)
from danube.runtime.clock import Clock
from danube.storage.segment.manifest import Manifest, Segment

_STEP_MAX_MS = round(CLOCK_STEP_MAX_S * 1_000)
_END_OFFSET = attrgetter("end_offset")
_LAST_TIME = attrgetter("last_append_time_ms")
_SEEN_MS = attrgetter("seen_ms")

_log = logging.getLogger(__name__)


class RetentionClock:
    """Wall time as far as monotonic time confirms it, or once an administrator had `settled_s` to set it right.

    While the clock is doubted, time runs on evenly from where it was trusted last; when the clock is behind that, it
    is what the clock says. So it is never later than the clock, but for less than a millisecond.
    """

    def __init__(self, now_ms: int, now_s: float, newest_ms: int | None = None, *, settled_s: float) -> None:
        """`newest_ms` is when the newest of all messages was appended: time after it has to be confirmed.

        A clock that is behind it now, and catches up with it before it is trusted, was behind: machines without a
        clock of their own start so. Then CLOCK_CAUGHT_UP_S are enough to count from that message.
        """
        self._settled_s = settled_s
        self._known_ms = now_ms if newest_ms is None else min(now_ms, newest_ms)
        self._newest_ms = newest_ms if newest_ms is not None and newest_ms > now_ms else None
        self._known_s = now_s
        self._since_s = now_s
        self.step_ms: int | None = None
        """By how much the clock is off from what is expected, in the future when positive; None while it is not."""

    def time_ms(self, now_ms: int, now_s: float) -> int:
        """The time now, in milliseconds since the Unix epoch, given what both clocks say."""
        passed_ms = round((now_s - self._known_s) * 1_000)
        self._refresh_stale(now_ms - passed_ms, now_s)
        expected_ms = self._known_ms + passed_ms
        step_ms = now_ms - expected_ms
        if abs(step_ms) <= _STEP_MAX_MS:
            self.step_ms = None
            if now_s - self._known_s >= self._settled_s:
                self._trust(now_ms, now_s)
            return now_ms
        if self._has_stepped(step_ms):
            self.step_ms, self._since_s = step_ms, now_s
        elif now_s - self._since_s >= self._settled_s:
            self._trust(now_ms, now_s)
            return now_ms
        return min(now_ms, expected_ms)

    def _refresh_stale(self, started_ms: int, now_s: float) -> None:
        """Count from the newest message once the clock is past it, `started_ms` being the start by what it says now."""
        if self._newest_ms is None or started_ms < self._newest_ms - _STEP_MAX_MS:
            return
        if not self._has_stepped(started_ms - self._known_ms) and now_s - self._since_s >= CLOCK_CAUGHT_UP_S:
            self._known_ms, self._newest_ms = self._newest_ms, None
            self.step_ms = started_ms - self._known_ms  # the same clock, gone on evenly for as long

    def _has_stepped(self, step_ms: int) -> bool:
        return self.step_ms is None or abs(step_ms - self.step_ms) > _STEP_MAX_MS

    def _trust(self, now_ms: int, now_s: float) -> None:
        self._known_ms, self._known_s, self.step_ms, self._newest_ms = now_ms, now_s, None, None


class ClockJumpGuard(RetentionClock):
    """A `RetentionClock` over the broker's clock; each jump is logged once."""

    def __init__(self, clock: Clock, what: str, *, settled_s: float, newest_ms: int | None = None) -> None:
        """`what` goes by it, as the log says it; the others are those of `RetentionClock`."""
        super().__init__(clock.now_ms(), clock.monotonic_s(), newest_ms, settled_s=settled_s)
        self._clock = clock
        self._what = what
        self.time_ms(clock.now_ms(), clock.monotonic_s())

    def now_ms(self) -> int:
        """The time by which things are old, in milliseconds since the Unix epoch."""
        before_ms = self.step_ms
        now_ms = self.time_ms(self._clock.now_ms(), self._clock.monotonic_s())
        if self.step_ms is None and before_ms is not None:
            _log.info("%s goes by the clock again", self._what)
        elif self.step_ms is not None and self.step_ms != before_ms:
            _log.warning(
                "the clock has jumped by %d s: %s goes by the earlier of what it says and what it should say, until "
                "it is set right, or has gone on evenly for %d min",
                *(self.step_ms // 1_000, self._what, self._settled_s // 60),
            )
        return now_ms


class Seen(NamedTuple):
    """End offset of a topic's segments at a trusted time."""

    end_offset: int
    seen_ms: int


Marks = tuple[Seen, ...]
"""Of one topic; both fields grow."""


def is_ahead(append_time_ms: int, now_ms: int) -> bool:
    """True if only a clock that was wrong can have given this append time by `now_ms`."""
    return append_time_ms > now_ms + _STEP_MAX_MS


def refreshed_marks(marks: Marks, manifest: Manifest, max_age_ms: int, now_ms: int) -> Marks:
    """The marks of a topic with its segments of now; none where no segment is ahead of the clock.

    They are few: one for each part of `max_age_ms`, and of those that are older only the last.
    """
    if not is_ahead(manifest.last_append_time_ms, now_ms):
        return ()
    marks = marks[max(0, bisect_right(marks, now_ms - max_age_ms, key=_SEEN_MS) - 1) :]
    last = marks[-1] if marks else Seen(manifest.start_offset, 0)
    if manifest.end_offset <= last.end_offset or (now_ms - last.seen_ms) * SEEN_MARKS_PER_AGE < max_age_ms:
        return marks
    return (*marks, Seen(manifest.end_offset, now_ms))


def as_seen(manifest: Manifest, marks: Marks, now_ms: int) -> Manifest:
    """The manifest for retention to judge: no segment is newer than when it was seen first."""
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
