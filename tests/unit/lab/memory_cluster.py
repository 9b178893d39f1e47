"""A cluster of members in one process: for tests of what judges, and of what loads."""

import asyncio
import random
from collections.abc import Callable, Sequence
from typing import Any

from danube.metadata.memory import MemoryStore
from danube.metadata.store import MetadataStore, Watch
from danube.model.errors import MetadataError, UnknownOutcomeError
from danube.runtime.clock import SystemClock
from lab.metadata.load import Life
from lab.metadata.nemesis import Cluster, FaultKind
from lab.metadata.wire import READS, CalledStore

Wrap = Callable[[MetadataStore], MetadataStore]
"""Stands between a member and its clients: how a bug is planted."""


class MemoryCluster(Cluster):
    """Members that share a store in the memory of this process."""

    def __init__(self, members: int = 3, *, seed: int = 1, wrap: Wrap | None = None) -> None:
        self._store = MemoryStore(SystemClock())
        self._rng = random.Random(seed)
        self._wrap: Wrap = wrap or (lambda store: store)
        self._members = range(members)
        self._handles: dict[int, MemoryMember] = {}
        self._lives: dict[int, Life] = {}

    def members(self) -> Sequence[int]:
        return self._members

    def faults(self) -> Sequence[FaultKind]:
        return FaultKind.KILL, FaultKind.PAUSE

    def life(self, member: int) -> Life | None:
        return self._lives[member] if self._handles[member].is_alive else None

    async def start(self) -> None:
        for member in self._members:
            await self.restart(member)

    def kill(self, node: int) -> None:
        self._handles[node].die()

    def pause(self, node: int) -> None:
        self._handles[node].going.clear()

    def resume(self, node: int) -> None:
        self._handles[node].going.set()

    async def restart(self, node: int) -> None:
        if node in self._handles and self._handles[node].is_alive:
            return
        number = self._lives[node].number + 1 if node in self._lives else 0
        handle = self._handles[node] = MemoryMember(self._store, self._rng)
        self._lives[node] = Life(node, number, self._wrap(handle))

    async def close(self) -> None:
        await self._store.close()


class MemoryMember(CalledStore):
    """One life of a member of `MemoryCluster`. Calls take a few turns of the loop before and behind their effect."""

    def __init__(self, store: MemoryStore, rng: random.Random) -> None:
        self._store = store
        self._rng = rng
        self._watches: list[Watch] = []
        self._dead = asyncio.Event()
        self.going = asyncio.Event()
        self.going.set()

    @property
    def is_alive(self) -> bool:
        """Until `die`."""
        return not self._dead.is_set()

    def die(self) -> None:
        """Nothing comes back from here any more."""
        self._dead.set()
        self.going.set()

    def watch(self, prefix: str) -> Watch:
        return self._store.watch(prefix)

    async def close(self) -> None:
        self.die()

    async def call(self, method: str, *arguments: Any, **named: Any) -> Any:
        lost = MetadataError if method in READS else UnknownOutcomeError
        if self._dead.is_set():
            raise MetadataError("the member is dead")
        await self._turns()
        if self._dead.is_set() and self._rng.random() < 0.5:
            raise lost("the member died before")
        result = await getattr(self._store, method)(*arguments, **named)
        await self._turns()
        if self._dead.is_set():
            raise lost("the member died behind")
        return result

    async def _turns(self) -> None:
        for _ in range(self._rng.randrange(4)):
            await asyncio.sleep(0)
        await self.going.wait()
