"""The search for one order that explains a history: see `linearizability`, which says what it is for. Pure."""

import math
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Generic, Protocol, TypeVar

C = TypeVar("C")
S = TypeVar("S", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Operation(Generic[C]):
    """One operation of a history."""

    call: C  # what was asked and what was answered, in the model's words
    client: str
    called_s: float
    returned_s: float = math.inf  # infinite where the outcome is unknown

    @property
    def is_settled(self) -> bool:
        return self.returned_s < math.inf


class Model(Protocol[C, S]):
    """The meaning of operations, one after the other."""

    def initial(self) -> S:
        """The state before all of them."""

    def step(self, state: S, call: C) -> S | None:
        """The state after the call, or None when it would not have answered so."""

    def keys(self, call: C) -> Sequence[str]:
        """Keys that it touches: calls that share none, also by way of others, are judged apart."""

    def only_reads(self, call: C) -> bool:
        """True if its answer says that it changed nothing, whatever the state."""

    def likeness(self, call: C) -> Hashable:
        """Equal for calls of unknown outcome that take every state to the same state."""

    def leaves(self, call: C) -> frozenset[Hashable]:
        """The traces that its effect leaves."""

    def sees(self, call: C) -> frozenset[Hashable]:
        """The traces without which it may not have answered so."""

    def weaker(self, call: C) -> C:
        """A call that fits wherever this one does, and needs fewer others to be understood; or the call itself."""


class Decision(Enum):
    """The end of a check."""

    LINEARIZABLE = "linearizable"
    REFUSED = "not linearizable"
    UNDECIDED = "undecided"


class Search(Generic[C, S]):
    """The search for an order of one group's operations."""

    def __init__(self, operations: Sequence[Operation[C]], model: Model[C, S], steps_max: int) -> None:
        known = (one for one in operations if one.is_settled or not model.only_reads(one.call))
        self._operations = sorted(known, key=lambda one: (one.returned_s, one.called_s))
        self._settled = sum(1 for one in self._operations if one.is_settled)
        self._reads = [model.only_reads(one.call) for one in self._operations]
        self._likeness = [None if one.is_settled else model.likeness(one.call) for one in self._operations]
        self._under_way = self._who_is_under_way()
        self._model = model
        self._steps_max = steps_max
        self.steps = 0  # configurations looked into
        self.stuck = 0  # how many returns were explained at most

    def run(self) -> Decision:
        """Look for an order, depth first."""
        todo: list[tuple[int, S, frozenset[int]]] = [(0, self._model.initial(), frozenset())]
        seen: set[tuple[int, S, frozenset[int]]] = set()
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

    def operations_to_stuck(self) -> list[Operation[C]]:
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

    def _read(self, position: int, state: S, placed: frozenset[int]) -> tuple[int, S, frozenset[int]]:
        """Place every read that fits, and go on to the next return that is not explained."""
        while position < self._settled:
            fitting = [i for i in self._under_way[position] if self._fits(i, state, placed)]
            placed = placed.union(fitting)
            if position not in placed:
                break
            placed -= {position}
            position += 1
        return position, state, placed

    def _fits(self, index: int, state: S, placed: frozenset[int]) -> bool:
        if not self._reads[index] or index in placed:
            return False
        return self._model.step(state, self._operations[index].call) is not None

    def _next(self, position: int, state: S, placed: frozenset[int]) -> Iterator[tuple[int, S, frozenset[int]]]:
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
            after = self._model.step(state, self._operations[index].call)
            if after is not None:
                ways.append((position, after, placed | {index}))
        return reversed(ways)
