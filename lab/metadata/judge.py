"""Rules for the answers of a metadata store, read from the history of a round. Pure."""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise

from danube.metadata.store import Changed, Delete, Entry, Put, Removed, SnapshotEnd
from lab.kernel.judge import Violation
from lab.linearizability.checker import STEPS_MAX, check
from lab.linearizability.history import Call, Change, Expiry, Operation, Read, settle_seen
from lab.linearizability.recorder import History, LocalRead, Watched, life_of

PROMISES = (
    "linearizable",
    "revisions",
    "agreement",
    "local reads",
    "watches",
    "leases",
    "counter",
    "transactions",
    "durable",
    "answers",
)
"""Promises: no order explains the answers; a later change has a lower revision; two were told differently of
one revision; a member's own answers go back, or lack what was written through it; a watch lacks a change or tells one
twice; a lease ended early or not at all; a counter lost or gained; keys of one transaction differ; what stood after the
round before is not there any more; a store did not answer once everything was well again."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """The verdict on a round."""

    violations: Sequence[Violation]
    undecided: Sequence[str]  # keys on which it was not decided whether an order explains all
    steps: int


@dataclass(slots=True)
class Told:
    """Everything that anyone was told of what a revision did to a key."""

    values: dict[tuple[str, int], bytes | None] = field(default_factory=dict)  # None for a removal
    contradictions: list[str] = field(default_factory=list)

    def add(self, key: str, revision: int, value: bytes | None) -> None:
        known = self.values.setdefault((key, revision), value)
        if known != value:
            self.contradictions.append(f"revision {revision} of {key} was {known!r} to one and {value!r} to another")


def judge(history: History, *, steps_max: int = STEPS_MAX) -> Judgement:
    """Every promise that was broken."""
    # Leases that nobody kept any more may have ended at any time after that.
    expiries = (Operation(Expiry(one.key, one.lease_id), one.client, one.until_s) for one in history.leases)
    operations = [*history.operations, *expiries]
    told = _told(history, operations)
    verdict = check(settle_seen(operations, _revision_by_value(told)), steps_max=steps_max)
    violations = [
        *(Violation("linearizable", str(refusal)) for refusal in verdict.refusals),
        *_of("revisions", _out_of_order(operations)),
        *_of("agreement", told.contradictions),
        *_of("agreement", _twice(told)),
        *_of("agreement", _from_nowhere(told, operations)),
        *_of("local reads", _backwards(history.local_reads, operations)),
        *_of("watches", (what for watched in history.watches for what in _misled(watched, told, operations))),
        *_of("counter", _miscounted(operations)),
        *(Violation(promise, what) for promise, what in history.noted),
    ]
    return Judgement(violations, verdict.undecided, verdict.steps)


def _of(promise: str, found: Iterable[str]) -> Iterator[Violation]:
    return (Violation(promise, what) for what in found)


# What everybody was told


def _told(history: History, operations: Sequence[Operation]) -> Told:
    told = Told()
    for operation in operations:
        match operation.call:
            case Read(_, found):
                _tell_all(told, found)
            case Change(_, writes, revision) if revision is not None:
                for write in writes:
                    if isinstance(write, Put):
                        told.add(write.key, revision, write.value)
    _tell_all(told, (read.found for read in history.local_reads))
    for watched in history.watches:
        for event in watched.events:
            if isinstance(event, Changed):
                _tell_all(told, [event.entry])
            elif isinstance(event, Removed):
                told.add(event.key, event.revision, None)
    return told


def _tell_all(told: Told, entries: Iterable[Entry | None]) -> None:
    for entry in entries:
        if entry is not None:
            told.add(entry.key, entry.revision, entry.value)


def _revision_by_value(told: Told) -> dict[bytes, int]:
    return {value: revision for (_, revision), value in told.values.items() if value is not None}


def _twice(told: Told) -> Iterator[str]:
    """Values are unique: one that two revisions have was put twice."""
    first: dict[bytes, int] = {}
    for (key, revision), value in told.values.items():
        if value is not None and first.setdefault(value, revision) != revision:
            yield f"{value!r} was put into {key} once, and has the revisions {first[value]} and {revision}"


def _from_nowhere(told: Told, operations: Sequence[Operation]) -> Iterator[str]:
    changes = (operation.call for operation in operations if isinstance(operation.call, Change))
    put = {write.value for change in changes for write in change.writes if isinstance(write, Put)}
    for (key, revision), value in told.values.items():
        if value is not None and value not in put:
            yield f"{key} had {value!r} at revision {revision}, which nobody put there but calls that failed for sure"


# Order in time


def _out_of_order(operations: Sequence[Operation]) -> Iterator[str]:
    """A call that begins after the answer to another one gets a later revision, whatever their keys."""
    settled = [(one, revision) for one in operations if one.is_settled and (revision := _newest_told(one.call))]
    returns = sorted((one.returned_s, revision) for one, revision in settled)
    highest = _running_max(returns)
    for one in sorted((one for one, _ in settled), key=lambda one: one.called_s):
        if not isinstance(one.call, Change) or not any(isinstance(write, Put) for write in one.call.writes):
            continue
        before = bisect_right(returns, (one.called_s, 0))
        newest = highest[before - 1] if before else 0
        if one.call.revision is not None and one.call.revision <= newest:
            yield f"{one.client}: {one.call}, after revision {newest} had been answered"


def _newest_told(call: Call) -> int:
    match call:
        case Change(revision=int() as revision):
            return revision
        case Read(_, found):
            return max((entry.revision for entry in found if entry), default=0)
        case _:
            return 0


def _running_max(returns: Sequence[tuple[float, int]]) -> list[int]:
    return list(accumulate((revision for _, revision in returns), max))


def _backwards(reads: Sequence[LocalRead], operations: Sequence[Operation]) -> Iterator[str]:
    """Local reads of each life of each member, key by key."""
    known = defaultdict[tuple[str, str], list[tuple[float, int]]](list)
    for operation in operations:
        if operation.is_settled:
            for key, revision in _known_by(operation.call):
                known[life_of(operation.client), key].append((operation.returned_s, revision))
    removals = _removals(operations)
    by_place = defaultdict[tuple[str, str], list[LocalRead]](list)
    for read in reads:
        by_place[read.life, read.key].append(read)
    for place, here in by_place.items():
        yield from _backwards_at(here, known[place], removals[place[1]])


def _known_by(call: Call) -> Iterator[tuple[str, int]]:
    """Keys and revisions that a member knows once it has answered this."""
    match call:
        case Read(_, found):
            yield from ((entry.key, entry.revision) for entry in found if entry)
        case Change(_, writes, revision) if revision is not None:
            yield from ((write.key, revision) for write in writes if isinstance(write, Put))
        case _:
            pass


def _removals(operations: Sequence[Operation]) -> defaultdict[str, list[Operation]]:
    removals = defaultdict[str, list[Operation]](list)
    for operation in operations:
        match operation.call:
            case Expiry(key):
                removals[key].append(operation)
            case Change(_, writes):
                for write in writes:
                    if isinstance(write, Delete):
                        removals[write.key].append(operation)
            case _:
                pass
    return removals


def _backwards_at(
    reads: Sequence[LocalRead], known: list[tuple[float, int]], removals: Sequence[Operation]
) -> Iterator[str]:
    told = sorted([*known, *((read.returned_s, read.found.revision) for read in reads if read.found)])
    at = [returned_s for returned_s, _ in told]
    highest = _running_max(told)
    gone: list[tuple[float, int]] = []
    for read in sorted(reads, key=lambda one: one.returned_s):
        before = bisect_right(at, read.called_s)
        floor = highest[before - 1] if before else 0
        if read.found is None:
            if floor and not any(one.called_s < read.returned_s for one in removals):
                yield f"{read}, after revision {floor} was known there and nobody removed it"
            gone.append((read.returned_s, floor))
        elif read.found.revision < floor:
            yield f"{read}, after revision {floor} was known there"
        elif any(at_s < read.called_s and read.found.revision <= revision for at_s, revision in gone):
            yield f"{read}, after it had been gone"


# Watches


def _misled(watched: Watched, told: Told, operations: Sequence[Operation]) -> Iterator[str]:
    """A snapshot, then all changes after it, each once and in order; after a `Resync` the same again."""
    removed = _removed_at_unknown_revisions(told, operations)
    snapshot: dict[str, int] = {}
    after: int | None = None
    live: list[tuple[int, str]] = []
    for event in watched.events:
        match event:
            case SnapshotEnd(revision):
                yield from _of_watch(watched, _wrong_snapshot(snapshot, revision, told, removed))
                after = revision
            case Changed(entry) if after is None:
                snapshot[entry.key] = entry.revision
            case Changed(entry):
                live.append((entry.revision, entry.key))
            case Removed(key, revision):
                live.append((revision, key))
            case _:
                yield from _of_watch(watched, _wrong_changes(live, after, told))
                snapshot, after, live = {}, None, []
    yield from _of_watch(watched, _wrong_changes(live, after, told))


def _removed_at_unknown_revisions(told: Told, operations: Sequence[Operation]) -> set[str]:
    """Keys that were removed more often, or may have been, than anyone was told at which revision."""
    known = Counter(key for (key, _), value in told.values.items() if value is None)
    return {key for key, found in _removals(operations).items() if len(found) > known[key]}


def _of_watch(watched: Watched, found: Iterable[str]) -> Iterator[str]:
    return (f"of {watched.prefix} at member {watched.life}: {what}" for what in found)


def _wrong_snapshot(snapshot: Mapping[str, int], at: int, told: Told, removed: set[str]) -> Iterator[str]:
    newest: dict[str, int] = {}
    for key, revision in told.values:
        if revision <= at:
            newest[key] = max(newest.get(key, 0), revision)
    for key, revision in snapshot.items():
        if revision > at or revision < newest.get(key, 0):
            yield f"the snapshot at {at} has {key} at {revision}, not at {newest.get(key)}"
    for key, revision in newest.items():
        if key not in snapshot and key not in removed and told.values[key, revision] is not None:
            yield f"the snapshot at {at} lacks {key}, which had revision {revision}"


def _wrong_changes(live: Sequence[tuple[int, str]], after: int | None, told: Told) -> Iterator[str]:
    if after is None or not live:
        return
    for one, other in pairwise(live):
        if one >= other:
            yield f"{other} was told after {one}"
    if live[0][0] <= after:
        yield f"{live[0]} was told after the snapshot at {after}"
    seen, last = set(live), live[-1][0]
    for key, revision in sorted(told.values, key=lambda one: one[1]):
        if after < revision < last and (revision, key) not in seen:
            yield f"the change of {key} at revision {revision} was not told"


# Counters


def _miscounted(operations: Sequence[Operation]) -> Iterator[str]:
    """A counter is as high as it was counted up, give or take what is unknown."""
    sure, unknown, last = defaultdict[str, int](int), defaultdict[str, int](int), dict[str, Operation]()
    for one in operations:
        match one.call:
            case Change(_, (Put(key),)) if key.endswith("/counter"):
                (sure if one.is_settled else unknown)[key] += 1
            case Read((key,)) if key.endswith("/counter") and one.is_settled:
                last[key] = max(one, last.get(key, one), key=lambda each: each.called_s)
            case _:
                pass
    for key, one in last.items():
        entry = one.call.found[0] if isinstance(one.call, Read) else None
        counted = int(entry.value.partition(b":")[0]) if entry else 0
        if not sure[key] <= counted <= sure[key] + unknown[key]:
            yield f"{key} stands at {counted}, after {sure[key]} sure and {unknown[key]} unknown increments"
