"""The machine under a simulated storage: its metadata, and threads in simulated time."""

from collections.abc import Container, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from danube.metadata.commands import Command, Outcome
from danube.metadata.memory import MemoryStore
from danube.metadata.records.storage import StorageRecords, add_tombstone
from danube.metadata.store import Entry, MetadataStore
from danube.metadata.transaction_builder import TransactionBuilder, commit_transaction
from danube.model.errors import MetadataError, UnknownOutcomeError
from danube.runtime.clock import sleep_for
from danube.runtime.rng import Rng
from danube.runtime.tasks import TaskScope
from danube.storage.environment import StorageEnvironment
from danube.storage.settings import StorageSettings
from danube.storage.store import Storage
from danube.testing.simulated.blocking import SimRunner
from danube.testing.simulated.clock import SimClock, end_tasks
from danube.testing.simulated.disk import MachineOffError, Operation, SimDisk

BROKER_ID = 7
METADATA = "metadata"  # name of the store in faults of the disk, as if it were a file

_LONGEST_S = 0.005
_TICK_S = 0.01
_PATIENCE_S = 60.0  # longer than anything here may take while the disk answers

T = TypeVar("T")


class SimMetadata(MemoryStore):
    """A metadata store that outlives brokers: what was answered is durable, as on a disk of the same machine.

    Each write is one change of the life's disk (`Operation.TRANSACT`), so a machine may go off in it: then it is done
    or not. A write that is asked to fail is not done, or it is done and nobody learns of it.
    """

    def __init__(self) -> None:
        super().__init__(SimClock())
        self._disk = SimDisk()
        self._time = SimClock()

    def enter(self, disk: SimDisk, clock: SimClock) -> None:
        self._disk, self._time = disk, clock

    async def get(self, key: str, *, linearizable: bool = False) -> Entry | None:
        await self._pass_time()
        return await super().get(key, linearizable=linearizable)

    async def list(self, prefix: str, *, linearizable: bool = False) -> Sequence[Entry]:
        await self._pass_time()
        return await super().list(prefix, linearizable=linearizable)

    async def _submit(self, command: Command) -> Outcome:
        await self._pass_time()
        outcome = self._change(command)
        await self._pass_time()
        return outcome

    def _change(self, command: Command) -> Outcome:
        done: list[Outcome] = []
        is_lost = self._disk.chance.random() < 0.5
        try:
            self._disk.perform(
                Operation.TRANSACT,
                METADATA,
                lambda: done.append(self._apply(command)),
                failed=lambda: done.extend([self._apply(command)] if is_lost else []),
            )
        except OSError as error:
            if is_lost:
                raise UnknownOutcomeError(f"the metadata store does not say whether it did that: {error}") from error
            raise MetadataError(f"the metadata store failed: {error}") from error
        return done[0]

    async def _pass_time(self) -> None:
        if self._disk.is_off:
            raise MachineOffError
        await sleep_for(self._time, self._disk.chance.uniform(0.0, _LONGEST_S))
        if self._disk.is_off:
            raise MachineOffError


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """One life of a machine, with what outlives it."""

    disk: SimDisk
    clock: SimClock
    rng: Rng
    metadata: SimMetadata
    longest_s: float = _LONGEST_S  # what the disk takes at most for a piece of work

    @property
    def records(self) -> StorageRecords:
        return StorageRecords(self.metadata, self.rng)

    async def open(self, settings: StorageSettings, known_topics: Container[int] | None = None) -> Storage:
        """Open the storage, as a broker does that starts on this machine. Raises as `Storage.open`."""
        environment = StorageEnvironment(
            disk=self.disk,
            clock=self.clock,
            rng=self.rng,
            records=self.records,
            runner=self._thread(),
            read_runner=self._thread(),
            flush_runner=self._thread(),
            broker_id=BROKER_ID,
            settings=settings,
        )
        return await Storage.open(environment, known_topics=known_topics)

    async def wait_for(self, work: Coroutine[Any, Any, T]) -> T:
        """Let time pass until `work` is done. Raises TimeoutError when the machine goes off meanwhile, or it hangs."""
        task = TaskScope("asked").spawn(work, "work")
        until_s = self.clock.monotonic_s() + _PATIENCE_S
        while not task.done():
            if self.disk.is_off or self.clock.monotonic_s() > until_s:
                raise TimeoutError("nobody answers any more" if self.disk.is_off else "this takes too long")
            next_s = self.clock.next_timer_s()
            await self.clock.run_for(_TICK_S if next_s is None else max(0.0, next_s - self.clock.monotonic_s()))
        result: T = task.result()
        return result

    async def end_life(self) -> None:
        await end_tasks(self.clock)

    def _thread(self) -> SimRunner:
        return SimRunner(self.clock, self.rng, longest_s=self.longest_s)


_FOLDER = "/simulated"


class SimTopics:
    """Topic ids by title. Every method raises MetadataError when the store fails."""

    def __init__(self, store: MetadataStore, rng: Rng) -> None:
        self._store = store
        self._rng = rng

    async def all(self) -> dict[str, int]:
        """The ids of the topics that exist, by title."""
        entries = await self._store.list(_FOLDER)
        return {entry.key.removeprefix(_FOLDER): int(entry.value) for entry in entries}

    async def create(self, title: str, topic_id: int) -> None:
        """Have a topic of this title, which no other has."""

        async def change(builder: TransactionBuilder) -> None:
            if await builder.read(_FOLDER + title) is None:
                builder.put(_FOLDER + title, str(topic_id).encode())

        await commit_transaction(self._store, self._rng, change)

    async def delete(self, title: str, topic_id: int) -> None:
        """Have the topic gone; a tombstone stays until its files are."""

        async def change(builder: TransactionBuilder) -> None:
            if await builder.read(_FOLDER + title) is not None:
                builder.delete(_FOLDER + title)
                add_tombstone(builder, topic_id)

        await commit_transaction(self._store, self._rng, change)
