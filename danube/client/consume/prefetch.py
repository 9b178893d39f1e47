"""Prefetch: how much a broker may send ahead of the application, and what the application has. Pure.

About a second of the application's work waits in the client, one message at least: so little waits behind slow work,
and fast work never waits for the broker.
"""

from collections import deque
from dataclasses import dataclass

from danube.model.calls.consume import TakenRange
from danube.model.limits.stream import (
    CLIENT_BATCH_WORK_S,
    CLIENT_PREFETCH_MESSAGES,
    CLIENT_PREFETCH_S,
    CLIENT_TAKEN_SPANS_MAX,
    CONSUME_RANGES_MAX,
)
from danube.model.ranges import RangeSet

_GROWTH = 4
"""The window grows by as much at a time: one message may be a light one."""
_SAME_AGE_S = 1.0
"""Messages consumed one after the other within this time count as consumed at once."""
_INSTANT_S = 1e-9


@dataclass(slots=True)
class Demand:
    """Rate of the application: the time from when it took messages to when it asked for more."""

    messages_max: int
    window: int = CLIENT_PREFETCH_MESSAGES
    """Messages that may wait for it."""
    batch: int = 1
    """Messages that it is given at once: few before its rate is known, since all of them have one time to be done."""
    sources: int = 1
    """Topics or partitions that share the window."""
    now_s: float = 0.0
    """Monotonic time at which it asked last."""
    consumed: int = 0
    """Messages that it took and has not asked for more since: it works on them."""
    _consumed_s: float = 0.0

    @property
    def share(self) -> int:
        """The window of one topic or partition."""
        return max(1, min(self.window, self.messages_max) // self.sources)

    def ask(self, most: int, now_s: float) -> None:
        """The application asks for messages, at most so many."""
        self.now_s = now_s
        if self.consumed:
            work_s = max(now_s - self._consumed_s, _INSTANT_S)
            fits = self.consumed * (CLIENT_PREFETCH_S if most == 1 else CLIENT_BATCH_WORK_S) / work_s
            self.window = max(1, int(min(fits, self.window * _GROWTH, self.messages_max)))
            self.batch = max(1, int(min(fits, self.batch * _GROWTH, self.messages_max)))
            self.consumed = 0

    def take(self, count: int) -> None:
        """It takes some."""
        self.consumed = count
        self._consumed_s = self.now_s


@dataclass(slots=True)
class Credit:
    """Bytes and messages that a broker may send on one stream, and those that wait here."""

    bytes_max: int
    demand: Demand
    is_held_back: bool = False
    """True from when messages were given back until the application asks for some."""
    _bytes: int = 0
    """Of batches that may still come, and that came and are not consumed."""
    _messages: int = 0
    _waiting_bytes: int = 0
    """Of those that came."""
    _waiting_messages: int = 0
    _messages_max: int = 1
    _message_bytes: float = 1.0
    """Of the last batch."""

    def reset(self) -> None:
        """Another stream: nothing is given yet, and nothing waits."""
        self._bytes = self._messages = self._waiting_bytes = self._waiting_messages = 0

    def received(self, size: int, count: int) -> None:
        """A batch came, out of what was given."""
        self._waiting_bytes += size
        self._waiting_messages += count
        self._message_bytes = max(size / max(count, 1), 1.0)

    def released(self, size: int, count: int) -> None:
        """The application took messages; `size` is that of a batch of which it took the last."""
        self._waiting_bytes -= size
        self._bytes -= size
        self._waiting_messages -= count
        self._messages -= count

    def drop_waiting(self) -> None:
        """Forget what waited: it is not wanted any more."""
        self.released(self._waiting_bytes, self._waiting_messages)

    def give_back(self) -> None:
        """Give back what waited; the broker forgets what was given."""
        self.reset()
        self.is_held_back = True

    def is_due(self) -> bool:
        """Tell whether half of what may come can be given."""
        return not self.is_held_back and (2 * self._bytes <= self.bytes_max or 2 * self._messages <= self._messages_max)

    def give(self) -> tuple[int, int]:
        """Give bytes and messages, as many as may come."""
        if self.is_held_back:
            return 0, 0
        self._messages_max = max(1, min(self.demand.share, int(self.bytes_max / self._message_bytes)))
        due = max(self.bytes_max - self._bytes, 0), max(self._messages_max - self._messages, 0)
        self._bytes += due[0]
        self._messages += due[1]
        return due


class Taken:
    """Offsets that the application has and has not answered, and since when."""

    def __init__(self) -> None:
        self.unanswered = RangeSet()
        self._spans: deque[tuple[float, int, int]] = deque()

    def add(self, start: int, end: int, now_s: float) -> None:
        """The application took these."""
        self.unanswered.add(start, end)
        spans = self._spans
        if spans and spans[-1][2] == start and now_s < spans[-1][0] + _SAME_AGE_S:
            spans[-1] = spans[-1][0], spans[-1][1], end
            return
        if len(spans) >= CLIENT_TAKEN_SPANS_MAX:
            self._spans = spans = deque(each for each in spans if self.unanswered.overlap(*each[1:]))
            if len(spans) >= CLIENT_TAKEN_SPANS_MAX:
                spans.popleft()
        spans.append((now_s, start, end))

    def report(self, now_s: float) -> tuple[TakenRange, ...]:
        """The oldest of them with their ages."""
        left, found = RangeSet(self.unanswered), []
        for since_s, start, end in reversed(self._spans):  # a message that came again counts from then
            for part in left.overlap(start, end):
                found.append(TakenRange(*part, now_s - since_s))
                left.remove(*part)
        oldest_s = now_s - self._spans[0][0] if self._spans else 0.0
        rest = [TakenRange(*part, oldest_s) for part in left]
        return tuple([*rest, *reversed(found)][:CONSUME_RANGES_MAX])
