"""Reading a history in order: fewer hand-offs to the thread, the same answers, and none that should be refused."""

from collections.abc import Callable
from typing import TypeVar

import pytest

from danube.model.errors import DamagedDataError, OffsetTrimmedError
from danube.model.limits.broker import READ_AHEAD_ANSWERS
from danube.runtime.blocking import InlineRunner
from danube.storage.log.read_ahead import ReadAhead
from danube.storage.log.topic_log import TopicLog
from danube.storage.retention.rules import Retention
from danube.storage.store import Storage
from tests.unit.storage.journal_world import in_batch
from tests.unit.storage.store.storage_world import StorageWorld, always, fill, flush_all, read_all, storage_settings

TOPIC = 5
ONE = 270  # bytes that one batch fits in, and READ_AHEAD_ANSWERS of them hold as many batches
T = TypeVar("T")


class CountingRunner(InlineRunner):
    """Counts what is handed over."""

    def __init__(self) -> None:
        self.handed_over = 0

    async def run(self, work: Callable[[], T]) -> T:
        self.handed_over += 1
        return await super().run(work)


@pytest.fixture
def runner(world: StorageWorld) -> CountingRunner:
    runner = CountingRunner()
    world.runners["read_runner"] = runner
    return runner


@pytest.fixture
async def storage(world: StorageWorld, runner: CountingRunner) -> Storage:
    """Nothing is read from memory."""
    world.settings = storage_settings(file_bytes_max=16_384, journal={"cache_bytes_max": 0})
    return await world.open()


@pytest.fixture
def log(storage: Storage) -> TopicLog:
    return storage.topic(TOPIC, 1)


@pytest.mark.parametrize("is_flushed", [False, True], ids=["journal", "segments"])
async def test_who_reads_in_order_hands_over_a_fraction_of_the_reads(
    storage: Storage, log: TopicLog, runner: CountingRunner, *, is_flushed: bool
) -> None:
    records = await fill(log, 64)
    if is_flushed:
        await flush_all(storage)
    runner.handed_over = 0
    assert await read_all(log, bytes_max=ONE) == records
    reads = 1 + 63 / READ_AHEAD_ANSWERS
    assert reads <= runner.handed_over <= reads + 1


async def test_who_reads_in_order_but_slowly_is_read_for_as_it_asks(
    world: StorageWorld, log: TopicLog, runner: CountingRunner
) -> None:
    records = await fill(log, 40)
    runner.handed_over = 0
    for offset in range(40):
        (batch,) = await log.read(offset, ONE)
        assert in_batch(batch, offset) == [records[offset]]
        assert ahead_of(log).bytes == 0
        world.clock.advance(0.1)
    assert runner.handed_over == 40


async def test_readers_at_several_places_of_one_topic_each_get_theirs(log: TopicLog) -> None:
    records = await fill(log, 40)
    places = [0, 1, 10, 11]
    for _ in range(20):
        for reader, at in enumerate(places):
            (batch,) = await log.read(at, ONE)
            assert (batch.base_offset, in_batch(batch, at)) == (at, [records[at]])
            places[reader] = batch.end_offset


async def test_damage_ahead_of_a_reader_is_told_only_to_who_asks_for_it(world: StorageWorld, log: TopicLog) -> None:
    await fill(log, 6)
    index = log._topic.index
    assert index is not None
    world.sim.flip_bit("journal/0000000001.journal", index[3].position + 100)
    for offset in (0, 1, 2):
        assert [batch.base_offset for batch in await log.read(offset, ONE)] == [offset]
    with pytest.raises(DamagedDataError):
        await log.read(3, ONE)


@pytest.mark.parametrize("is_flushed", [False, True], ids=["journal", "segments"])
@pytest.mark.parametrize("bytes_max", [1, ONE, 1 << 20])
async def test_all_that_is_sound_before_damage_is_read_and_the_damage_is_told_behind_it(
    world: StorageWorld, storage: Storage, log: TopicLog, bytes_max: int, *, is_flushed: bool
) -> None:
    records = await fill(log, 120, size=1_000)
    if is_flushed:
        await flush_all(storage)
    for name, data in world.sim.contents().items():
        if (at := data.find(records[100])) >= 0:
            world.sim.flip_bit(name, at + 50)
    found, offset = [], 0
    with pytest.raises(DamagedDataError):
        while True:
            batches = await log.read(offset, bytes_max)
            found += [one for batch in batches for one in in_batch(batch, offset)]
            offset = batches[-1].end_offset
    assert 60 < len(found) <= 100  # a block of a segment has one checksum for all that is in it
    assert found == records[: len(found)]
    assert is_flushed or len(found) == 100


async def test_what_retention_took_is_not_answered_from_what_was_read_ahead(storage: Storage, log: TopicLog) -> None:
    await fill(log, 100)
    await flush_all(storage)
    for offset in (0, 1):
        await log.read(offset, ONE)
    await storage.retain(always(Retention(None, max_bytes=8_000)), lambda _: None)
    assert ahead_of(log).bytes > 0
    with pytest.raises(OffsetTrimmedError):
        await log.read(2, ONE)


async def test_a_closed_log_keeps_nothing_that_was_read_ahead(log: TopicLog) -> None:
    await fill(log, 10)
    for offset in (0, 1):
        await log.read(offset, ONE)
    assert ahead_of(log).bytes > 0
    log.close()
    assert ahead_of(log).bytes == 0


def ahead_of(log: TopicLog) -> ReadAhead:
    """Batches that were read ahead for the log."""
    assert log._cold is not None
    return log._cold.ahead
