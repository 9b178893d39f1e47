"""A disk that fills up at any operation of a small run, stays full for a while, and has room again."""

import asyncio
import errno

import pytest

from danube.model.errors import DanubeError, StorageUnavailableError
from danube.runtime.rng import SystemRng
from danube.storage.batches.batch import encode_messages, records
from danube.storage.journal import JournalSettings
from danube.storage.log.topic_log import TopicLog
from danube.storage.settings import StorageSettings
from danube.storage.store import Storage
from danube.testing.simulated.clock import SimClock
from danube.testing.simulated.disk import Operation, SimDisk
from lab.storage.environment import Environment, SimMetadata

SETTINGS = StorageSettings(
    journal=JournalSettings(file_bytes_max=1_000, round_bytes_max=500, cache_bytes_max=0), segment_bytes_max=2_000
)
TOPICS = (1, 2)
WRITES = [Operation.APPEND, Operation.CREATE, Operation.RENAME, Operation.MAKE_FOLDER]
"""Operations that need room. A sync that fails is another matter: then nobody knows what is on the disk."""
LASTS = (1, 1_000)


class SmallRun:
    """Some records for two topics, cut in between, on a disk that may be full; what was acknowledged is kept."""

    def __init__(self) -> None:
        self.disk = SimDisk()
        self.acknowledged: dict[int, list[bytes]] = {topic_id: [] for topic_id in TOPICS}
        self.refused: list[DanubeError] = []
        self._clock = SimClock()
        self._metadata = SimMetadata()
        self._sent = 0

    async def start(self) -> Storage:
        self._metadata.enter(self.disk, self._clock)
        return await self._environment.wait_for(self._environment.open(SETTINGS, frozenset(TOPICS)))

    async def work(self, storage: Storage) -> None:
        logs = [storage.topic(topic_id, 1) for topic_id in TOPICS]
        for number in range(8):
            await self.append(logs[number % 2])
            if number % 4 == 3:
                await self.flush(storage)

    async def append(self, log: TopicLog) -> None:
        self._sent += 1
        record = b"%d/" % self._sent + b"." * 150
        told: list[int | DanubeError] = []
        try:
            log.append_batch(encode_messages([record]), told.append)
        except StorageUnavailableError as error:
            told.append(error)
        await self._clock.run_for(1.0)
        (outcome,) = told
        if isinstance(outcome, int):
            self.acknowledged[log.topic_id].append(record)
        else:
            self.refused.append(outcome)

    async def flush(self, storage: Storage) -> None:
        for work in (storage.journal.rotate, storage.flush):
            try:
                await self._environment.wait_for(work())
            except DanubeError as error:
                self.refused.append(error)

    async def check(self, storage: Storage) -> None:
        for topic_id, expected in self.acknowledged.items():
            assert await self._environment.wait_for(read_all(storage.topic(topic_id, 2))) == expected

    async def end(self, storage: Storage) -> None:
        await self._environment.wait_for(storage.close())
        self.disk = self.disk.process_kill()

    @property
    def _environment(self) -> Environment:
        return Environment(disk=self.disk, clock=self._clock, rng=SystemRng(1), metadata=self._metadata)


async def read_all(log: TopicLog) -> list[bytes]:
    found: list[bytes] = []
    while batches := await log.read(len(found), 10_000):
        found += [record for batch in batches for record in records(batch.body, 0, batch.count)]
    return found


async def run_into(operation: Operation, number: int, times: int) -> bool:
    """Have that operation of the run find the disk full; answers whether the run came so far."""
    run = SmallRun()
    storage = await run.start()
    run.disk.fail(operation, number, error=errno.ENOSPC, times=times)
    await run.work(storage)
    await run.check(storage)
    assert storage.stopped is None
    struck = bool(run.disk.failed)
    assert all(isinstance(error, StorageUnavailableError) for error in run.refused)
    run.disk.clear_faults()
    before = len(run.refused)
    await run.work(storage)
    await run.flush(storage)
    assert len(run.refused) == before
    await run.check(storage)
    await run.end(storage)
    storage = await run.start()
    await run.check(storage)
    await run.end(storage)
    return struck


@pytest.mark.slow
@pytest.mark.parametrize("times", LASTS)
@pytest.mark.parametrize("operation", WRITES)
async def test_without_room_at_any_operation_nothing_is_lost_and_reading_goes_on(
    operation: Operation, times: int
) -> None:
    number = 1
    while await run_into(operation, number, times):
        number += 1
    assert number > 1


async def test_without_room_from_the_first_write_on_everything_is_refused_and_then_goes_on() -> None:
    assert await run_into(Operation.APPEND, 1, LASTS[1])
    assert not asyncio.all_tasks() - {asyncio.current_task()}
