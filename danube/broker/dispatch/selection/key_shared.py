"""Key-Shared flow: each key is a lane, and of a lane one message at a time is open.

    taken up --> lane of its key --> open: ready --> in flight (nack, timeout, leave: ready again) --> done: next one

A message is taken up only while some consumer has room, and at most KEY_SHARED_LOOKAHEAD above the position. Lanes keep
what waits as runs of offsets; a lane without messages is forgotten. What is open and ready waits in a heap of the
consumer that has the key, so a consumer without room costs nothing. Joins and leaves place those anew, in O(lanes).
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush

from danube.broker.dispatch.attached import AttachedConsumer
from danube.broker.dispatch.events import Instruction, KeyRun, ReadKeys, Send, add_send
from danube.broker.dispatch.flow import NEVER_S, Flow
from danube.broker.dispatch.in_flight import Deliveries, DeliveryState
from danube.broker.dispatch.progress import Progress
from danube.broker.dispatch.selection.key_filter import check_filters
from danube.broker.dispatch.selection.key_ring import KeyRing
from danube.model.limits.broker import KEY_SHARED_LOOKAHEAD, KEYS_READ_MAX
from danube.model.ranges import OffsetRange, RangeSet

_AT_ONCE_S = 0.0


@dataclass(slots=True, eq=False)
class _Member:
    """A consumer that has keys: attached, or away for a moment."""

    consumer_id: int
    filters: tuple[str, ...]
    consumer: AttachedConsumer | None = None
    leaves_at_s: float = NEVER_S
    ready: list[int] = field(default_factory=list)
    """A heap of open messages for it. One counts only while its lane waits for this member."""

    @property
    def has_room(self) -> bool:
        return self.consumer is not None and self.consumer.room > 0


@dataclass(slots=True, eq=False)
class _Lane:
    """The messages of one key that are taken up."""

    key: str
    open: int
    """The one whose turn it is."""
    runs: deque[OffsetRange] = field(default_factory=deque)
    """Those after it, never sent."""
    waits_for: _Member | None = None
    """In whose heap the open one is."""
    keeper: _Member | None = None
    """Who went away without an answer to it: it waits for that one, as long as it has keys."""


class KeySharedFlow(Flow):
    """The flow of a Key-Shared subscription.

    Promises: the messages of a key go out in their order, each when the one before it is done with, to the consumer
    that has the key then; who joins gets its share of keys and changes no other; who leaves keeps its keys for the
    grace time. A message whose key nobody takes is passed over, and counted. Without consumers nothing is.
    """

    def __init__(self, progress: Progress, grace_s: float) -> None:
        super().__init__(progress, Deliveries(self.refresh, self._became_ready))
        self._grace_s = grace_s
        self._ring = KeyRing()
        self._members: dict[int, _Member] = {}
        self._roomy: dict[int, _Member] = {}
        """Those with room."""
        self._active: dict[int, _Member] = {}
        """Those with room and something in their heap."""
        self._lanes: dict[str, _Lane] = {}
        self._open: dict[int, _Lane] = {}
        """The lane of each open message."""
        self._unplaced: list[int] = []
        """Open messages that are ready and in no heap."""
        self._known: deque[KeyRun] = deque()
        """Keys of messages that are not taken up yet."""
        self._is_asking = False
        self._looks = self._ring.looks_a_turn
        """Left before others get their turn; there are new ones when the timer has fired."""

    def attach(self, consumer: AttachedConsumer, filters: tuple[str, ...]) -> None:
        filters = check_filters(filters)
        member = self._members.get(consumer.consumer_id)
        if member is None or member.filters != filters:
            member = self._members[consumer.consumer_id] = _Member(consumer.consumer_id, filters)
            self._ring.add(consumer.consumer_id, filters)
            self._looks = min(self._looks, self._ring.looks_a_turn)
            self._place_anew()
        member.consumer, member.leaves_at_s = consumer, NEVER_S
        self._plan_leaves()
        self.refresh(consumer)

    def detach(self, consumer: AttachedConsumer, now_s: float) -> None:
        member = self._members[consumer.consumer_id]
        member.consumer, member.leaves_at_s = None, now_s + self._grace_s
        self._roomy.pop(consumer.consumer_id, None)
        self._active.pop(consumer.consumer_id, None)
        self._plan_leaves()
        for each in consumer.held:
            self._open[each.start].keeper = member
        self.deliveries.release(consumer)
        self.expire(now_s)

    def refresh(self, consumer: AttachedConsumer) -> None:
        member = self._members.get(consumer.consumer_id)
        if member is None or member.consumer is not consumer:
            return
        if not member.has_room:
            self._roomy.pop(consumer.consumer_id, None)
            self._active.pop(consumer.consumer_id, None)
            return
        self._roomy[consumer.consumer_id] = member
        if member.ready:
            self._active[consumer.consumer_id] = member

    def finish(self, start: int, end: int) -> None:
        self.deliveries.remove(start, end)
        self._progress.add(start, end)
        for offset in range(start, end):
            self._open_next(self._open.pop(offset))

    def skip(self, start: int, end: int) -> None:
        super().skip(start, end)
        skipped = RangeSet([OffsetRange(start, end)])
        for lane in list(self._lanes.values()):
            lane.runs = deque(part for run in lane.runs for part in skipped.gaps(*run))
            if lane.open in skipped:
                del self._open[lane.open]
                self._open_next(lane)

    def seek(self, position: int) -> None:
        super().seek(position)
        self._is_asking = False
        for forgotten in (self._lanes, self._open, self._unplaced, self._known, self._active):
            forgotten.clear()
        for member in self._members.values():
            member.ready.clear()

    def expire(self, now_s: float) -> None:
        """Consumers that were away for too long lose their keys; and keys can be looked up again."""
        if now_s < self.due_s:
            return
        leaving = [each for each in self._members.values() if each.leaves_at_s <= now_s]
        for member in leaving:
            del self._members[member.consumer_id]
            self._ring.remove(member.consumer_id)
        self._looks = self._ring.looks_a_turn
        self._plan_leaves()
        if leaving:
            self._place_anew()

    def keys_read(self, runs: tuple[KeyRun, ...]) -> None:
        """Late and repeated ones do no harm: a message has the same key for ever."""
        self._is_asking = False
        end = self._known[-1].end if self._known else self._progress.next_offset
        for run in runs:
            if run.start <= end < run.end:
                self._known.append(KeyRun(end, run.end, run.key))
                end = run.end

    def send(self, deadline_s: float, *, is_stopped: bool = False) -> list[Instruction]:  # noqa: ARG002 - by key here
        out: list[Instruction] = []
        self._place()
        while True:
            for member in list(self._active.values()):
                self._serve(member, deadline_s, out)
            if self._looks <= 0 or not self._may_take_up():
                if self._looks <= 0:
                    self.due_s = _AT_ONCE_S
                return out
            run = self._next_run()
            if run is None:
                self._ask(out)
                return out
            self._take_up(run)
            self._place()

    def problems(self) -> Iterator[str]:
        if self._open.keys() != {lane.open for lane in self._lanes.values()}:
            yield "the index of open messages is wrong"
        here = RangeSet([OffsetRange(offset, offset + 1) for offset in self._open])
        for lane in self._lanes.values():
            for run in lane.runs:
                if run.start <= lane.open or here.overlap(*run):
                    yield f"{run} is twice in a lane, or before its turn"
                here.add(*run)
        if list(here) != list(RangeSet(self.deliveries.spans())):
            yield f"lanes have {here}, but {self.deliveries.spans()} is open"
        sent = [offset for span in self.deliveries.sent_spans(0, self._progress.next_offset) for offset in range(*span)]
        if any(offset not in self._open for offset in sent):
            yield "a message was sent before its turn"
        yield from self._heap_problems()

    def _heap_problems(self) -> Iterator[str]:
        placed = {offset for member in self._members.values() for offset in member.ready}
        for offset, lane in self._open.items():
            is_ready = self.deliveries.attempt(offset, DeliveryState.READY) is not None
            waits = lane.waits_for is not None and offset in lane.waits_for.ready
            if is_ready and not waits and offset not in self._unplaced:
                yield f"{offset} is ready and would never be sent"
            if lane.waits_for is not None and (not is_ready or offset not in placed):
                yield f"{offset} waits for a consumer and should not"
        if self._roomy.keys() != {each.consumer_id for each in self._members.values() if each.has_room}:
            yield "the index of consumers with room is wrong"

    def _became_ready(self, start: int, end: int) -> None:
        self._unplaced.extend(range(start, end))

    def _place(self) -> None:
        """Put what is ready into the heap of who has its key."""
        if not self._members:
            return
        while self._unplaced and self._looks > 0:
            self._looks -= 1
            offset = self._unplaced.pop()
            lane = self._open.get(offset)
            if lane is None:
                continue
            member = self._member_for(lane)
            if member is None:
                self._pass_over(lane)
                continue
            lane.waits_for = member
            heappush(member.ready, offset)
            if member.has_room:
                self._active[member.consumer_id] = member

    def _member_for(self, lane: _Lane) -> _Member | None:
        keeper = lane.keeper
        if keeper is not None and self._members.get(keeper.consumer_id) is keeper:
            return keeper
        owner = self._ring.owner(lane.key)
        return None if owner is None else self._members[owner]

    def _place_anew(self) -> None:
        """The owners of keys are others now."""
        self._active.clear()
        for member in self._members.values():
            member.ready.clear()
        for lane in self._lanes.values():
            lane.waits_for = None
        attempt, ready = self.deliveries.attempt, DeliveryState.READY
        self._unplaced = [offset for offset in self._open if attempt(offset, ready) is not None]

    def _pass_over(self, lane: _Lane) -> None:
        """Nobody takes this key: all of its lane counts as acknowledged."""
        del self._lanes[lane.key], self._open[lane.open]
        for start, end in (OffsetRange(lane.open, lane.open + 1), *lane.runs):
            self.deliveries.remove(start, end)
            self._progress.add(start, end)
            self.unclaimed += end - start

    def _serve(self, member: _Member, deadline_s: float, out: list[Instruction]) -> None:
        """Send one consumer what waits for it, as far as it has room."""
        consumer, ready = member.consumer, member.ready
        while ready and consumer is not None and consumer.room > 0:
            offset = heappop(ready)
            lane = self._open.get(offset)
            if lane is None or lane.waits_for is not member:
                continue
            lane.waits_for = lane.keeper = None
            attempt = self.deliveries.send_again(offset, offset + 1, consumer, deadline_s)
            add_send(out, Send(member.consumer_id, offset, offset + 1, attempt))
        self._active.pop(member.consumer_id, None)
        if not member.has_room:
            self._roomy.pop(member.consumer_id, None)

    def _may_take_up(self) -> bool:
        progress = self._progress
        return (
            bool(self._roomy)
            and progress.next_offset < min(progress.durable_end, progress.position + KEY_SHARED_LOOKAHEAD)
            and not progress.is_scattered
        )

    def _next_run(self) -> KeyRun | None:
        """Messages that can be taken up now and have one key; None when their key is not known."""
        known, progress = self._known, self._progress
        start = progress.next_offset
        while known and known[0].end <= start:
            known.popleft()
        if not known:
            return None
        end = min(known[0].end, progress.untouched_end, progress.position + KEY_SHARED_LOOKAHEAD)
        return KeyRun(start, end, known[0].key)

    def _take_up(self, run: KeyRun) -> None:
        self.deliveries.park(run.start, run.end)
        self._progress.take_up(run.end)
        lane = self._lanes.get(run.key)
        if lane is None:
            lane = self._lanes[run.key] = _Lane(run.key, -1, deque([OffsetRange(run.start, run.end)]))
            self._open_next(lane)
        else:
            lane.runs.append(OffsetRange(run.start, run.end))

    def _ask(self, out: list[Instruction]) -> None:
        if not self._is_asking:
            self._is_asking = True
            start = self._progress.next_offset
            out.append(ReadKeys(start, min(self._progress.untouched_end, start + KEYS_READ_MAX)))

    def _open_next(self, lane: _Lane) -> None:
        """The open message of the lane is done with."""
        lane.waits_for = lane.keeper = None
        if not lane.runs:
            del self._lanes[lane.key]
            return
        start, end = lane.runs.popleft()
        if start + 1 < end:
            lane.runs.appendleft(OffsetRange(start + 1, end))
        lane.open = start
        self._open[start] = lane
        self._unplaced.append(start)

    def _plan_leaves(self) -> None:
        """Set the time of the next expiry; keys left to look up are due at once, as `send` finds."""
        self.due_s = min((each.leaves_at_s for each in self._members.values()), default=NEVER_S)
