"""Readers whose file goes away under them: merged, let go, cut. Never a wrong byte, never a gap."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import TypeVar

import pytest

from danube.model.errors import OffsetTrimmedError
from danube.storage.log.topic_log import TopicLog
from danube.storage.retention.rules import Retention
from danube.storage.store import Storage
from danube.testing.patience import PATIENCE_S
from danube.testing.simulated.clock import settle
from tests.unit.storage.store.storage_world import StorageWorld, always, fill, flush_all, read_all, records_from

T = TypeVar("T")
TOPIC = 5


class LateRunner:
    """Runs work inline, but a piece that was asked to wait is done only when told to: after whatever came later."""

    def __init__(self) -> None:
        self._next_waits = False
        self._told = asyncio.Event()
        self.waiting = asyncio.Event()

    def make_next_wait(self) -> None:
        self._next_waits = True

    def go_on(self) -> None:
        self._told.set()

    async def run(self, work: Callable[[], T]) -> T:
        if self._next_waits:
            self._next_waits = False
            self.waiting.set()
            await self._told.wait()
        return work()

    def rest(self) -> None:
        return None

    def close(self) -> None:
        return None

    async def aclose(self) -> None:
        return None


@pytest.fixture
async def late() -> AsyncIterator[LateRunner]:
    one = LateRunner()
    yield one
    one.go_on()


@pytest.fixture
async def storage(world: StorageWorld, late: LateRunner) -> Storage:
    world.settings = type(world.settings)(
        journal=type(world.settings.journal)(file_bytes_max=4_096, cache_bytes_max=0),
        segment_bytes_max=world.settings.segment_bytes_max,
    )
    return await world.open(read_runner=late)


async def while_it_reads(late: LateRunner, log: TopicLog, offset: int, change: Callable[[], object]) -> list[bytes]:
    """Begin a read, have the change done before a byte is read, and answer what the read found."""
    await settle()  # nothing else is to be done in the readers' thread
    late.make_next_wait()
    async with asyncio.timeout(PATIENCE_S):
        reading = asyncio.ensure_future(log.read(offset, 1_000))
        await late.waiting.wait()
        result = change()
        if asyncio.iscoroutine(result):
            await result
        late.go_on()
        return records_from(await reading, offset)


async def test_a_reader_of_a_journal_file_that_is_cut_goes_on_in_the_segment(
    storage: Storage, late: LateRunner
) -> None:
    log = storage.topic(TOPIC, 1)
    records = await fill(log, 60)
    await storage.journal.rotate()
    found = await while_it_reads(late, log, 3, storage.flush)
    assert found
    assert found == records[3 : 3 + len(found)]


async def test_a_reader_of_a_segment_that_is_merged_goes_on_in_the_merged_one(
    storage: Storage, late: LateRunner, world: StorageWorld
) -> None:
    log = storage.topic(TOPIC, 1)
    records: list[bytes] = []
    for number in range(3):
        records += await fill(log, 2, first=2 * number)
        await flush_all(storage)
    segments = [name for name in world.files(f"segments/{TOPIC}") if name.endswith(".segment")]

    async def merge() -> None:
        records.extend(await fill(log, 2, first=6))
        await flush_all(storage)

    found = await while_it_reads(late, log, 1, merge)
    assert not set(segments) & set(world.files(f"segments/{TOPIC}"))
    assert found == records[1 : 1 + len(found)]


async def test_a_reader_of_what_retention_lets_go_is_told_so(storage: Storage, late: LateRunner) -> None:
    log = storage.topic(TOPIC, 1)
    await fill(log, 60)
    await flush_all(storage)
    with pytest.raises(OffsetTrimmedError):
        await while_it_reads(late, log, 0, lambda: storage.retain(always(Retention(None, 3_000)), lambda _: None))


async def test_a_time_is_found_though_what_it_is_in_is_cut_meanwhile(
    storage: Storage, late: LateRunner, world: StorageWorld
) -> None:
    log = storage.topic(TOPIC, 1)
    for number in range(6):
        await fill(log, 1, first=number)
        world.clock.advance(1)
    await flush_all(storage)
    wanted_ms = await log.append_time_ms(4)
    assert wanted_ms is not None
    await fill(log, 30, first=6)
    await storage.journal.rotate()
    await settle()  # nothing else is to be done in the readers' thread
    late.make_next_wait()
    async with asyncio.timeout(PATIENCE_S):
        asking = asyncio.ensure_future(log.offset_at(wanted_ms))
        await late.waiting.wait()
        await storage.flush()
        late.go_on()
        assert await asking == 4


async def test_a_read_answers_nothing_at_the_durable_end_and_beyond(storage: Storage) -> None:
    log = storage.topic(TOPIC, 1)
    assert await log.read(0, 1_000) == []
    await fill(log, 3)
    await flush_all(storage)
    assert await log.read(3, 1_000) == []
    assert await read_all(log, 1)
