"""Rules for a round of the soak, read from the reports of programs and from the topics afterwards. Pure.

An identity is a producer and the number of its message. Producers have other names in every round.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lab.kernel.judge import Violation
from lab.soak.load import key_of
from lab.soak.plan import REPORTED_S, LoadedTopic, kind_of

PROMISES = ("lost", "changed", "gaps", "disorder", "again", "undelivered", "duplicates", "failed")
"""Promises: a message that was acknowledged is gone, or another one is at its offset; offsets have a gap; a
producer's messages or a subscription's first deliveries are out of order; what was acknowledged came again after all;
a subscription never got a message; one is there twice in spite of de-duplication; something failed without a cause."""

Identity = tuple[str, int]
Span = tuple[float, float]  # from and to, in monotonic seconds
SHOWN = 5  # offsets named in a sentence


@dataclass(slots=True)
class Delivered:
    """Deliveries to one subscription in a round."""

    got: list[tuple[int, Identity]] = field(default_factory=list)
    """Offset and message, in the order in which they came."""
    confirmed: dict[int, float] = field(default_factory=dict)
    """By offset: when the broker had answered its acknowledgement, at the latest; monotonic seconds."""
    came: dict[int, float] = field(default_factory=dict)
    """By offset: before when it cannot have come, for the last time. A client's queue keeps what came while the
    application waits for its acknowledgements, through a restart of the broker too."""
    repeated: dict[int, float] = field(default_factory=dict)
    """By offset, for those that came more than once: when they had come for the last time, at the latest."""

    def take(self, messages: Iterable[tuple[int, str, int, float]], at_s: float) -> None:
        """Note what came, in that order: offset, producer, number, and before when it cannot have come."""
        for offset, producer, number, not_before_s in messages:
            self.got.append((offset, (producer, number)))
            if offset in self.came:
                self.repeated[offset] = at_s
            self.came[offset] = not_before_s


@dataclass(slots=True)
class Reports:
    """Reports of a round's programs, fed line by line."""

    sent: dict[str, int] = field(default_factory=dict)
    stored: set[Identity] = field(default_factory=set)
    at_offset: dict[str, dict[int, Identity]] = field(default_factory=lambda: defaultdict(dict))
    """By topic: where the broker said that it stored what."""
    delivered: dict[str, Delivered] = field(default_factory=lambda: defaultdict(Delivered))
    """By topic and subscription."""
    given_up: int = 0

    def add(self, text: str, topic_of: Mapping[str, str]) -> None:
        """Take in a line. Raises ValueError for one that is not whole."""
        line: dict[str, Any] = json.loads(text)
        self.sent.update(line["sent"])
        self.given_up += line["given_up"]
        for producer, numbers in line["stored"].items():
            self.stored.update((producer, number) for number in numbers)
        for producer, ranges in line["ranges"].items():
            for first, offset, count in ranges:
                self._note_range(producer, topic_of[producer], range(first, first + count), offset)
        for of, messages in line["got"].items():
            self.delivered[of].take(messages, line["at"])
        for of, offsets in line["confirmed"].items():
            self.delivered[of].confirmed.update(dict.fromkeys(offsets, line["at"]))

    def _note_range(self, producer: str, topic: str, numbers: range, first_offset: int) -> None:
        self.stored.update((producer, number) for number in numbers)
        self.at_offset[topic].update((first_offset + i, (producer, number)) for i, number in enumerate(numbers))


@dataclass(slots=True)
class Known:
    """One topic as earlier rounds found it."""

    log: dict[int, Identity] = field(default_factory=dict)  # what it holds by offset
    drained_to: dict[str, int] = field(default_factory=dict)
    """By subscription: all below was delivered, and its acknowledgement confirmed."""

    @classmethod
    def of(cls, plain: Mapping[str, Any] | None) -> "Known":
        """The value that `as_json` encoded; an empty one for None."""
        return cls() if plain is None else cls({at: (who, n) for at, who, n in plain["log"]}, plain["drained_to"])

    def as_json(self) -> dict[str, Any]:
        log = [(offset, *identity) for offset, identity in self.log.items()]
        return {"log": log, "drained_to": self.drained_to}


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """All that a topic held after a round."""

    start: int
    records: Sequence[tuple[int, Identity]]  # in the order in which they were read

    @property
    def end(self) -> int:
        return self.records[-1][0] + 1 if self.records else self.start


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One topic after one round."""

    topic: LoadedTopic
    known: Known
    loaded: Reports  # of the programs that loaded it
    drained: Reports  # of who took what was left, afterwards
    found: Found
    forgettable: Sequence[Span] | None
    """When the broker was near its death: what was confirmed then may come again; None when that is not known."""
    deaths: Sequence[float] = ()  # when it ended, killed or told to; monotonic seconds

    def got(self, subscription: str) -> list[tuple[int, Identity]]:
        """Offsets and messages of a subscription, in the order in which they came."""
        of = f"{self.topic.topic} {subscription}"
        return [*self.loaded.delivered[of].got, *self.drained.delivered[of].got]


def judge(case: Case) -> list[Violation]:
    """Every promise that was broken on this topic."""
    return [violation for judgement in _JUDGEMENTS for violation in judgement(case)]


def afterwards(case: Case) -> Known:
    """The topic as the next round knows it."""
    return Known(dict(case.found.records), {one.name: case.found.end for one in case.topic.subscriptions})


def again(case: Case) -> int:
    """Count of messages that came more than once to a subscription, for whatever reason: allowed."""
    rows = [case.got(one.name) for one in case.topic.subscriptions]
    return sum(len(got) - len({offset for offset, _ in got}) for got in rows)


def stored_twice(case: Case) -> int:
    """Count of sends without an answer that were made again and are there twice: allowed without de-duplication."""
    names = {producer.name for producer in case.topic.producers}
    identities = [identity for _, identity in case.found.records if identity[0] in names]
    return len(identities) - len(set(identities))


def _offsets_are_contiguous(case: Case) -> Iterator[Violation]:
    offsets = [offset for offset, _ in case.found.records]
    expected = range(case.found.start, case.found.start + len(offsets))
    wrong = [offset for offset, wanted in zip(offsets, expected, strict=True) if offset != wanted]
    yield from _of(case, "gaps", wrong, "the offsets that were read have a gap or are out of order from")


def _what_was_acknowledged_is_there(case: Case) -> Iterator[Violation]:
    """Or it was let go by retention, and then every subscription had it."""
    names = {producer.name for producer in case.topic.producers}
    there = {identity for _, identity in case.found.records}
    for one in case.topic.subscriptions:
        there.update(identity for offset, identity in case.got(one.name) if offset < case.found.start)
    told = case.loaded.at_offset[case.topic.topic].items()
    there.update(identity for offset, identity in told if offset < case.found.start)
    missing = sorted(identity for identity in case.loaded.stored if identity[0] in names and identity not in there)
    yield from _of(case, "lost", missing, "acknowledged and not there:")


def _nothing_changes(case: Case) -> Iterator[Violation]:
    log = dict(case.found.records)
    seen = [*case.known.log.items(), *case.loaded.at_offset[case.topic.topic].items()]
    for one in case.topic.subscriptions:
        seen += case.got(one.name)
    first: dict[int, Identity] = {}
    wrong = [
        (offset, identity)
        for offset, identity in seen
        if log.get(offset, identity) != identity or first.setdefault(offset, identity) != identity
    ]
    yield from _of(case, "changed", wrong, "not what is there now:")
    gone = [offset for offset, _ in seen if offset >= case.found.end]
    yield from _of(case, "lost", gone, "seen before and not there any more, at offset")
    damaged = [(offset, text) for offset, (text, number) in case.found.records if number < 0]
    yield from _of(case, "changed", damaged, "not what any producer sent:")


def _producers_are_in_order(case: Case) -> Iterator[Violation]:
    last: dict[str, int] = {}
    seen: set[Identity] = set()
    overtaken: list[tuple[int, Identity]] = []
    for offset, identity in case.found.records:
        producer, number = identity
        if identity not in seen and number < last.get(producer, -1):
            overtaken.append((offset, identity))
        seen.add(identity)
        last[producer] = max(number, last.get(producer, -1))
    yield from _of(case, "disorder", overtaken, "overtaken in the log by a later message of the same producer:")


def _numbered_batches_are_stored_once(case: Case) -> Iterator[Violation]:
    seen: set[Identity] = set()
    twice: list[tuple[int, Identity]] = []
    for offset, identity in case.found.records:
        if identity in seen and kind_of(identity[0]) == "many":
            twice.append((offset, identity))
        seen.add(identity)
    yield from _of(case, "duplicates", twice, "stored twice in spite of de-duplication:")


def _first_deliveries_are_in_order(case: Case) -> Iterator[Violation]:
    for one in case.topic.subscriptions:
        if one.kind == "SHARED":
            continue
        late: list[int] = []
        last: dict[str, int] = {}
        seen: set[int] = set()
        for offset, identity in case.got(one.name):
            lane = _lane(identity) if one.kind == "KEY_SHARED" else ""
            if lane is None or offset in seen or offset < case.known.drained_to.get(one.name, 0):
                continue
            if offset < last.get(lane, -1):
                late.append(offset)
            seen.add(offset)
            last[lane] = max(offset, last.get(lane, -1))
        yield from _of(case, "disorder", late, f"{one.name} got it for the first time after a later one: offset")


def _lane(identity: Identity) -> str | None:
    """The messages that are in order among themselves on a Key-Shared subscription; None for no others."""
    return key_of(identity[1]) if kind_of(identity[0]) == "keyed" else None


def _everything_arrives(case: Case) -> Iterator[Violation]:
    for one in case.topic.subscriptions:
        got = {offset for offset, _ in case.got(one.name)}
        owed = range(case.known.drained_to.get(one.name, 0), case.found.end)
        missing = [offset for offset in owed if offset not in got]
        yield from _of(case, "undelivered", missing, f"{one.name} never got offset")


def _what_was_confirmed_does_not_come_again(case: Case) -> Iterator[Violation]:
    """But for the last moments before a death: a cursor takes a while to be durable.

    What came another time has to be acknowledged another time: an acknowledgement that was on its way when the broker
    went is answered by the next one, which has not sent that message again yet, and has no effect.
    """
    if case.forgettable is None:
        return
    for one in case.topic.subscriptions:
        settled, of = case.known.drained_to.get(one.name, 0), f"{case.topic.topic} {one.name}"
        old = [offset for offset, _ in case.got(one.name) if offset < settled]
        yield from _of(case, "again", old, f"{one.name} acknowledged it in an earlier round and got it again: offset")
        loaded, drained = case.loaded.delivered[of], case.drained.delivered[of].got
        settled_s = {offset: _settled_s(loaded, offset, case.deaths) for offset, _ in drained}
        late = [offset for offset, at_s in settled_s.items() if not _may_come_again(at_s, case.forgettable)]
        yield from _of(case, "again", late, f"{one.name} acknowledged it well before and got it again: offset")


def _settled_s(loaded: Delivered, offset: int, deaths: Sequence[float]) -> float | None:
    """When its last delivery was acknowledged, to the broker that made it; None when nobody can say so."""
    confirmed_s = loaded.confirmed.get(offset)
    if confirmed_s is None or loaded.repeated.get(offset, confirmed_s - 1.0) >= confirmed_s:
        return None
    # it may have left the old broker and come after its end: through the system's buffers and the application's loop
    sent_s = loaded.came.get(offset, confirmed_s) - REPORTED_S
    return None if any(sent_s <= death_s <= confirmed_s for death_s in deaths) else confirmed_s


def _may_come_again(confirmed_s: float | None, forgettable: Sequence[Span]) -> bool:
    return confirmed_s is None or any(start_s <= confirmed_s <= end_s for start_s, end_s in forgettable)


def _of(case: Case, promise: str, wrong: Sequence[object], what: str) -> Iterator[Violation]:
    if not wrong:
        return
    shown = ", ".join(map(str, wrong[:SHOWN]))
    more = f" and {len(wrong) - SHOWN} more" if len(wrong) > SHOWN else ""
    yield Violation(promise, f"{case.topic.topic}: {what} {shown}{more}", count=len(wrong))


_JUDGEMENTS = (
    _offsets_are_contiguous,
    _what_was_acknowledged_is_there,
    _nothing_changes,
    _producers_are_in_order,
    _numbered_batches_are_stored_once,
    _first_deliveries_are_in_order,
    _everything_arrives,
    _what_was_confirmed_does_not_come_again,
)
