"""Several members on one simulated shared log: a workload and faults by seed, and a judgement of what was seen.

Each member is a real `ReplicatedStore` on a real `SharedLogSequencer`; only the service, the time and the thread are
simulated. The same seed gives the same history.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from danube.metadata.replication.replicated import ReplicatedStore
from danube.metadata.replication.sequencer import Follower, Sequencer
from danube.metadata.shared_log.entry_format import decode_entry
from danube.metadata.shared_log.sequencer import SharedLogSequencer
from danube.metadata.shared_log.snapshots import SnapshotRule
from danube.metadata.state import StateSnapshot
from danube.metadata.store import Put, Transaction
from danube.model.errors import DanubeError, MetadataError, UnknownOutcomeError, VersionConflictError
from danube.runtime.blocking import InlineRunner
from danube.runtime.rng import SystemRng
from danube.runtime.tasks import TaskScope
from lab.kernel.chance import seeded
from lab.kernel.time import LoopClock, run_simulated
from lab.shared_log.backend import NO_FAULTS, LogFaults, SimulatedBackend, SimulatedLog

MEMBERS = 3
_CLIENTS = 3  # of each member
_STEPS = 12  # of each client
_FAULTS = 12
_COUNTER, _LEASED = "/counter", "/leased"
_LEASE_S = 5.0
_QUIET_S = 30.0  # in the end: whatever was under way has arrived by then, or never will

Wrap = Callable[[Sequencer], Sequencer]


@dataclass(slots=True)
class Seen:
    """Observations of clients and followers."""

    written: dict[str, int] = field(default_factory=dict)  # keys that were acknowledged, with their revision
    refused: set[str] = field(default_factory=set)  # keys that were surely not written
    counted: int = 0
    perhaps_counted: int = 0
    floor: int = 0  # the counter is at least this: it was read, or acknowledged
    states: dict[int, int] = field(default_factory=dict)
    """By position, a digest of the state of whoever was there first."""
    leaps: int = 0
    violations: list[str] = field(default_factory=list)

    def violated(self, what: str) -> None:
        self.violations.append(what)


class SharedLogWorld:
    """One run."""

    def __init__(self, seed: int, *, log: SimulatedLog | None = None, wrap: Wrap = lambda sequencer: sequencer) -> None:
        self._chance = seeded(seed)
        self._seed = seed
        self._wrap = wrap
        self.log = log or SimulatedLog(seed, entries_kept=self._chance.choice([0, 3, 1_000]))
        self.log.faults = _draw_faults(self._chance)
        self.seen = Seen()
        self._stores: list[ReplicatedStore] = []
        self._backends: list[SimulatedBackend] = []
        self._starts = 0

    def run(self) -> Seen:
        return run_simulated(self._run())

    async def _run(self) -> Seen:
        faults, self.log.faults = self.log.faults, NO_FAULTS
        for _ in range(MEMBERS):
            store, backend = await self._open()
            self._stores.append(store)
            self._backends.append(backend)
        self.log.faults = faults
        scope = TaskScope("world")
        clients = [
            scope.spawn(self._client(member, client), "client")
            for member in range(MEMBERS)
            for client in range(_CLIENTS)
        ]
        fault = scope.spawn(self._inject_faults(), "fault")
        await asyncio.gather(*clients, fault)
        await self._calm_down()
        await self._judge()
        await scope.close()
        for store in self._stores:
            await store.close()
        return self.seen

    async def _open(self) -> tuple[ReplicatedStore, SimulatedBackend]:
        self._starts += 1
        rng = SystemRng(seed=self._seed * 1_000 + self._starts)
        backend = SimulatedBackend(self.log)
        rule = SnapshotRule(rng, entries_max=8)
        sequencer = _Witnessed(backend, InlineRunner(), rng, snapshots=rule)
        sequencer.seen = self.seen
        store = ReplicatedStore(self._wrap(sequencer), LoopClock(), rng)
        try:
            await store.start()
        except MetadataError:
            await store.close()
            raise
        return store, backend

    # What clients do

    async def _client(self, member: int, client: int) -> None:
        for step in range(_STEPS):
            await asyncio.sleep(self._chance.uniform(0.0, 2.0))
            store = self._stores[member]
            action = self._chance.choice([self._write, self._write, self._count, self._read, self._lease])
            await action(store, f"/written/{member}-{client}-{step}")

    async def _write(self, store: ReplicatedStore, key: str) -> None:
        try:
            revision = await store.transact(Transaction(key, (), (Put(key, b"x" * self._chance.randint(0, 3_000)),)))
        except UnknownOutcomeError:
            return
        except MetadataError:
            self.seen.refused.add(key)
            return
        self.seen.written[key] = revision
        entry = await _local(store, key)
        if entry is not None and entry != revision:
            self.seen.violated(f"{key} was acknowledged at {revision} and is at {entry} for who wrote it")

    async def _count(self, store: ReplicatedStore, _key: str) -> None:
        try:
            entry = await store.get(_COUNTER)
            value, revision = (int(entry.value), entry.revision) if entry else (0, 0)
            await store.compare_and_set(_COUNTER, b"%d" % (value + 1), revision=revision)
        except UnknownOutcomeError:
            self.seen.perhaps_counted += 1
        except (VersionConflictError, MetadataError):
            return
        else:
            self.seen.counted += 1
            self.seen.floor = max(self.seen.floor, value + 1)

    async def _read(self, store: ReplicatedStore, _key: str) -> None:
        floor = self.seen.floor
        try:
            entry = await store.get(_COUNTER, linearizable=True)
        except MetadataError:
            return
        value = int(entry.value) if entry else 0
        if value < floor:
            self.seen.violated(f"a linearizable read answered {value} after {floor} was known")
        self.seen.floor = max(self.seen.floor, value)

    async def _lease(self, store: ReplicatedStore, key: str) -> None:
        try:
            lease_id = await store.grant_lease(_LEASE_S)
            await store.put(_LEASED + key, b"", lease_id=lease_id)
            await store.renew_lease(lease_id)
        except DanubeError:
            return

    # What goes wrong

    async def _inject_faults(self) -> None:
        for _ in range(_FAULTS):
            await asyncio.sleep(self._chance.uniform(0.0, 4.0))
            fault = self._chance.choice([self._pause_one, self._go_away, self._restart_one])
            await fault(self._chance.randrange(MEMBERS))

    async def _pause_one(self, member: int) -> None:
        backend = self._backends[member]
        backend.pause()
        await asyncio.sleep(self._chance.uniform(0.0, 15.0))
        backend.resume()

    async def _go_away(self, _member: int) -> None:
        self.log.is_away = True
        await asyncio.sleep(self._chance.uniform(0.0, 4.0))
        self.log.is_away = False

    async def _restart_one(self, member: int) -> None:
        await self._stores[member].close()
        while True:
            try:
                self._stores[member], self._backends[member] = await self._open()
            except MetadataError as error:
                if "restored" in str(error) or "read" in str(error):
                    self.seen.violated(f"a member cannot start: {error}")
                    return
                await asyncio.sleep(0.5)
            else:
                return

    async def _calm_down(self) -> None:
        self.log.faults, self.log.is_away = NO_FAULTS, False
        for backend in self._backends:
            backend.resume()
        await asyncio.sleep(_QUIET_S)

    # What must be true in the end

    async def _judge(self) -> None:
        try:
            pictures = [await store.list("/", linearizable=True) for store in self._stores]
        except MetadataError as error:
            self.seen.violated(f"a member cannot go on when all is well again: {error}")
            return
        if any(picture != pictures[0] for picture in pictures):
            self.seen.violated("members that have read everything differ")
        entries = {entry.key: entry for entry in pictures[0]}
        for key, revision in self.seen.written.items():
            entry = entries.get(key)
            if entry is None or (entry.created_revision, entry.revision) != (revision, revision):
                self.seen.violated(f"{key} was acknowledged at {revision} and stands as {entry}")
        for key in self.seen.refused & entries.keys():
            self.seen.violated(f"{key} was said not to be written, and is there")
        if any(key.startswith(_LEASED) for key in entries):
            self.seen.violated("a key outlives its lease")
        self._judge_counter(int(entries[_COUNTER].value) if _COUNTER in entries else 0)
        self._judge_log()

    def _judge_counter(self, value: int) -> None:
        seen = self.seen
        if not seen.counted <= value <= seen.counted + seen.perhaps_counted:
            seen.violated(f"the counter is {value}, after {seen.counted} to {seen.counted + seen.perhaps_counted}")

    def _judge_log(self) -> None:
        """A member that leapt over its own entry may have added its requests again; nobody else may."""
        entries = [decode_entry(entry) for entry in self.log.history.values()]
        times = Counter(request for entry in entries for request in entry.requests)
        if times and max(times.values()) > 1 and not self.seen.leaps:
            self.seen.violated(f"a request stands in the log {max(times.values())} times")


class _Witnessed(SharedLogSequencer):
    """A sequencer whose follower is compared with those of the other members."""

    seen: Seen

    async def start(self, follower: Follower) -> None:
        await super().start(_Witness(follower, self.seen))


class _Witness:
    """A follower before the follower: compares the states of all members, position by position."""

    def __init__(self, follower: Follower, seen: Seen) -> None:
        self._follower = follower
        self._seen = seen
        self._position = 0

    def apply(self, position: int, requests: Sequence[bytes]) -> None:
        if position <= self._position:
            self._seen.violated(f"position {position} came after {self._position}")
        self._follower.apply(position, requests)
        self._look(position)

    def reset(self, position: int, snapshot: StateSnapshot) -> None:
        self._seen.leaps += self._position > 0
        self._follower.reset(position, snapshot)
        self._look(position)

    def snapshot(self) -> StateSnapshot:
        return self._follower.snapshot()

    def failed(self, error: Exception) -> None:
        self._seen.violated(f"a member stopped: {error}")
        self._follower.failed(error)

    def _look(self, position: int) -> None:
        self._position = position
        digest = hash(self._follower.snapshot())
        if self._seen.states.setdefault(position, digest) != digest:
            self._seen.violated(f"two members differ at position {position}")


async def _local(store: ReplicatedStore, key: str) -> int | None:
    try:
        entry = await store.get(key)
    except MetadataError:
        return None
    return entry.revision if entry else 0


def _draw_faults(chance: random.Random) -> LogFaults:
    return LogFaults(
        latency_s=chance.choice([0.01, 0.1, 0.5]),
        lost=chance.choice([0.0, 0.1, 0.4]),
        lost_watches=chance.choice([0.0, 0.5]),
        stale_reads=chance.choice([0.0, 0.5]),
        slow=chance.choice([0.0, 0.05]),
    )
