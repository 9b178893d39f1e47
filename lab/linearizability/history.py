"""Calls of the clients of a metadata store with their answers, and their meaning: a register for each key.

All that changes a key is a `Change`: a put, a compare-and-set, a delete, a transaction. Keys that are changed or read
together are judged together. Values are unique, so an unknown outcome is known when anyone has seen its value, and has
the revision that it was seen with; `settle_seen` finds these before the search.
"""

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from danube.metadata.store import Condition, Delete, Entry, Put

UNSEEN = -1  # the revision of a change that nobody was told of: no condition holds on it
ANY = -2  # a creation that is not looked at


@dataclass(frozen=True, slots=True)
class Read:
    """A linearizable read, and its answer: an entry or None for each of the keys."""

    wanted: tuple[str, ...]
    found: tuple[Entry | None, ...]

    def __str__(self) -> str:
        return "read " + ", ".join(
            f"{key} -> {_shown(entry)}" for key, entry in zip(self.wanted, self.found, strict=True)
        )


@dataclass(frozen=True, slots=True)
class Change:
    """A transaction that was applied, as far as is known."""

    conditions: tuple[Condition, ...]
    writes: tuple[Put | Delete, ...]
    revision: int | None = None  # the store's after it; None when it was not told

    def __str__(self) -> str:
        asked = [f"{one.key} at {one.revision}" for one in self.conditions]
        done = [
            f"put {one.key} = {one.value.decode(errors='replace')}" if isinstance(one, Put) else f"delete {one.key}"
            for one in self.writes
        ]
        told = f" -> revision {self.revision}" if self.revision is not None else ""
        return ", ".join(done) + (f" if {', '.join(asked)}" if asked else "") + told


@dataclass(frozen=True, slots=True)
class Refused:
    """A transaction that was refused because a condition failed."""

    conditions: tuple[Condition, ...]

    def __str__(self) -> str:
        return "refused, not " + " and ".join(f"{one.key} at {one.revision}" for one in self.conditions)


@dataclass(frozen=True, slots=True)
class Expiry:
    """The end of a lease that lost its holder, or was ended: the key goes if it still lives by that lease."""

    key: str
    lease_id: int

    def __str__(self) -> str:
        return f"end of lease {self.lease_id}, by which {self.key} lives"


Call: TypeAlias = Read | Change | Refused | Expiry
Cell: TypeAlias = tuple[bytes, int, int, int]  # of a key: value, created revision, revision, lease
Register: TypeAlias = tuple[int, tuple[tuple[str, Cell], ...]]
"""The newest revision that was told, and the keys that are there, sorted."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation of a history: a call with its answer, and its time."""

    call: Call
    client: str
    called_s: float
    returned_s: float = math.inf  # infinite where the outcome is unknown

    @property
    def is_settled(self) -> bool:
        return self.returned_s < math.inf


class RegisterModel:
    """The meaning of operations, one after the other, on keys with revisions."""

    def initial(self) -> Register:
        """The state before all of them."""
        return 0, ()

    def step(self, state: Register, call: Call) -> Register | None:
        """The state after the call, or None when it would not have answered so."""
        match call:
            case Read(wanted, found):
                cells = dict(state[1])
                fits = all(_fits(cells.get(key), entry) for key, entry in zip(wanted, found, strict=True))
                return state if fits else None
            case Refused(conditions):
                return None if _hold(state, conditions) else state
            case Expiry(key, lease_id):
                return state[0], tuple((name, cell) for name, cell in state[1] if name != key or cell[3] != lease_id)
            case Change(conditions):
                return _changed(state, call) if _hold(state, conditions) else None

    def keys(self, call: Call) -> Sequence[str]:
        """Keys that it touches: calls that share none, also by way of others, are judged apart."""
        match call:
            case Read(wanted):
                return wanted
            case Refused(conditions):
                return [one.key for one in conditions]
            case Expiry(key):
                return [key]
            case Change(conditions, writes):
                return list(dict.fromkeys([one.key for one in (*conditions, *writes)]))

    def only_reads(self, call: Call) -> bool:
        """True if its answer says that it changed nothing, whatever the state."""
        return isinstance(call, Read | Refused)

    def likeness(self, call: Call) -> Hashable:
        """Equal for calls of unknown outcome that take every state to the same one: unseen values are alike."""
        if not isinstance(call, Change) or call.revision is not None:
            return call
        return call.conditions, tuple((type(one), one.key, getattr(one, "lease_id", 0)) for one in call.writes)

    def leaves(self, call: Call) -> frozenset[Hashable]:
        """The traces that its effect leaves."""
        if not isinstance(call, Change | Expiry):
            return frozenset()
        traces: set[Hashable] = {("touched", key) for key in _written(call)}
        if isinstance(call, Change):
            traces |= {one.value for one in call.writes if isinstance(one, Put)}
            traces |= {("gone", one.key) for one in call.writes if isinstance(one, Delete)}
            traces |= set() if call.revision is None else {call.revision}
        else:
            traces.add(("gone", call.key))
        return frozenset(traces)

    def sees(self, call: Call) -> frozenset[Hashable]:
        """The traces without which it may not have answered so."""
        match call:
            case Read(wanted, found):
                answers = zip(wanted, found, strict=True)
                return frozenset[Hashable]().union(*(_seen(key, entry) for key, entry in answers))
            case Refused(conditions):
                return frozenset(("touched", one.key) for one in conditions)
            case Change(conditions, writes, revision):
                seen: set[Hashable] = {one.revision or ("gone", one.key) for one in conditions}
                if revision is not None:  # which may say that there was nothing to delete
                    seen |= {("gone", one.key) for one in writes if isinstance(one, Delete)}
                return frozenset(seen)
            case Expiry():
                return frozenset()

    def weaker(self, call: Call) -> Call:
        """A change without its conditions, a delete at any revision, a read that does not look at creations."""
        match call:
            case Change(_, writes, revision):
                puts = any(isinstance(one, Put) for one in writes)
                return Change((), writes, revision if puts else None)
            case Read(wanted, found):
                return Read(wanted, tuple(entry and replace(entry, created_revision=ANY) for entry in found))
            case _:
                return call


MODEL = RegisterModel()


def settle_seen(history: Sequence[Operation], seen: Mapping[bytes, int]) -> list[Operation]:
    """Give changes of unknown outcome the revision with which their value was seen; `seen` is by value."""
    return [replace(one, call=_settled(one.call, seen)) if not one.is_settled else one for one in history]


def _settled(call: Call, seen: Mapping[bytes, int]) -> Call:
    if not isinstance(call, Change):
        return call
    found = (seen[one.value] for one in call.writes if isinstance(one, Put) and one.value in seen)
    return replace(call, revision=next(found, None))


def _hold(state: Register, conditions: Iterable[Condition]) -> bool:
    cells = dict(state[1])
    return all((cells[one.key][2] if one.key in cells else 0) == one.revision for one in conditions)


def _changed(state: Register, call: Change) -> Register | None:
    newest, before = state[0], dict(state[1])
    if call.revision is not None and call.revision < newest:
        return None
    revision, after = UNSEEN if call.revision is None else call.revision, dict(before)
    for write in call.writes:
        if isinstance(write, Put):
            created = after[write.key][1] if write.key in after else revision
            after[write.key] = (write.value, created, revision, write.lease_id)
        else:
            after.pop(write.key, None)
    if call.revision == newest and after != before:
        return None  # a change takes a revision of its own
    return max(newest, revision), tuple(sorted(after.items()))


def _fits(cell: Cell | None, entry: Entry | None) -> bool:
    if cell is None or entry is None:
        return cell is None and entry is None
    value, created, revision, lease_id = cell
    if (value, revision, lease_id) != (entry.value, entry.revision, entry.lease_id):
        return False
    return created == UNSEEN or entry.created_revision in {created, ANY}


def _seen(key: str, entry: Entry | None) -> set[Hashable]:
    if entry is None:
        return {("gone", key)}
    seen: set[Hashable] = {entry.value, entry.revision}
    return seen if entry.created_revision == ANY else {*seen, entry.created_revision, ("gone", key)}


def _written(call: Change | Expiry) -> Iterable[str]:
    return [call.key] if isinstance(call, Expiry) else [one.key for one in call.writes]


def _shown(entry: Entry | None) -> str:
    return f"{entry.value.decode(errors='replace')} at {entry.revision}" if entry else "nothing"
