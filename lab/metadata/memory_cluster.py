"""A cluster of members in one process: for tests of what judges, and of what loads."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeVar

from danube.metadata.memory import MemoryStore
from danube.metadata.store import Entry, MetadataStore, Transaction, Watch
from danube.model.errors import MetadataError, UnknownOutcomeError
from danube.runtime.clock import SystemClock
from lab.metadata.load import Life
from lab.metadata.nemesis import FaultKind

T = TypeVar("T")
Wrap = Callable[[MetadataStore], MetadataStore]
"""Stands between a member and its clients: how a bug is planted."""


class MemoryCluster:
    """Members that share a store in the memory of this process. A `Cluster`."""

    def __init__(self, members: int = 3, *, seed: int = 1, wrap: Wrap | None = None) -> None:
        self._store = MemoryStore(SystemClock())
        self._rng = random.Random(seed)  # noqa: S311 - for replay, not for secrets
        self._wrap: Wrap = wrap or (lambda store: store)
        self._members = range(members)
        self._handles: dict[int, MemoryMember] = {}
        self._lives: dict[int, Life] = {}

    def members(self) -> Sequence[int]:
        return self._members

    def servers(self) -> Sequence[int]:
        return ()

    def faults(self) -> Sequence[FaultKind]:
        return FaultKind.KILL, FaultKind.PAUSE

    def life(self, member: int) -> Life | None:
        return self._lives[member] if self._handles[member].is_alive else None

    def ended_s(self) -> Mapping[str, float]:
        return {}

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

    def cut(self, node: int, other: int) -> None:
        """There is nothing between them."""

    def slow(self, seconds: float) -> None:
        """The same."""

    def heal(self) -> None:
        """The same."""

    async def transfer(self) -> None:
        """Nobody leads."""

    async def close(self) -> None:
        await self._store.close()


class MemoryMember:
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

    async def get(self, key: str, *, linearizable: bool = False) -> Entry | None:
        return await self._call(lambda: self._store.get(key, linearizable=linearizable), MetadataError)

    async def list(self, prefix: str, *, linearizable: bool = False) -> Sequence[Entry]:
        return await self._call(lambda: self._store.list(prefix, linearizable=linearizable), MetadataError)

    async def put(self, key: str, value: bytes, *, lease_id: int = 0) -> int:
        return await self._call(lambda: self._store.put(key, value, lease_id=lease_id))

    async def compare_and_set(self, key: str, value: bytes, *, revision: int, lease_id: int = 0) -> int:
        return await self._call(lambda: self._store.compare_and_set(key, value, revision=revision, lease_id=lease_id))

    async def delete(self, key: str, *, revision: int | None = None) -> None:
        await self._call(lambda: self._store.delete(key, revision=revision))

    async def transact(self, transaction: Transaction) -> int:
        return await self._call(lambda: self._store.transact(transaction))

    async def grant_lease(self, ttl_s: float) -> int:
        return await self._call(lambda: self._store.grant_lease(ttl_s))

    async def renew_lease(self, lease_id: int) -> None:
        await self._call(lambda: self._store.renew_lease(lease_id))

    async def revoke_lease(self, lease_id: int) -> None:
        await self._call(lambda: self._store.revoke_lease(lease_id))

    def watch(self, prefix: str) -> Watch:
        return self._store.watch(prefix)

    async def close(self) -> None:
        self.die()

    async def _call(self, call: Callable[[], Awaitable[T]], lost: type[MetadataError] = UnknownOutcomeError) -> T:
        if self._dead.is_set():
            raise MetadataError("the member is dead")
        await self._turns()
        if self._dead.is_set() and self._rng.random() < 0.5:
            raise lost("the member died before")
        result = await call()
        await self._turns()
        if self._dead.is_set():
            raise lost("the member died behind")
        return result

    async def _turns(self) -> None:
        for _ in range(self._rng.randrange(4)):
            await asyncio.sleep(0)
        await self.going.wait()
