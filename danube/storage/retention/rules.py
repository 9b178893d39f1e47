"""Rules of retention: which of a topic's oldest segments may be trimmed. Pure.

Whole segments are trimmed, from the front, and the newest one never is: a message may outlive the limits.
"""

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from operator import attrgetter

from danube.storage.segment.manifest import Manifest

_END_OFFSET = attrgetter("end_offset")
_LAST_TIME = attrgetter("last_append_time_ms")


@dataclass(frozen=True, slots=True)
class Retention:
    """Retention of a topic by age and by bytes. None is no limit."""

    max_age_ms: int | None
    """A segment may be trimmed when all of its messages are older."""
    max_bytes: int | None
    """The first segments may be trimmed while the topic has more, in bodies of batches."""
    keep_unread: bool = True
    """Messages that a subscription has not acknowledged stay, whatever the limits say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsealed:
    """Records of a topic that are in no segment yet."""

    start_offset: int
    old_end_offset: int
    """The offset after those older than `max_age_ms`; without any, `start_offset`."""
    end_offset: int
    body_bytes: int

    def bytes_below(self, offset: int) -> int:
        """Bytes below this offset, as if all messages were alike."""
        messages = min(offset, self.end_offset) - self.start_offset
        return -(-self.body_bytes * messages // (self.end_offset - self.start_offset)) if messages > 0 else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TrimPreview:
    """Effect of a retention on a topic: segments at once, and later messages as newer segments are made."""

    segments: int = 0
    messages: int = 0
    """In these segments, as the next three."""
    body_bytes: int = 0
    first_append_time_ms: int = 0
    last_append_time_ms: int = 0
    later_messages: int = 0
    """At most: past the limits, too, but in the newest segment, or in none."""
    later_bytes: int = 0
    """Of their batches, about."""
    end_offset: int = 0
    """The offset after all of them."""


def trim_preview(
    manifest: Manifest, retention: Retention, now_ms: int, oldest_unread: int | None, unsealed: Unsealed
) -> TrimPreview:
    """Preview of a trim; the arguments are those of `segments_to_drop`."""
    count = segments_to_drop(manifest, retention, now_ms, oldest_unread, unsealed.body_bytes)
    gone, left = manifest.segments[:count], manifest.segments[count:]
    stays_from = gone[-1].end_offset if gone else manifest.start_offset
    end_offset = max(stays_from, _past_limits(manifest, retention, now_ms, oldest_unread, unsealed))
    later_bytes = sum(segment.body_bytes for segment in left if segment.base_offset < end_offset)
    return TrimPreview(
        segments=count,
        messages=stays_from - manifest.start_offset,
        body_bytes=sum(segment.body_bytes for segment in gone),
        first_append_time_ms=gone[0].first_append_time_ms if gone else 0,
        last_append_time_ms=gone[-1].last_append_time_ms if gone else 0,
        later_messages=end_offset - stays_from,
        later_bytes=later_bytes + unsealed.bytes_below(end_offset),
        end_offset=end_offset,
    )


def segments_to_drop(
    manifest: Manifest, retention: Retention, now_ms: int, oldest_unread: int | None, journal_body_bytes: int
) -> int:
    """Number of the first segments that may be trimmed.

    `oldest_unread` is the lowest offset that a subscription has not acknowledged; None when there is no subscription.
    `journal_body_bytes` counts batches that are not in segments yet.
    """
    if retention.max_age_ms is None and retention.max_bytes is None:
        return 0
    wanted = max(_too_old(manifest, retention, now_ms), _too_many(manifest, retention, journal_body_bytes))
    if retention.keep_unread and oldest_unread is not None:
        wanted = min(wanted, bisect_right(manifest.segments, oldest_unread, key=_END_OFFSET))
    return min(wanted, max(len(manifest.segments) - 1, 0))


def _too_old(manifest: Manifest, retention: Retention, now_ms: int) -> int:
    if retention.max_age_ms is None:
        return 0
    return bisect_left(manifest.segments, now_ms - retention.max_age_ms, key=_LAST_TIME)


def _too_many(manifest: Manifest, retention: Retention, journal_body_bytes: int) -> int:
    if retention.max_bytes is None:
        return 0
    excess = manifest.body_bytes + journal_body_bytes - retention.max_bytes
    for count, segment in enumerate(manifest.segments):
        if excess <= 0:
            return count
        excess -= segment.body_bytes
    return len(manifest.segments)


def _past_limits(
    manifest: Manifest, retention: Retention, now_ms: int, oldest_unread: int | None, unsealed: Unsealed
) -> int:
    """The offset up to which messages are trimmed, at most, once newer segments follow."""
    past = manifest.start_offset
    if retention.max_age_ms is not None:
        past = _end_of(manifest, _too_old(manifest, retention, now_ms), unsealed.old_end_offset)
    if retention.max_bytes is not None:
        # Excess is trimmed with the whole segment that it is in, and that may be all that is unsealed.
        is_more = unsealed.body_bytes > retention.max_bytes
        count = _too_many(manifest, retention, unsealed.body_bytes)
        past = max(past, _end_of(manifest, count, unsealed.end_offset if is_more else unsealed.start_offset))
    if retention.keep_unread and oldest_unread is not None:
        past = min(past, oldest_unread)
    return past


def _end_of(manifest: Manifest, count: int, unsealed_end: int) -> int:
    """The offset after the first `count` segments; after all of them, `unsealed_end`."""
    return manifest.segments[count].base_offset if count < len(manifest.segments) else unsealed_end
