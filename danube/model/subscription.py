"""Subscriptions: their types, the names of their members, where one stands in its topic."""

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from danube.model.errors import InvalidNameError
from danube.model.limits.broker import NAME_BYTES_MAX
from danube.model.ranges import OffsetRange


class SubscriptionType(IntEnum):
    """Rule by which a subscription's consumers get messages."""

    EXCLUSIVE = 0
    """The only consumer."""
    SHARED = 1
    """Each in turn."""
    FAILOVER = 2
    """The active one; the next takes over when it goes."""
    KEY_SHARED = 3
    """The one that has the message's key."""


class FailedRange(NamedTuple):
    """Messages `start` to `end`, `end` not included, whose deliveries failed equally often."""

    start: int
    end: int
    failures: int


@dataclass(frozen=True, slots=True)
class Cursor:
    """Position of a subscription: everything below `position` is acknowledged, and so are `beyond`."""

    position: int
    beyond: tuple[OffsetRange, ...] = ()
    """Acknowledged ranges above `position`: sorted, disjoint, not touching."""
    failed: tuple[FailedRange, ...] = ()
    """Open messages that failed, sorted and disjoint; at most CURSOR_FAILURES_MAX ranges, the lowest ones."""

    @property
    def end(self) -> int:
        """The offset after the last acknowledged one."""
        return self.beyond[-1].end if self.beyond else self.position

    def within(self, end_offset: int) -> "Cursor":
        """The cursor without what lies at `end_offset` or behind it."""
        beyond = (OffsetRange(start, min(end, end_offset)) for start, end in self.beyond if start < end_offset)
        failed = (each._replace(end=min(each.end, end_offset)) for each in self.failed if each.start < end_offset)
        return Cursor(min(self.position, end_offset), tuple(beyond), tuple(failed))


def check_member_name(kind: str, text: str) -> str:
    """Answer `text` if it can name a subscription, producer or consumer. Raises InvalidNameError."""
    if not text or not text.isprintable():
        raise InvalidNameError(f"{kind} {text[:40]!r} is not a valid name: use printable characters, at least one")
    if len(text.encode()) > NAME_BYTES_MAX:
        raise InvalidNameError(f"{kind} {text[:40]!r}... is longer than {NAME_BYTES_MAX} bytes")
    return text
