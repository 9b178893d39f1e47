"""Linearizability checker for histories of concurrent operations, after Wing, Gong and Lowe. Pure.

A history is linearizable if each operation can be given one moment between its call and its return so that a
sequential model, taking the operations in the order of these moments, gives the answers that were given. An operation
whose outcome nobody knows may have its moment at any time after its call, or none. One that surely had no effect is
left out.

The search goes from return to return: what returns next must have had its moment, and so may anything else that is
under way. A configuration that was seen before (the model's state, and who of those under way had its moment) is not
looked into again. After Wing and Gong, "Testing and Verifying Concurrent Objects" (1993), and Lowe, "Testing for
linearizability" (2017). Three things keep it small: operations that share no key are judged apart (linearizability is
local); one that only reads has its moment as soon as its answer fits, since nothing can depend on it; of unknown
outcomes that are alike the earliest goes first.

Deciding this is NP-complete in general, so the search is bounded by its steps, and says `UNDECIDED` past them.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from lab.linearizability.history import MODEL, Operation, Register

STEPS_MAX = 200_000  # configurations looked into for one group of keys: some seconds
SHRINK_CHECKS_MAX = 400  # attempts to leave operations out of what cannot be ordered
SHOWN_MAX = 24  # operations that a refusal is printed with: the last ones


Configuration = tuple[int, Register, frozenset[int]]
"""Returns that are explained, the model's state, and the operations under way that had their moment."""


class Decision(Enum):
    """The end of a check."""

    LINEARIZABLE = "linearizable"
    REFUSED = "not linearizable"
    UNDECIDED = "undecided"


class Search:
    """The search for an order of one group's operations."""

    def __init__(self, operations: Sequence[Operation], steps_max: int) -> None:
        known = (one for one in operations if one.is_settled or not MODEL.only_reads(one.call))
        self._operations = sorted(known, key=lambda one: (one.returned_s, one.called_s))
        self._settled = sum(1 for one in self._operations if one.is_settled)
        self._reads = [MODEL.only_reads(one.call) for one in self._operations]
        self._likeness = [None if one.is_settled else MODEL.likeness(one.call) for one in self._operations]
        self._under_way = self._who_is_under_way()
        self._steps_max = steps_max
        self.steps = 0  # configurations looked into
        self.stuck = 0  # how many returns were explained at most

    def run(self) -> Decision:
        """Look for an order, depth first."""
        todo: list[Configuration] = [(0, MODEL.initial(), frozenset())]
        seen: set[Configuration] = set()
        while todo:
            position, state, placed = self._read(*todo.pop())
            if position == self._settled:
                return Decision.LINEARIZABLE
            if (position, state, placed) in seen:
                continue
            seen.add((position, state, placed))
            self.steps += 1
            if self.steps > self._steps_max:
                return Decision.UNDECIDED
            self.stuck = max(self.stuck, position)
            todo += self._next(position, state, placed)
        return Decision.REFUSED

    def operations_to_stuck(self) -> list[Operation]:
        """Operations called before the first return that no order reaches; that one is the last."""
        stuck = self._operations[self.stuck]
        return [one for one in self._operations if one.called_s <= stuck.returned_s and one != stuck] + [stuck]

    def _who_is_under_way(self) -> list[list[int]]:
        """For each return, who may have its moment before it: those with the earliest return first."""
        by_call = sorted(range(len(self._operations)), key=lambda i: self._operations[i].called_s)
        under_way: list[list[int]] = []
        current, called = set[int](), 0
        for position in range(self._settled):
            returned_s = self._operations[position].returned_s
            while called < len(by_call) and self._operations[by_call[called]].called_s <= returned_s:
                current.add(by_call[called])
                called += 1
            under_way.append(sorted(current))
            current.discard(position)
        return under_way

    def _read(self, position: int, state: Register, placed: frozenset[int]) -> Configuration:
        """Place every read that fits, and go on to the next return that is not explained."""
        while position < self._settled:
            fitting = [i for i in self._under_way[position] if self._fits(i, state, placed)]
            placed = placed.union(fitting)
            if position not in placed:
                break
            placed -= {position}
            position += 1
        return position, state, placed

    def _fits(self, index: int, state: Register, placed: frozenset[int]) -> bool:
        if not self._reads[index] or index in placed:
            return False
        return MODEL.step(state, self._operations[index].call) is not None

    def _next(self, position: int, state: Register, placed: frozenset[int]) -> Iterator[Configuration]:
        """Every way to go on; the likeliest is taken first, so it comes last."""
        tried = set[Hashable]()
        ways = []
        for index in self._under_way[position]:
            if index in placed or self._reads[index]:
                continue
            likeness = self._likeness[index]
            if likeness is not None:
                if likeness in tried:
                    continue
                tried.add(likeness)
            after = MODEL.step(state, self._operations[index].call)
            if after is not None:
                ways.append((position, after, placed | {index}))
        return reversed(ways)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Operations that no order explains. None of them can be left out without making the others possible."""

    keys: Sequence[str]
    operations: Sequence[Operation]  # by the time of their call
    stuck: Operation  # the one by whose return every order had failed

    def __str__(self) -> str:
        origin_s = min(operation.called_s for operation in self.operations)
        lines = [f"no order explains these operations on {', '.join(self.keys)}:"]
        if len(self.operations) > SHOWN_MAX:
            lines.append(f"  ({len(self.operations) - SHOWN_MAX} earlier ones)")
        for operation in self.operations[-SHOWN_MAX:]:
            mark = ">" if operation == self.stuck else " "
            lines.append(f"{mark} {_span(operation, origin_s)}  {operation.client:<12} {operation.call}")
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The decision over all groups of keys."""

    decision: Decision
    steps: int
    refusals: Sequence[Refusal] = ()
    undecided: Sequence[str] = ()  # the keys that were not decided on


def check(history: Sequence[Operation], *, steps_max: int = STEPS_MAX) -> Verdict:
    """Judge a history; `steps_max` is for each group of keys that belong together."""
    steps, refusals, undecided = 0, list[Refusal](), list[str]()
    for keys, operations in groups(history):
        search = Search(operations, steps_max)
        decision = search.run()
        steps += search.steps
        if decision is Decision.UNDECIDED:
            undecided += keys
        elif decision is Decision.REFUSED:
            refusals.append(_explain(keys, search.operations_to_stuck(), steps_max))
    decision = Decision.UNDECIDED if undecided else Decision.LINEARIZABLE
    return Verdict(Decision.REFUSED if refusals else decision, steps, refusals, undecided)


def groups(history: Sequence[Operation]) -> Iterator[tuple[Sequence[str], Sequence[Operation]]]:
    """The operations, by keys that belong together."""
    root: dict[str, str] = {}

    def find(key: str) -> str:
        while root.setdefault(key, key) != key:
            key = root[key]
        return key

    for operation in history:
        first, *others = MODEL.keys(operation.call)
        for key in others:
            root[find(key)] = find(first)
    by_root, keys = defaultdict[str, list[Operation]](list), defaultdict[str, set[str]](set)
    for operation in history:
        touched = MODEL.keys(operation.call)
        by_root[find(touched[0])].append(operation)
        keys[find(touched[0])].update(touched)
    for name, operations in sorted(by_root.items()):
        yield sorted(keys[name]), operations


def _explain(keys: Sequence[str], operations: Sequence[Operation], steps_max: int) -> Refusal:
    """Leave out whatever the contradiction does not need. The last of `operations` is the one that is stuck."""
    shrinking = _Shrinking(operations, steps_max)
    shrinking.weaken()
    shrinking.leave_out(reads_only=True)
    shrinking.leave_out(reads_only=False)
    kept = sorted(shrinking.kept, key=lambda index: operations[index].called_s)
    touched = {key for index in kept for key in MODEL.keys(operations[index].call)}
    stuck = max(kept, key=lambda index: operations[index].returned_s)
    return Refusal([key for key in keys if key in touched], [operations[index] for index in kept], operations[stuck])


class _Shrinking:
    """Looks for few operations that contradict each other.

    An operation may be left out if none that is kept saw a trace of it: every order of all is one of the rest, too.
    """

    def __init__(self, operations: Sequence[Operation], steps_max: int) -> None:
        self._operations = list(operations)
        self._steps_max = steps_max
        self._checks = 0
        self.kept = list(range(len(operations)))

    def weaken(self) -> None:
        weaker = [replace(one, call=MODEL.weaker(one.call)) for one in self._operations]
        if self._is_refused(weaker):
            self._operations = weaker

    def leave_out(self, *, reads_only: bool) -> None:
        """Leave out runs of operations, long ones first."""
        length = len(self.kept)
        while length:
            for run in self._runs(length, reads_only=reads_only):
                self._try_without(run)
            length = length // 2 if length > 1 else 0

    def _runs(self, length: int, *, reads_only: bool) -> Sequence[set[int]]:
        wanted = [i for i in self.kept if not reads_only or MODEL.only_reads(self._operations[i].call)]
        return [set(wanted[start : start + length]) for start in range(0, len(wanted), length)]

    def _try_without(self, run: set[int]) -> None:
        kept = self._closed([index for index in self.kept if index not in run], run)
        if len(kept) == len(self.kept) or self._checks == SHRINK_CHECKS_MAX:
            return
        self._checks += 1
        if self._is_refused([self._operations[index] for index in kept]):
            self.kept = kept

    def _closed(self, kept: list[int], out: set[int]) -> list[int]:
        seen: set[Hashable] = set().union(*(MODEL.sees(self._operations[index].call) for index in kept))
        back = set[int]()
        while needed := [i for i in out - back if not seen.isdisjoint(MODEL.leaves(self._operations[i].call))]:
            back.update(needed)
            seen.update(*(MODEL.sees(self._operations[index].call) for index in needed))
        return sorted([*kept, *back])

    def _is_refused(self, operations: Sequence[Operation]) -> bool:
        return bool(operations) and Search(operations, self._steps_max).run() is Decision.REFUSED


def _span(operation: Operation, origin_s: float) -> str:
    end = f"{(operation.returned_s - origin_s) * 1e3:10.3f}" if operation.is_settled else "         ?"
    return f"{(operation.called_s - origin_s) * 1e3:10.3f} ..{end} ms"
