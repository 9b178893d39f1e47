"""Clients that load a metadata store: a few hot keys, many hands on each of them.

Each client is attached to one member and goes on in that member's next life when it died. All values are unique.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from danube.metadata.store import Condition, Delete, MetadataStore, Put
from danube.model.errors import MetadataError, NotFoundError, VersionConflictError
from danube.runtime.tasks import TaskScope
from lab.kernel.chance import seeded
from lab.kernel.rounds import pause
from lab.kernel.time import loop_s
from lab.linearizability.recorder import History, RecordedStore

LEASE_TTL_S = 1.5
PACE_S = 0.02  # between two calls of one client, at most
DEAD_WAIT_S = 0.05  # before a client whose call failed tries again
OPERATIONS_MAX = 1_500  # of one client in one round: what a checker has to look through
RENEWALS_MAX = 12  # of one lease; then another one is taken


@dataclass(frozen=True, slots=True)
class Life:
    """A member that runs: its store, and which of its processes that is."""

    member: int
    number: int
    store: MetadataStore

    @property
    def name(self) -> str:
        return f"{self.member}.{self.number}"


Lives = Callable[[int], Life | None]  # the present life of a member; None while it is dead


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys that a round works on."""

    prefix: str

    @property
    def registers(self) -> Sequence[str]:
        """Put, compared, deleted and read by everybody."""
        return [f"{self.prefix}/register/{index}" for index in range(3)]

    @property
    def pair(self) -> tuple[str, str]:
        """Only ever changed together."""
        return f"{self.prefix}/pair/left", f"{self.prefix}/pair/right"

    @property
    def counter(self) -> str:
        """Counted up by compare-and-set: `count:by whom`."""
        return f"{self.prefix}/counter"

    @property
    def end(self) -> str:
        return f"{self.prefix}/end"

    def lease(self, client: str) -> str:
        return f"{self.prefix}/lease/{client}"


class Load:
    """The clients of a round. An async context manager; at its end all of them have stopped."""

    def __init__(self, history: History, keys: Keys, lives: Lives, *, seed: int, pace_s: float = PACE_S) -> None:
        self._history = history
        self._keys = keys
        self._lives = lives
        self._seed = seed
        self._pace_s = pace_s
        self._stopping = asyncio.Event()
        self._tasks = TaskScope("metadata load")
        self._running: list[asyncio.Task[None]] = []
        self._watching: list[asyncio.Task[None]] = []

    def start(self, members: Sequence[int], clients: int) -> None:
        """Start so many clients on each member, of every kind by turns, and a watch."""
        kinds = (self._register, self._counter, self._pair, self._lease)
        for number in range(clients):
            for member in members:
                name = f"c{number}-{member}"
                client = kinds[(number + member) % len(kinds)]
                rng = seeded(f"{self._seed} {name}")
                self._running.append(self._tasks.spawn(self._live(member, name, client, rng), name))
        self._watching += [self._tasks.spawn(self._watch(member), f"watch-{member}") for member in members]

    async def stop(self) -> None:
        """End the clients, each after the call that it has under way. The watches go on."""
        self._stopping.set()
        await asyncio.gather(*self._running)

    async def close(self) -> None:
        await self._tasks.close()

    async def _live(self, member: int, name: str, client: "_Client", rng: random.Random) -> None:
        for number in range(OPERATIONS_MAX):
            if self._stopping.is_set():
                return
            life = self._lives(member)
            failed = life is None
            if life is not None:
                try:
                    await client(life, name, number, rng)
                except VersionConflictError:
                    pass
                except (MetadataError, NotFoundError):
                    failed = True
            await self._pause(DEAD_WAIT_S if failed else rng.uniform(0, self._pace_s))

    async def _pause(self, seconds: float) -> None:
        await pause(seconds, self._stopping)

    async def _watch(self, member: int) -> None:
        while True:
            life = self._lives(member)
            if life is not None:
                with suppress(MetadataError):
                    await self._recorded(life, "watch").watch(self._keys.prefix)
            await asyncio.sleep(DEAD_WAIT_S)

    # What clients do

    async def _register(self, life: Life, name: str, number: int, rng: random.Random) -> None:
        store, key, value = self._recorded(life, name), rng.choice(self._keys.registers), f"{name}:{number}".encode()
        kind = rng.random()
        if kind < 0.25:
            await store.read_local(key)
        elif kind < 0.5:
            await store.read(key)
        elif kind < 0.7:
            await store.put(key, value)
        elif kind < 0.8:
            await store.delete(key)
        else:
            entry = await (store.read_local(key) if rng.random() < 0.5 else store.read_one(key))
            await store.compare_and_set(key, value, entry.revision if entry else 0)

    async def _counter(self, life: Life, name: str, number: int, _rng: random.Random) -> None:
        store = self._recorded(life, name)
        entry = await store.read_one(self._keys.counter)
        count = int(entry.value.partition(b":")[0]) if entry else 0
        value = f"{count + 1}:{name}:{number}".encode()
        await store.compare_and_set(self._keys.counter, value, entry.revision if entry else 0)

    async def _pair(self, life: Life, name: str, number: int, rng: random.Random) -> None:
        store, value = self._recorded(life, name), f"{name}:{number}".encode()
        left, right = self._keys.pair
        found = await store.read(left, right)
        if (found[0] and found[0].value) != (found[1] and found[1].value):
            store.note("transactions", f"the pair is torn: {found}")
        if rng.random() < 0.6:
            condition = Condition(left, found[0].revision if found[0] else 0)
            gone = rng.random() < 0.1
            writes: tuple[Put | Delete, ...] = (Put(left, value), Put(right, value))
            await store.transact((condition,), (Delete(left), Delete(right)) if gone else writes)

    async def _lease(self, life: Life, name: str, number: int, rng: random.Random) -> None:
        store, key = self._recorded(life, name), self._keys.lease(name)
        sent_s = loop_s()
        held = _Held(store, key, await store.grant_lease(LEASE_TTL_S), sent_s)
        try:
            await held.hold(f"{name}:{number}".encode(), rng, self._pause, self._stopping)
        finally:
            store.let_go(key, held.lease_id, held.until_s)

    def _recorded(self, life: Life, name: str) -> RecordedStore:
        return RecordedStore(self._history, life.store, life.name, name)


_Client = Callable[[Life, str, int, random.Random], Awaitable[None]]


@dataclass(slots=True)
class _Held:
    """One lease, and the key that lives by it."""

    store: RecordedStore
    key: str
    lease_id: int
    sent_s: float  # when the last renewal that was answered was sent: the lease's time began then, or later

    @property
    def until_s(self) -> float:
        return self.sent_s + LEASE_TTL_S

    async def hold(
        self, value: bytes, rng: random.Random, pause: Callable[[float], Awaitable[None]], stopping: asyncio.Event
    ) -> None:
        """Put the key, renew for a while, at times let go."""
        if await self._in_time(self.store.put(self.key, value, lease_id=self.lease_id)):
            for _ in range(rng.randrange(RENEWALS_MAX)):
                if stopping.is_set():
                    return
                await pause(LEASE_TTL_S / 4)
                sent_s = loop_s()
                if not await self._in_time(self.store.renew_lease(self.lease_id)):
                    return
                self.sent_s = sent_s
                await self._look()
        if rng.random() < 0.5:
            await self.store.revoke_lease(self.key, self.lease_id)

    async def _look(self) -> None:
        entry = await self.store.read_one(self.key)
        if entry is None and loop_s() < self.until_s:
            self.store.note("leases", f"{self.key} went before lease {self.lease_id} ended")

    async def _in_time(self, call: Awaitable[object]) -> bool:
        """True if the lease was there; one that ended before its time is noted."""
        try:
            await call
        except NotFoundError:
            if loop_s() < self.until_s:
                self.store.note("leases", f"lease {self.lease_id} ended before its time")
            return False
        return True
