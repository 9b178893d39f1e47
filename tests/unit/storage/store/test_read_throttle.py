"""Live messages first: a read of a history waits while the disk is unusually slow for the journal's syncs."""

import asyncio

import pytest

from danube.model.errors import OffsetTrimmedError
from danube.model.limits.broker import COLD_READ_WAIT_S_MAX
from danube.storage.log.topic_log import TopicLog
from danube.storage.retention.rules import Retention
from danube.storage.store import Storage
from danube.testing.simulated.clock import settle
from danube.testing.simulated.disk import SimFile
from tests.unit.storage.journal_world import in_batch, store
from tests.unit.storage.store.storage_world import StorageWorld, always, fill, flush_all, storage_settings

TOPIC, LIVE = 5, 6
ONE = 270  # bytes that one batch fits in
SLOW_S = 0.1


@pytest.fixture
async def storage(world: StorageWorld) -> Storage:
    """Nothing is read from memory."""
    world.settings = storage_settings(file_bytes_max=16_384, journal={"cache_bytes_max": 0})
    return await world.open()


@pytest.fixture
def log(storage: Storage) -> TopicLog:
    return storage.topic(TOPIC, 1)


async def sync_slowly(world: StorageWorld, storage: Storage, patch: pytest.MonkeyPatch) -> None:
    """Have one live message stored while the disk takes its time."""
    sync = SimFile.sync

    def slowly(file: SimFile) -> None:
        world.clock.advance(SLOW_S)
        sync(file)

    with patch.context() as patched:
        patched.setattr(SimFile, "sync", slowly)
        await store(storage.topic(LIVE, 1), b"live")


@pytest.mark.parametrize("is_flushed", [False, True], ids=["journal", "segments"])
async def test_a_read_waits_after_a_slow_sync_and_then_gets_what_it_asked_for(
    world: StorageWorld, storage: Storage, log: TopicLog, monkeypatch: pytest.MonkeyPatch, *, is_flushed: bool
) -> None:
    records = await fill(log, 16)
    if is_flushed:
        await flush_all(storage)
    await sync_slowly(world, storage, monkeypatch)
    reading = asyncio.ensure_future(log.read(0, ONE))
    await settle()
    assert not reading.done()
    await world.clock.run_for(COLD_READ_WAIT_S_MAX)
    (batch,) = await reading
    assert in_batch(batch, 0) == [records[0]]
    assert 0 < storage.stats.read_wait_s <= COLD_READ_WAIT_S_MAX


async def test_a_read_waits_for_nobody_where_syncs_are_as_quick_as_ever(storage: Storage, log: TopicLog) -> None:
    records = await fill(log, 16)
    await store(storage.topic(LIVE, 1), b"live")
    (batch,) = await log.read(0, ONE)
    assert in_batch(batch, 0) == [records[0]]
    assert storage.stats.read_wait_s == 0


async def test_a_replay_goes_on_though_the_disk_never_gets_better(
    world: StorageWorld, storage: Storage, log: TopicLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = await fill(log, 16)
    watch = storage.journal.sync_watch
    monkeypatch.setattr(watch, "read_wait_s", lambda _: COLD_READ_WAIT_S_MAX)
    began_s = world.clock.monotonic_s()
    for offset in range(4):
        reading = asyncio.ensure_future(log.read(offset, ONE))
        await world.clock.run_for(COLD_READ_WAIT_S_MAX)
        assert reading.done()
        assert in_batch(reading.result()[0], offset) == [records[offset]]
    assert world.clock.monotonic_s() - began_s == 4 * COLD_READ_WAIT_S_MAX


async def test_what_is_trimmed_while_a_read_waits_is_refused(
    world: StorageWorld, storage: Storage, log: TopicLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(log, 64)
    await flush_all(storage)
    await log.read(0, ONE)  # its file is open from now on
    await sync_slowly(world, storage, monkeypatch)
    reading = asyncio.ensure_future(log.read(0, ONE))
    await settle()
    await storage.retain(always(Retention(None, 1)), lambda _: None)
    await world.clock.run_for(COLD_READ_WAIT_S_MAX)
    with pytest.raises(OffsetTrimmedError):
        await reading
