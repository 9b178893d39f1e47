"""One round of the soak of a metadata store: load it, inject faults, wait until it is well again, judge its answers."""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from danube.metadata.store import Changed, DeletePrefix, Entry, Transaction
from danube.model.errors import DanubeError, MetadataError
from danube.testing.patience import PATIENCE_S
from lab.kernel.rounds import RoundResult, broken_by, pause
from lab.kernel.time import loop_s
from lab.linearizability.checker import STEPS_MAX
from lab.linearizability.history import Change, Read
from lab.linearizability.recorder import History, RecordedStore, Watched
from lab.metadata.judge import PROMISES, Judgement, judge
from lab.metadata.load import LEASE_TTL_S, PACE_S, Keys, Life, Load
from lab.metadata.nemesis import Cluster, Nemesis, planned

T = TypeVar("T")
Left = dict[str, Sequence[str | int]]
ROOT = "/soak"
WELL_TIMEOUT_S = PATIENCE_S
"""Until every member answers again, after the last fault: elections, new sessions, a busy machine."""
WATCH_TIMEOUT_S = 3.0
"""Until every watch has what was changed last, without any read that could wake its member."""
LEASE_TIMEOUT_S = LEASE_TTL_S + 15.0  # until the keys of leases that nobody renews are gone
POLL_S = 0.05
SHOWN_MAX = 5  # violations that a line of the ledger spells out


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """The size of a round."""

    faults: int = 3
    clients: int = 4  # of each member
    pace_s: float = PACE_S  # between two calls of one client, at most
    calm_s: float = 0.5  # under load, before the first fault and behind the last one
    steps_max: int = STEPS_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreResult(RoundResult):
    """One line of the ledger."""

    store: str
    operations: int  # linearizable reads and changes
    changes: int  # those that were acknowledged
    unknown: int  # changes of unknown outcome
    failed: int  # calls that surely had no effect
    local_reads: int
    watch_events: int
    steps: int  # of the search for an order
    checked_s: float
    undecided: tuple[str, ...]  # keys on which the search gave up
    left: Mapping[str, Sequence[str | int]]  # at its end: value and revision by key


@dataclass(slots=True, kw_only=True)
class Environment:
    """The parts that the rounds of one run share."""

    store: str
    cluster: Cluster
    rounds: list[StoreResult] = field(default_factory=list)  # that were judged
    measure: Measure = field(default_factory=Measure)
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    run: str = field(default_factory=lambda: f"{time.time_ns():x}")  # no other one works on its keys


class Round:
    """One round."""

    def __init__(self, environment: Environment, seed: int) -> None:
        self._environment = environment
        self._cluster = environment.cluster
        self._seed = seed
        self._number = len(environment.rounds)
        # a round that was interrupted left keys behind: the next one takes others
        self._keys = Keys(f"{ROOT}/{self._number}-{environment.run}")
        self.history = History()
        self._suffered: list[str] = []

    async def run(self) -> StoreResult:
        """Run it, and add its result to the rounds of the environment. Raises DanubeError when nothing starts."""
        began_s = loop_s()
        await self._check_what_was_left()
        measure = self._environment.measure
        load = Load(self.history, self._keys, self._cluster.life, seed=self._seed, pace_s=measure.pace_s)
        try:
            load.start(self._cluster.members(), measure.clients)
            await self._suffer()
            await load.stop()
            await self._cluster.calm_down()
            left = await self._recover()
        finally:
            await load.close()
        seconds = loop_s() - began_s
        judgement = judge(self.history, steps_max=measure.steps_max)
        checked_s = loop_s() - began_s - seconds
        result = self._result(judgement, seconds, checked_s, left)
        self._environment.rounds.append(result)
        return result

    async def _suffer(self) -> None:
        nemesis = Nemesis(self._cluster, self._environment.stop)
        await self._calm()
        for faults in planned(self._seed, self._cluster, self._environment.measure.faults):
            if not self._environment.stop.is_set():
                self._suffered.append(" + ".join(map(str, faults)))
                await asyncio.gather(*map(nemesis.strike, faults))
        await self._calm()

    async def _calm(self) -> None:
        await pause(self._environment.measure.calm_s, self._environment.stop)

    # Afterwards

    async def _check_what_was_left(self) -> None:
        """Check that the entries left by the round before are unchanged, and remove all others."""
        left = self._environment.rounds[-1].left if self._environment.rounds else {}
        found = {entry.key: entry for entry in await self._below(ROOT)}
        for key, (value, revision) in left.items():
            entry = found.get(key)
            if entry is None or [entry.value.decode(), entry.revision] != [value, revision]:
                self._note("durable", f"{key} was left at revision {revision} with {value!r}, and is {entry}")
        old = sorted({_prefix_of(key) for key in found} - {_prefix_of(key) for key in left})
        clean = Transaction(f"clean {self._keys.prefix}", (), tuple(map(DeletePrefix, old)))
        await self._until_well(self._life_of_some, lambda life: life.store.transact(clean))

    async def _below(self, prefix: str) -> Sequence[Entry]:
        return await self._until_well(self._life_of_some, lambda life: life.store.list(prefix, linearizable=True))

    async def _recover(self) -> Left:
        """See that everybody answers, that watches tell all and leases end; answers what stands at the end."""
        try:
            await asyncio.gather(*map(self._answers, self._cluster.members()))
            await self._leases_end()
            first = await self._last_change()
            await asyncio.gather(*(self._watch_tells(member) for member in self._cluster.members()))
            for member in self._cluster.members():
                await self._read_all(member)
        except (DanubeError, TimeoutError) as error:
            self._note("answers", f"the store does not go on once it is well again: {error!r}")
            return {}
        return first

    async def _answers(self, member: int) -> None:
        await self._until_well(lambda: self._cluster.life(member), lambda life: self._of(life).read(self._keys.end))

    async def _last_change(self) -> Left:
        """Put the last key; answers what will be left of this round."""
        member = self._cluster.members()[0]
        number = iter(range(1_000))

        async def put(life: Life) -> None:
            await self._of(life).put(self._keys.end, f"end:{next(number)}".encode())

        await self._until_well(lambda: self._cluster.life(member), put)
        standing = await self._below(self._keys.prefix)
        return {entry.key: (entry.value.decode(), entry.revision) for entry in standing}

    async def _watch_tells(self, member: int) -> None:
        for _ in range(_looks(WATCH_TIMEOUT_S)):
            if any(_has_told(watched, member, self._keys.end) for watched in self.history.watches):
                return
            await asyncio.sleep(POLL_S)
        self._note("watches", f"the watch at member {member} stands still for {WATCH_TIMEOUT_S:g} s")

    async def _leases_end(self) -> None:
        kept: Sequence[Entry] = ()
        for _ in range(_looks(LEASE_TIMEOUT_S)):
            kept = await self._below(f"{self._keys.prefix}/lease")
            if not kept:
                return
            await asyncio.sleep(POLL_S)
        self._note("leases", f"{kept[0].key} outlives its lease by {LEASE_TIMEOUT_S - LEASE_TTL_S:g} s")

    async def _read_all(self, member: int) -> None:
        keys = self._keys

        async def read(life: Life) -> None:
            store = self._of(life)
            for key in (*keys.registers, keys.counter, keys.end):
                await store.read(key)
                await store.read_local(key)
            await store.read(*keys.pair)

        await self._until_well(lambda: self._cluster.life(member), read)

    async def _until_well(self, find: Callable[[], Life | None], call: Callable[[Life], Awaitable[T]]) -> T:
        """Call until it succeeds. Raises MetadataError with the last reason when it takes too long."""
        deadline_s, reason = loop_s() + WELL_TIMEOUT_S, "the member is dead"
        while loop_s() < deadline_s:
            life = find()
            if life is not None:
                try:
                    async with asyncio.timeout(WELL_TIMEOUT_S):
                        return await call(life)
                except (MetadataError, TimeoutError) as error:
                    reason = repr(error)
            await asyncio.sleep(POLL_S)
        raise MetadataError(f"no success for {WELL_TIMEOUT_S:g} s: {reason}")

    def _life_of_some(self) -> Life | None:
        lives = (self._cluster.life(member) for member in self._cluster.members())
        return next((life for life in lives if life is not None), None)

    def _of(self, life: Life) -> RecordedStore:
        return RecordedStore(self.history, life.store, life.name, "judge")

    def _note(self, promise: str, what: str) -> None:
        self.history.noted.append((promise, what))

    def _result(self, judgement: Judgement, seconds: float, checked_s: float, left: Left) -> StoreResult:
        history, kinds = self.history, Counter[str]()
        for operation in history.operations:
            if isinstance(operation.call, Change):
                kinds["changes" if operation.is_settled else "unknown"] += 1
            elif isinstance(operation.call, Read):
                kinds["reads"] += 1
        return StoreResult(
            round=self._number,
            seed=self._seed,
            store=self._environment.store,
            faults=tuple(self._suffered),
            seconds=round(seconds, 1),
            operations=len(history.operations),
            changes=kinds["changes"],
            unknown=kinds["unknown"],
            failed=history.failed,
            local_reads=len(history.local_reads),
            watch_events=sum(len(watched.events) for watched in history.watches),
            steps=judgement.steps,
            checked_s=round(checked_s, 2),
            undecided=tuple(judgement.undecided),
            violations=broken_by(judgement.violations, PROMISES),
            what=tuple(map(str, judgement.violations[:SHOWN_MAX])),
            left=left,
        )


def _looks(seconds: float) -> int:
    """Polls in so long a time; time in which the machine stood still does not count."""
    return round(seconds / POLL_S)


def _prefix_of(key: str) -> str:
    """Prefix of the round that a key belongs to."""
    return "/".join(key.split("/")[:3])


def _has_told(watched: Watched, member: int, key: str) -> bool:
    told = any(isinstance(event, Changed) and event.entry.key == key for event in reversed(watched.events))
    return told and watched.life.partition(".")[0] == str(member)
