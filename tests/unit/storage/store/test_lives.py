"""Lives of a storage that cuts in the background while it is written and read, and ends when nobody expects it."""

import asyncio
import random
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest

from danube.model.errors import DanubeError, OffsetTrimmedError, ShuttingDownError, StorageUnavailableError
from danube.model.subscription import Cursor
from danube.runtime.rng import SystemRng
from danube.runtime.tasks import TaskScope
from danube.storage.batches.batch import encode_messages
from danube.storage.log.topic_log import TopicLog
from danube.storage.retention.rules import Retention
from danube.storage.store import Storage
from danube.testing.simulated.blocking import SimRunner
from danube.testing.simulated.clock import end_tasks
from danube.testing.simulated.disk import MachineOffError, SimDisk
from tests.unit.storage.store.storage_world import (
    StorageWorld,
    always,
    read_all,
    record_of,
    records_from,
    storage_settings,
)

T = TypeVar("T")
TOPICS = (1, 2, 3)
LIVES = 6
STEPS = 40
SUBSCRIPTION = 9


class Lives:
    """One storage over several lives, and what was promised in them."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.world = StorageWorld(SimDisk(seed))
        self.world.settings = storage_settings(
            file_bytes_max=3_000, segment_bytes_max=6_000, journal={"cache_bytes_max": 3_000}
        )
        self.sent: dict[int, set[bytes]] = {topic_id: set() for topic_id in TOPICS}
        self.stored: dict[int, dict[int, bytes]] = {topic_id: {} for topic_id in TOPICS}
        self.saved: dict[int, int] = dict.fromkeys(TOPICS, 0)
        self.start: dict[int, int] = dict.fromkeys(TOPICS, 0)
        self.logs: dict[int, TopicLog] = {}
        self.tasks = TaskScope("lives")
        self.faults: list[str] = []
        self.passes = 0

    async def run(self) -> None:
        for life in range(LIVES):
            storage = await self.begin()
            for topic_id in TOPICS:
                await self.check(topic_id)
            if life == LIVES - 1:
                break
            self.world.sim.stop_at(self.chance.randrange(50, 900))
            await self.live(storage)
            self.passes += storage.stats.flush_passes
            await self.end()
        await self.patiently(self.storage.close())
        await self.tasks.close()
        await self.world.metadata.close()

    @property
    def storage(self) -> Storage:
        return self.world.storage

    async def begin(self) -> Storage:
        rng = SystemRng(self.chance.getrandbits(63))
        names = ("runner", "read_runner", "flush_runner")
        self.world.runners = {name: SimRunner(self.world.clock, rng) for name in names}
        storage = await self.patiently(self.world.open())
        self.logs = {topic_id: storage.topic(topic_id, 1) for topic_id in TOPICS}
        storage.start()
        return storage

    async def live(self, storage: Storage) -> None:
        for _ in range(STEPS):
            if self.world.sim.is_off:
                return
            await self.step(storage)
            await self.world.clock.run_for(self.chance.choice([0.001, 0.01, 0.1, 20]))

    async def end(self) -> None:
        """Lose power, or the process."""
        ended = self.world.sim
        await end_tasks(self.world.clock)
        self.tasks = TaskScope("lives")
        self.world._open.clear()
        self.world.disk = ended.power_cut() if self.chance.random() < 0.7 else ended.process_kill()

    async def step(self, storage: Storage) -> None:
        match self.chance.randrange(10):
            case 0:
                self.spawn(storage.retain(always(Retention(None, 15_000)), lambda topic_id: self.saved[topic_id]))
            case 1:
                self.spawn(self.peek(self.chance.choice(TOPICS)))
            case 2:
                self.save(self.chance.choice(TOPICS))
            case _:
                self.append(self.chance.choice(TOPICS), self.chance.randrange(1, 8))

    def append(self, topic_id: int, count: int) -> None:
        for _ in range(count):
            record = record_of(topic_id, len(self.sent[topic_id]), self.chance.randrange(10, 300))
            self.sent[topic_id].add(record)
            try:
                self.logs[topic_id].append_batch(encode_messages([record]), self.done(topic_id, record))
            except DanubeError:
                return

    def done(self, topic_id: int, record: bytes) -> Any:
        disk = self.world.sim

        def told(outcome: int | DanubeError) -> None:
            if isinstance(outcome, int) and not disk.is_off:
                self.expect(self.stored[topic_id].setdefault(outcome, record) == record, f"offset {outcome} twice")

        return told

    def save(self, topic_id: int) -> None:
        disk, position = self.world.sim, self.logs[topic_id].durable_end

        def told(error: DanubeError | None) -> None:
            if error is None and not disk.is_off:
                self.saved[topic_id] = max(self.saved[topic_id], position)

        self.logs[topic_id].save_cursor(SUBSCRIPTION, Cursor(position), told)

    async def peek(self, topic_id: int) -> None:
        """Read somewhere, as a reader does that goes on where it stood."""
        log = self.logs[topic_id]
        at = self.chance.randrange(log.durable_end + 1)
        try:
            found = records_from(await log.read(at, 2_000), at)
        except OffsetTrimmedError as error:
            self.expect(at < error.start_offset, f"offset {at} is not below {error.start_offset}")
            return
        expected = [self.stored[topic_id].get(at + number, record) for number, record in enumerate(found)]
        self.expect(found == expected, f"other records at {at} of topic {topic_id}")

    def expect(self, holds: bool, otherwise: str) -> None:
        """Note what must not be, where an exception would be caught."""
        if not holds:
            self.faults.append(otherwise)

    async def check(self, topic_id: int) -> None:
        """All that was promised is there, at its offset, and nothing that nobody sent."""
        log, stored = self.logs[topic_id], self.stored[topic_id]
        assert log.start_offset >= self.start[topic_id]
        assert log.start_offset <= self.saved[topic_id]
        self.start[topic_id] = log.start_offset
        found = await self.patiently(read_all(log))
        assert set(found) <= self.sent[topic_id]
        assert len(set(found)) == len(found)
        for offset, record in stored.items():
            assert offset < log.start_offset or found[offset - log.start_offset] == record
        cursor = log.cursor(SUBSCRIPTION)
        assert self.saved[topic_id] <= (cursor.position if cursor is not None else 0) <= log.durable_end
        stored.update(enumerate(found, log.start_offset))

    def spawn(self, work: Coroutine[Any, Any, Any]) -> None:
        self.tasks.spawn(self.unless_it_is_off(work), "work")

    async def unless_it_is_off(self, work: Coroutine[Any, Any, Any]) -> None:
        try:
            await work
        except (MachineOffError, asyncio.CancelledError):
            return
        except DanubeError as error:
            self.expect(isinstance(error, StorageUnavailableError | ShuttingDownError), str(error))

    async def patiently(self, work: Coroutine[Any, Any, T]) -> T:
        task = asyncio.ensure_future(work)
        for _ in range(10_000):
            if task.done():
                return task.result()
            await self.world.clock.run_for(0.01)
        raise TimeoutError


async def live(seed: int) -> None:
    lives = Lives(seed)
    await lives.run()
    assert not lives.faults
    assert lives.passes > 0


@pytest.mark.parametrize("seed", range(6))
async def test_what_was_promised_outlives_every_end(seed: int) -> None:
    await live(seed)


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(6, 60))
async def test_what_was_promised_outlives_many_more_ends(seed: int) -> None:
    await live(seed)
