"""Decision about a topic's log whose storage is damaged, made before anything is written. Pure.

All that is sound stays, at its own offset. Offsets that are lost are filled with placeholder records, so that what is
behind them keeps its place and no offset is ever given out twice. Where nothing sound is before the lost ones, the log
begins behind them instead. So it does when more are lost than placeholders are made for; what is before is set aside.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from danube.model.limits.broker import PLACEHOLDERS_MAX
from danube.model.subscription import Cursor
from danube.storage.segment.manifest import Segment


@dataclass(frozen=True, slots=True)
class Source:
    """A file with batches of a topic, and the offsets that are sound there, in order."""

    name: str
    """Of the file; of the journal, its folder."""
    sound: tuple[range, ...]
    segment: Segment | None = None
    """Set when the file is a segment that can stay as it is."""


@dataclass(frozen=True, slots=True)
class Stay:
    """A segment that stays."""

    segment: Segment


@dataclass(slots=True)
class Rewrite:
    """Offsets that are written anew, into segments of their own."""

    parts: list[tuple[str | None, range]] = field(default_factory=list)
    """Each from a source, by its name; or, from None, lost and filled with placeholders."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairedTopic:
    """A topic's log as it will be."""

    start_offset: int
    end_offset: int
    steps: tuple[Stay | Rewrite, ...]
    lost: tuple[range, ...]
    """Offsets whose messages are gone."""
    left_out: tuple[range, ...] = ()
    """Sound ones before the new start, because too many behind them are lost."""
    skipped: range = range(0)
    """Offsets at the end of which nobody can say whether messages had them: none is to get them again."""

    @property
    def lost_count(self) -> int:
        """The number of messages that are lost."""
        return sum(len(one) for one in self.lost)


def plan_topic(
    start_offset: int | None, sources: Sequence[Source], end_at_least: int = 0, doubtful: int = 0
) -> RepairedTopic:
    """Decide what becomes of a topic's sources, which are in offset order.

    `start_offset` is where its log begins, None when nothing says it. `end_at_least` is an offset that its log has
    surely reached, `doubtful` how many more may have been given out.
    """
    plan = _Plan(start_offset)
    for source in sources:
        for sound in source.sound:
            plan.take(source, sound)
    plan.reach(end_at_least)
    plan.skip(doubtful)
    return plan.repaired()


def filled(sources: Sequence[Source], offsets: range, spare: Callable[[range], Source]) -> list[Source]:
    """The same sources, and in what is not sound in them, of these offsets, what another place has of that."""
    found: list[Source] = []
    at = offsets.start
    for source in sources:
        for sound in source.sound:
            if at < sound.start:
                found.append(spare(range(at, sound.start)))
            found.append(replace(source, sound=(sound,)))
            at = max(at, sound.stop)
    if at < offsets.stop:
        found.append(spare(range(at, offsets.stop)))
    return found


def merged(ranges: Iterable[range]) -> tuple[range, ...]:
    """Ascending ranges, neighbours joined."""
    found: list[range] = []
    for one in ranges:
        if found and found[-1].stop == one.start:
            found[-1] = range(found[-1].start, one.stop)
        elif one:
            found.append(one)
    return tuple(found)


def unread(cursor: Cursor, lost: Iterable[range]) -> int:
    """The number of lost messages that a subscription with this cursor had not acknowledged."""
    count = 0
    for one in lost:
        first = max(one.start, cursor.position)
        acknowledged = sum(max(0, min(beyond.end, one.stop) - max(beyond.start, first)) for beyond in cursor.beyond)
        count += max(0, one.stop - first) - acknowledged
    return count


class _Plan:
    def __init__(self, start_offset: int | None) -> None:
        self._start = start_offset
        self._at = start_offset
        self._steps: list[Stay | Rewrite] = []
        self._lost: list[range] = []
        self._filled = 0
        self._left_out: list[range] = []
        self._skipped = range(0)

    def take(self, source: Source, sound: range) -> None:
        if self._at is None:
            self._start = self._at = sound.start
        if sound.stop <= self._at:
            return
        if sound.start > self._at:
            self._lose(sound.start)
        if source.segment is not None and self._at == sound.start:
            self._steps.append(Stay(source.segment))
        else:
            self._rewrite(source.name, range(self._at, sound.stop))
        self._at = sound.stop

    def reach(self, end_offset: int) -> None:
        if end_offset > (self._at or 0):
            self._lose(end_offset)

    def skip(self, count: int) -> None:
        if not count:
            return
        first = self._at or 0
        self._skipped = range(first, first + count)
        self._at = self._skipped.stop
        if self._steps:
            self._rewrite(None, self._skipped)
        else:
            self._start = self._at

    def repaired(self) -> RepairedTopic:
        start = self._start or 0
        return RepairedTopic(
            start_offset=start,
            end_offset=self._at if self._at is not None else start,
            steps=tuple(self._steps),
            lost=merged(self._lost),
            left_out=merged(self._left_out),
            skipped=self._skipped,
        )

    def _lose(self, end_offset: int) -> None:
        gone = range(self._at or 0, end_offset)
        self._lost.append(gone)
        self._filled += len(gone)
        if not self._steps or self._filled > PLACEHOLDERS_MAX:
            self._begin_at(end_offset)
        else:
            self._rewrite(None, gone)
        self._at = end_offset

    def _begin_at(self, offset: int) -> None:
        for step in self._steps:
            if isinstance(step, Stay):
                self._left_out.append(range(step.segment.base_offset, step.segment.end_offset))
            else:
                self._left_out += [part for name, part in step.parts if name is not None]
        self._steps.clear()
        self._filled = 0
        self._start = offset

    def _rewrite(self, name: str | None, part: range) -> None:
        if not self._steps or isinstance(self._steps[-1], Stay):
            self._steps.append(Rewrite())
        last = self._steps[-1]
        if isinstance(last, Rewrite):
            last.parts.append((name, part))
