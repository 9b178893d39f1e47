"""Rules over a history: each answers the promises that a run broke. Pure.

A history ends with everything delivered that can be and, for each topic, a `LogFound`. A message that was sent, but not
acknowledged to its producer, may be in the log or not. What a log no longer begins with was trimmed by retention, which
has a rule of its own.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from danube.model.subscription import Cursor
from lab.kernel.history import (
    AppendAcknowledged,
    CursorFound,
    Delivered,
    DeliveryAcknowledged,
    Event,
    Failed,
    Keeps,
    LogFound,
    Restarted,
    Sent,
    Subscribed,
    TopicBegun,
    TopicDeleted,
)

CURSORS_ARE_ANSWERED = "a cursor covers only what was acknowledged"


@dataclass(frozen=True, slots=True)
class Violation:
    """A promise that a run broke."""

    promise: str
    what: str
    topic: str = ""
    at: int | None = None  # index in the history of the event that shows it
    count: int = 1

    def __str__(self) -> str:
        event = "" if self.at is None else f" (event {self.at})"
        return ": ".join(filter(None, (self.promise, self.topic, self.what))) + event


Checker = Callable[[Sequence[Event]], Iterator[Violation]]


def check(history: Sequence[Event], *, after_loss: bool = False) -> list[Violation]:
    """Every violation that any checker finds; `after_loss` where power cuts may take what was acknowledged."""
    return [violation for checker in (AFTER_LOSS if after_loss else CHECKERS) for violation in checker(history)]


def acknowledged_is_kept(history: Sequence[Event]) -> Iterator[Violation]:
    """Every later read finds each acknowledged message at its offset, and there is a later read."""
    promise = "an acknowledged message is never lost"
    told = defaultdict[str, dict[int, str]](dict)
    unread = dict[str, int]()
    gone = set[str]()
    for at, event in enumerate(history):
        if isinstance(event, AppendAcknowledged):
            told[event.topic][event.offset] = event.message
            unread[event.topic] = at
        elif isinstance(event, TopicDeleted):
            gone.add(event.topic)
        elif isinstance(event, LogFound):
            unread.pop(event.topic, None)
            found = dict(event.records)
            for offset, message in told[event.topic].items():
                if offset >= event.start and found.get(offset) != message:
                    yield Violation(promise, _difference(offset, message, found.get(offset)), event.topic, at)
    for topic, at in unread.items():
        if topic not in gone:
            yield Violation(promise, "the log was never read after an acknowledgement", topic, at)


def seen_stays_as_it_was(history: Sequence[Event]) -> Iterator[Violation]:
    """A message seen at an offset stays there for every reader."""
    promise = "nothing is seen before it is durable"
    seen = defaultdict[str, dict[int, str]](dict)
    for at, event in enumerate(history):
        if isinstance(event, Delivered):
            first = seen[event.topic].setdefault(event.offset, event.message)
            if first != event.message:
                yield Violation(promise, _difference(event.offset, first, event.message), event.topic, at)
        elif isinstance(event, LogFound):
            found = dict(event.records)
            for offset, message in seen[event.topic].items():
                if offset >= event.start and found.get(offset) != message:
                    yield Violation(promise, _difference(offset, message, found.get(offset)), event.topic, at)
            seen[event.topic] = found


def offsets_are_contiguous(history: Sequence[Event]) -> Iterator[Violation]:
    """A log counts from its start without gaps, and no message is in it twice or was acknowledged twice."""
    promise = "offsets are contiguous and unique"
    told = defaultdict[str, set[int | str]](set)
    for at, event in enumerate(history):
        if isinstance(event, LogFound):
            offsets = [offset for offset, _ in event.records]
            if offsets != list(range(event.start, event.start + len(offsets))):
                yield Violation(promise, f"the log has the offsets {_abridged(offsets)}", event.topic, at)
            for message in _repeated([message for _, message in event.records]):
                yield Violation(promise, f"{message!r} is in the log twice", event.topic, at)
        elif isinstance(event, AppendAcknowledged):
            if told[event.topic] & {event.offset, event.message}:
                yield Violation(promise, f"{event.message!r} or offset {event.offset} came twice", event.topic, at)
            told[event.topic] |= {event.offset, event.message}


def retention_keeps_what_it_has_to(history: Sequence[Event]) -> Iterator[Violation]:
    """A log begins at 0 until retention lets messages go that it may, and its start never comes back."""
    promise = "retention keeps what it has to"
    keeps = dict[str, Keeps]()
    needed = defaultdict[str, dict[str, set[int]]](lambda: defaultdict(set))
    started = dict[str, int]()
    for at, event in enumerate(history):
        match event:
            case TopicBegun():
                keeps[event.topic] = event.keeps
            case Subscribed():
                needed[event.topic][event.subscription].update(range(event.start))
            case DeliveryAcknowledged():
                needed[event.topic][event.subscription].add(event.offset)
            case LogFound(topic=topic, start=start):
                before = started.get(topic, 0)
                kind = keeps.get(topic, Keeps.EVERYTHING)
                if start < before:
                    yield Violation(promise, f"the log begins at {start}, after it began at {before}", topic, at)
                elif start > before and kind is Keeps.EVERYTHING:
                    yield Violation(promise, f"the log begins at {start}, though it keeps everything", topic, at)
                elif start > before and kind is Keeps.UNREAD:
                    for subscription, done in needed[topic].items():
                        if lost := set(range(start)) - done:
                            what = f"{subscription} had not acknowledged {_abridged(sorted(lost))}, which are gone"
                            yield Violation(promise, what, topic, at)
                started[topic] = max(start, before)
            case _:
                pass


def only_what_was_sent_is_stored(history: Sequence[Event]) -> Iterator[Violation]:
    """The log holds messages that a producer sent to this topic, and nothing else."""
    sent = defaultdict[str, set[str]](set)
    for at, event in enumerate(history):
        if isinstance(event, Sent):
            sent[event.topic].add(event.message)
        elif isinstance(event, LogFound):
            for offset, message in event.records:
                if message not in sent[event.topic]:
                    what = f"{message!r} at offset {offset} was never sent"
                    yield Violation("only what was sent is stored", what, event.topic, at)


def producers_are_in_order(history: Sequence[Event]) -> Iterator[Violation]:
    """The messages of one producer stand in the log in the order in which it sent them."""
    order = dict[str, tuple[str, int]]()
    for at, event in enumerate(history):
        if isinstance(event, Sent):
            order[event.message] = (event.producer, len(order))
        elif isinstance(event, LogFound):
            last = dict[str, int]()
            for offset, message in event.records:
                producer, number = order.get(message, ("", -1))
                if number < last.get(producer, -1):
                    what = f"{message!r} of {producer} at offset {offset} overtaken by a later one"
                    yield Violation("a producer's order is kept", what, event.topic, at)
                last[producer] = max(number, last.get(producer, -1))


def first_deliveries_are_in_order(history: Sequence[Event]) -> Iterator[Violation]:
    """An Exclusive subscription gets no message for the first time after a later one."""
    seen = dict[tuple[str, str], set[int]]()
    last = defaultdict[tuple[str, str], int](int)
    for at, event in enumerate(history):
        if isinstance(event, Subscribed) and event.exclusive:
            seen[event.topic, event.subscription] = set()
        elif isinstance(event, Delivered) and (event.topic, event.subscription) in seen:
            key = (event.topic, event.subscription)
            if event.offset not in seen[key] and event.offset < last[key]:
                what = f"{event.subscription} got offset {event.offset} first after {last[key]}"
                yield Violation("order per topic", what, event.topic, at)
            seen[key].add(event.offset)
            last[key] = max(last[key], event.offset)


def everything_arrives(history: Sequence[Event]) -> Iterator[Violation]:
    """Every subscription gets, at least once, all that is in the log from its start on."""
    last = {event.topic: (at, event) for at, event in enumerate(history) if isinstance(event, LogFound)}
    for event in history:
        if isinstance(event, TopicDeleted):
            last.pop(event.topic, None)
    got = {
        (event.topic, event.subscription, event.offset, event.message)
        for event in history
        if isinstance(event, Delivered)
    }
    for event in history:
        if not isinstance(event, Subscribed) or event.topic not in last:
            continue
        at, log = last[event.topic]
        for offset, message in log.records:
            if offset >= event.start and (event.topic, event.subscription, offset, message) not in got:
                what = f"{event.subscription} never got {message!r} at offset {offset}"
                yield Violation("at least once", what, event.topic, at)


def cursors_cover_what_was_acknowledged(history: Sequence[Event]) -> Iterator[Violation]:
    """A cursor found after a restart is there, and skips nothing that no consumer had acknowledged."""
    done = defaultdict[tuple[str, str], set[int]](set)
    gone = dict[str, range]()
    newest = {event.topic for event in history if isinstance(event, TopicBegun) and event.keeps is Keeps.NEWEST}
    for at, event in enumerate(history):
        match event:
            case LogFound(topic=topic) if topic in newest:
                gone[topic] = range(event.start)
            case Subscribed():
                done[event.topic, event.subscription].update(range(event.start))
            case DeliveryAcknowledged():
                done[event.topic, event.subscription].add(event.offset)
            case CursorFound(cursor=None):
                what = f"{event.subscription} is not known any more"
                yield Violation("a subscription outlives restarts", what, event.topic, at)
            case CursorFound(cursor=Cursor() as cursor):
                covered = [range(cursor.position), *(range(start, end) for start, end in cursor.beyond)]
                skipped = set().union(*covered) - done[event.topic, event.subscription]
                if skipped := skipped.difference(gone.get(event.topic, ())):
                    what = f"the cursor of {event.subscription} skips {_abridged(sorted(skipped))}"
                    yield Violation(CURSORS_ARE_ANSWERED, what, event.topic, at)
            case _:
                pass


def acknowledged_is_not_sent_again(history: Sequence[Event]) -> Iterator[Violation]:
    """Within one life of the broker a consumer does not get again what it has acknowledged."""
    done = set[tuple[str, str, int]]()
    for at, event in enumerate(history):
        match event:
            case Restarted():
                done.clear()
            case DeliveryAcknowledged():
                done.add((event.topic, event.subscription, event.offset))
            case Delivered() if (event.topic, event.subscription, event.offset) in done:
                what = f"{event.subscription} got offset {event.offset} again"
                yield Violation("what was acknowledged is not sent again", what, event.topic, at)
            case _:
                pass


def what_must_work_works(history: Sequence[Event]) -> Iterator[Violation]:
    """Nothing fails without a fault that explains it."""
    for at, event in enumerate(history):
        if isinstance(event, Failed):
            yield Violation("nothing fails without a cause", event.what, event.topic, at)


CHECKERS: tuple[Checker, ...] = (
    what_must_work_works,
    acknowledged_is_kept,
    seen_stays_as_it_was,
    offsets_are_contiguous,
    retention_keeps_what_it_has_to,
    only_what_was_sent_is_stored,
    producers_are_in_order,
    first_deliveries_are_in_order,
    everything_arrives,
    cursors_cover_what_was_acknowledged,
    acknowledged_is_not_sent_again,
)


AFTER_LOSS: tuple[Checker, ...] = (
    what_must_work_works,
    only_what_was_sent_is_stored,
    producers_are_in_order,
    everything_arrives,
)
"""Rules that hold when the newest messages are lost: the log is whole, and what is new in it reaches everyone."""


def _difference(offset: int, expected: str, found: str | None) -> str:
    is_now = "is gone" if found is None else f"is now {found!r}"
    return f"{expected!r} at offset {offset} {is_now}"


def _repeated(messages: Sequence[str]) -> list[str]:
    seen = set[str]()
    return [message for message in messages if message in seen or seen.add(message)]  # type: ignore[func-returns-value]


def _abridged(offsets: Sequence[int]) -> str:
    shown = ", ".join(map(str, offsets[:8]))
    return shown if len(offsets) <= 8 else f"{shown}, ... ({len(offsets)} in all)"
