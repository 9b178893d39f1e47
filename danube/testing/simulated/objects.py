"""An object store in memory that misbehaves by seed: requests that fail, are not answered, or are done late or twice.

A `FaultyObjects` is one process's way to a store that several share. After `kill` nothing of it reaches the store.
"""

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from danube.objects.store import ObjectInfo, ObjectStore, StoreBusyError, Tagged, joined
from danube.runtime.disk import Buffer
from danube.testing.simulated.disk import MachineOffError

T = TypeVar("T")


@dataclass(slots=True)
class Faults:
    """Shares of all requests."""

    refused: float = 0.0
    """SlowDown: not done."""
    unanswered: float = 0.0
    """Done, and the answer is lost."""
    late: float = 0.0
    """Writes that fail first and are done at some later request: what a proxy sends again on its own."""


class FaultyObjects:
    """An `ObjectStore` over one that others use, too."""

    def __init__(self, store: ObjectStore, chance: random.Random, faults: Faults | None = None) -> None:
        self.store = store
        self.faults = faults or Faults()
        self.is_down = False
        """True for an endpoint that is gone."""
        self.requests = 0
        self._chance = chance
        self._off = False
        self._late: list[Callable[[], None]] = []

    def kill(self) -> None:
        """End this process; what it sent and was not done may still be done, by `deliver_late`."""
        self._off = True

    def deliver_late(self) -> None:
        """Do all writes that are under way somewhere."""
        late, self._late = self._late, []
        for write in late:
            try:
                write()
            except OSError:  # as the store answers it, to nobody
                continue

    def get(self, name: str, position: int = 0, length: int | None = None) -> bytes:
        return self._ask(lambda: self.store.get(name, position, length))

    def get_tagged(self, name: str) -> Tagged:
        return self._ask(lambda: self.store.get_tagged(name))

    def put(self, name: str, chunks: Sequence[Buffer]) -> None:
        data = joined(chunks)
        self._write(lambda: self.store.put(name, [data]), is_late=False)

    def put_if_absent(self, name: str, chunks: Sequence[Buffer]) -> None:
        data = joined(chunks)
        self._write(lambda: self.store.put_if_absent(name, [data]), is_late=True)

    def swap(self, name: str, chunks: Sequence[Buffer], tag: str) -> None:
        data = joined(chunks)
        self._write(lambda: self.store.swap(name, [data], tag), is_late=True)

    def size(self, name: str) -> int:
        return self._ask(lambda: self.store.size(name))

    def listing(self, prefix: str, after: str = "") -> list[ObjectInfo]:
        return self._ask(lambda: self.store.listing(prefix, after))

    def folders(self, prefix: str) -> list[str]:
        return self._ask(lambda: self.store.folders(prefix))

    def delete(self, names: Iterable[str]) -> None:
        gone = list(names)
        self._write(lambda: self.store.delete(gone), is_late=False)

    def close(self) -> None:
        return None

    def _ask(self, request: Callable[[], T]) -> T:
        self._begin()
        if self._chance.random() < self.faults.refused:
            raise StoreBusyError("the store answers SlowDown")
        return request()

    def _write(self, write: Callable[[], None], *, is_late: bool) -> None:
        self._begin()
        if self._late and self._chance.random() < self.faults.late:
            self.deliver_late()
        drawn = self._chance.random()
        if drawn < self.faults.refused:
            raise StoreBusyError("the store answers SlowDown")
        if is_late and drawn < self.faults.refused + self.faults.late:
            self._late.append(write)
            raise StoreBusyError("the store does not answer")
        write()
        if self._chance.random() < self.faults.unanswered:
            raise StoreBusyError("the answer of the store is lost")

    def _begin(self) -> None:
        if self._off:
            raise MachineOffError
        self.requests += 1
        if self.is_down:
            raise StoreBusyError("the store does not answer")
