"""Members on one simulated shared log: the rounds of the soak of metadata stores, in simulated time and by seed.

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
from danube.model.errors import MetadataError
from danube.runtime.blocking import InlineRunner
from danube.runtime.rng import SystemRng
from danube.runtime.tasks import TaskScope
from lab.kernel.chance import seeded
from lab.kernel.time import LoopClock, run_simulated
from lab.metadata.load import Life
from lab.metadata.nemesis import Cluster, FaultKind
from lab.metadata.round import Environment, Measure, Round
from lab.shared_log.backend import NO_FAULTS, LogFaults, SimulatedBackend, SimulatedLog

MEMBERS = 3
_MEASURE = Measure(faults=12, clients=4, pace_s=2.0)
_RETRY_S = 0.5
_QUIET_S = 30.0  # in the end: whatever was under way has arrived by then, or never will

Wrap = Callable[[Sequencer], Sequencer]


@dataclass(slots=True)
class Seen:
    """Observations of clients and followers."""

    violations: list[str] = field(default_factory=list)
    states: dict[int, int] = field(default_factory=dict)
    """By position, a digest of the state of whoever was there first."""
    leaps: int = 0
    operations: int = 0
    undecided: Sequence[str] = ()  # keys whose history is too tangled to be judged


class SharedLogCluster(Cluster):
    """The members, and as the last node the service; that one is away when it is killed or paused."""

    span_s = (0.3, 6.0)  # longer than a call to the service may take

    def __init__(self, seed: int, log: SimulatedLog | None, wrap: Wrap) -> None:
        chance = seeded(seed)
        self._seed = seed
        self._wrap = wrap
        self.log = log or SimulatedLog(seed, entries_kept=chance.choice([0, 3, 1_000]))
        self._faults = _draw_faults(chance)
        self.seen = Seen()
        self._lives: dict[int, Life] = {}
        self._numbers = Counter[int]()
        self._backends: dict[int, SimulatedBackend] = {}
        self._ending: dict[int, asyncio.Task[None]] = {}
        self._tasks = TaskScope("shared log")

    def members(self) -> Sequence[int]:
        return range(MEMBERS)

    def servers(self) -> Sequence[int]:
        return (MEMBERS,)

    def faults(self) -> Sequence[FaultKind]:
        return FaultKind.KILL, FaultKind.PAUSE

    def life(self, member: int) -> Life | None:
        return self._lives.get(member)

    async def start(self) -> None:
        for member in self.members():
            await self.restart(member)
        self.log.faults = self._faults

    def kill(self, node: int) -> None:
        if node in self.servers():
            self.log.is_away = True
        elif (life := self._lives.pop(node, None)) is not None:
            self._ending[node] = self._tasks.spawn(life.store.close(), "end")

    def pause(self, node: int) -> None:
        if node in self.servers():
            self.log.is_away = True
        else:
            self._backends[node].pause()

    def resume(self, node: int) -> None:
        if node in self.servers():
            self.log.is_away = False
        else:
            self._backends[node].resume()

    async def restart(self, node: int) -> None:
        self.log.is_away = False
        if node in self._ending:
            await self._ending.pop(node)
        while node in self.members() and node not in self._lives:
            try:
                self._lives[node] = await self._open(node)
            except MetadataError as error:
                if "restored" in str(error) or "read" in str(error):
                    self.seen.violations.append(f"a member cannot start: {error}")
                    return
                await asyncio.sleep(_RETRY_S)

    async def calm_down(self) -> None:
        self.log.faults = NO_FAULTS
        await asyncio.sleep(_QUIET_S)

    async def close(self) -> None:
        for life in self._lives.values():
            await life.store.close()
        await self._tasks.close()

    def judge_log(self) -> None:
        """A member that leapt over its own entry may have added its requests again; nobody else may."""
        entries = [decode_entry(entry) for entry in self.log.history.values()]
        times = Counter(request for entry in entries for request in entry.requests)
        if times and max(times.values()) > 1 and not self.seen.leaps:
            self.seen.violations.append(f"a request stands in the log {max(times.values())} times")

    async def _open(self, member: int) -> Life:
        number = self._numbers[member]
        self._numbers[member] += 1
        rng = SystemRng(seed=self._seed * 1_000 + member * 100 + number)
        backend = self._backends[member] = SimulatedBackend(self.log)
        sequencer = _Witnessed(backend, InlineRunner(), rng, snapshots=SnapshotRule(rng, entries_max=8))
        sequencer.seen = self.seen
        store = ReplicatedStore(self._wrap(sequencer), LoopClock(), rng)
        try:
            await store.start()
        except MetadataError:
            await store.close()
            raise
        return Life(member, number, store)


def simulate(seed: int, *, log: SimulatedLog | None = None, wrap: Wrap = lambda sequencer: sequencer) -> Seen:
    """One run; `wrap` stands between a sequencer and its member."""
    return run_simulated(_simulate(SharedLogCluster(seed, log, wrap), seed))


async def _simulate(cluster: SharedLogCluster, seed: int) -> Seen:
    seen = cluster.seen
    await cluster.start()
    try:
        result = await Round(Environment(store="shared log", cluster=cluster, measure=_MEASURE, run="0"), seed).run()
    finally:
        await cluster.close()
    cluster.judge_log()
    seen.violations += result.what
    seen.operations, seen.undecided = result.operations, result.undecided
    return seen


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
            self._seen.violations.append(f"position {position} came after {self._position}")
        self._follower.apply(position, requests)
        self._compare(position)

    def reset(self, position: int, snapshot: StateSnapshot) -> None:
        self._seen.leaps += self._position > 0
        self._follower.reset(position, snapshot)
        self._compare(position)

    def snapshot(self) -> StateSnapshot:
        return self._follower.snapshot()

    def led_anew(self) -> None:
        self._follower.led_anew()

    def failed(self, error: Exception) -> None:
        self._seen.violations.append(f"a member stopped: {error}")
        self._follower.failed(error)

    def _compare(self, position: int) -> None:
        self._position = position
        digest = hash(self._follower.snapshot())
        if self._seen.states.setdefault(position, digest) != digest:
            self._seen.violations.append(f"two members differ at position {position}")


def _draw_faults(chance: random.Random) -> LogFaults:
    return LogFaults(
        latency_s=chance.choice([0.01, 0.1, 0.5]),
        lost=chance.choice([0.0, 0.1, 0.4]),
        lost_watches=chance.choice([0.0, 0.5]),
        stale_reads=chance.choice([0.0, 0.5]),
        slow=chance.choice([0.0, 0.05]),
    )
