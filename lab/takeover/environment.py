"""Machines of brokers over one shared folder: each with its disk, its threads and its way to the metadata.

A machine can be paused between any two things that it does, and it can be killed: from then on nothing that its broker
still does reaches the folder or the metadata.
"""

import asyncio
import random
from collections.abc import Callable, Sequence
from typing import TypeVar

from danube.metadata.commands import Command, Outcome
from danube.metadata.memory import MemoryStore
from danube.metadata.records.journals import JournalRecords
from danube.metadata.records.storage import StorageRecords
from danube.metadata.state import State
from danube.metadata.store import Entry, Watch
from danube.metadata.writing import CommandWriter
from danube.model.errors import UnknownOutcomeError
from danube.runtime.clock import sleep_for
from danube.runtime.rng import SystemRng
from danube.storage.settings import StorageSettings
from danube.storage.takeover.own_journal import SharedEnvironment
from danube.storage.takeover.shared_storage import SharedStorage
from danube.testing.simulated.blocking import SimRunner
from danube.testing.simulated.clock import SimClock
from danube.testing.simulated.disk import MachineOffError, SimDisk

_LONGEST_S = 0.005
_FALLS_SILENT = 0.03  # of the writes to metadata: from there on none is answered for a while
_SILENT_S = 1.0  # at most
_LATEST_S = 2.0  # after so long a write is done that was not answered, if it is done
_FALLS_BEHIND = 0.1  # of the reads of a copy of the metadata: from there on it hears nothing
_CATCHES_UP = 0.02  # of those that follow

T = TypeVar("T")


class Machine:
    """One life of one broker's machine."""

    def __init__(self, number: int, disk: SimDisk, clock: SimClock, chance: random.Random) -> None:
        self.number = number
        self.disk = disk
        self.clock = clock
        self.chance = chance
        self._goes = asyncio.Event()
        self._goes.set()

    @property
    def is_paused(self) -> bool:
        return not self._goes.is_set()

    def pause(self) -> None:
        """Do nothing more until `resume`."""
        self._goes.clear()

    def resume(self) -> None:
        """Wake as if no time had passed."""
        self._goes.set()

    def kill(self) -> None:
        """End, as `kill -9` does."""
        self.disk.process_kill()
        self._goes.set()

    async def pass_time(self) -> None:
        """Take a moment, or as long as the machine is paused. Raises MachineOffError."""
        await sleep_for(self.clock, self.chance.uniform(0.0, _LONGEST_S))
        await self._goes.wait()
        if self.disk.is_off:
            raise MachineOffError

    async def open(self, store: MemoryStore, settings: StorageSettings) -> SharedStorage:
        """Open the broker's storage, as one that starts on this machine. Raises as `SharedStorage.open_shared`."""
        rng = SystemRng(self.chance.getrandbits(63))
        reached = ReachedStore(self, store)
        environment = SharedEnvironment(
            disk=self.disk,
            records=StorageRecords(reached, rng),
            journals=JournalRecords(reached, rng),
            clock=self.clock,
            rng=rng,
            runner=self._thread(rng),
            read_runner=self._thread(rng),
            flush_runner=self._thread(rng),
            broker_id=self.number,
            settings=settings,
        )
        return await SharedStorage.open_shared(environment)

    def _thread(self, rng: SystemRng) -> "PausedRunner":
        return PausedRunner(self, rng)


class PausedRunner(SimRunner):
    """A thread of a machine: it does nothing while that is paused."""

    def __init__(self, machine: Machine, rng: SystemRng) -> None:
        super().__init__(machine.clock, rng, longest_s=_LONGEST_S)
        self._machine = machine

    async def run(self, work: Callable[[], T]) -> T:
        await self._machine.pass_time()
        done = await super().run(work)
        await self._machine.pass_time()
        return done


class ReachedStore(CommandWriter):
    """The metadata store of all brokers, as one machine reaches it: late, and now and then without an answer.

    The machine has a copy, which may be behind until it asks or writes; what was not answered may be done long after.
    """

    def __init__(self, machine: Machine, store: MemoryStore) -> None:
        self._machine = machine
        self._store = store
        self._behind: State | None = None
        self._silent_until_s = 0.0

    async def get(self, key: str, *, linearizable: bool = False) -> Entry | None:
        await self._machine.pass_time()
        found = self._state(is_newest=linearizable).entry(key)
        await self._machine.pass_time()
        return found

    async def list(self, prefix: str, *, linearizable: bool = False) -> Sequence[Entry]:
        await self._machine.pass_time()
        found = list(self._state(is_newest=linearizable).below(prefix))
        await self._machine.pass_time()
        return found

    def watch(self, prefix: str) -> Watch:
        return self._store.watch(prefix)

    async def close(self) -> None:
        return None

    async def _submit(self, command: Command) -> Outcome:
        await self._machine.pass_time()
        chance, clock = self._machine.chance, self._machine.clock
        if chance.random() < _FALLS_SILENT:
            self._silent_until_s = clock.monotonic_s() + chance.uniform(0.0, _SILENT_S)
        if clock.monotonic_s() < self._silent_until_s:
            if chance.random() < 0.7:
                late_s = chance.choice([0.0, chance.uniform(0.0, _LATEST_S)])
                clock.call_at(clock.monotonic_s() + late_s, lambda: self._carry_out(command))
            raise UnknownOutcomeError("the metadata store does not say whether it did that")
        self._behind = None
        outcome = await self._store._submit(command)  # noqa: SLF001 - it is the same store, reached from elsewhere
        await self._machine.pass_time()
        return outcome

    def _carry_out(self, command: Command) -> None:
        self._store._apply(command)  # noqa: SLF001 - as above

    def _state(self, *, is_newest: bool) -> State:
        chance = self._machine.chance.random()
        if is_newest or (self._behind is not None and chance < _CATCHES_UP):
            self._behind = None
        elif self._behind is None and chance < _FALLS_BEHIND:
            self._behind = State.of(self._store._state.snapshot())  # noqa: SLF001 - it is the same store
        return self._behind or self._store._state  # noqa: SLF001 - as above
