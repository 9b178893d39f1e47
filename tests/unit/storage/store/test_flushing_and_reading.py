"""What is cut is read as before: same records, same offsets, whatever keeps them."""

from danube.model.subscription import Cursor
from tests.unit.storage.journal_world import Told
from tests.unit.storage.store.storage_world import StorageWorld, fill, flush_all, read_all

TOPIC = 5


async def test_what_was_flushed_is_read_back_as_it_was_appended(world: StorageWorld) -> None:
    storage = await world.open()
    log = storage.topic(TOPIC, 1)
    records = await fill(log, 60)
    await flush_all(storage)
    assert await read_all(log) == records
    assert (log.start_offset, log.durable_end) == (0, 60)


async def test_a_cut_frees_the_journal_files_that_it_read(world: StorageWorld) -> None:
    storage = await world.open()
    await fill(storage.topic(TOPIC, 1), 60)
    before = world.files("journal")
    await flush_all(storage)
    after = world.files("journal")
    assert len([name for name in before if name.endswith(".journal")]) > 3
    assert len([name for name in after if name.endswith(".journal")]) == 1


async def test_after_a_restart_everything_is_where_it_was(world: StorageWorld) -> None:
    storage = await world.open()
    records = await fill(storage.topic(TOPIC, 1), 40)
    await flush_all(storage)
    records += await fill(storage.topic(TOPIC, 1), 20, first=40)
    storage = await world.reopen()
    log = storage.topic(TOPIC, 2)
    assert await read_all(log) == records
    assert await fill(log, 1, first=60) and log.durable_end == 61


async def test_a_cursor_outlives_the_journal_files_that_it_was_in(world: StorageWorld) -> None:
    storage = await world.open()
    log = storage.topic(TOPIC, 1)
    await fill(log, 30)
    saved = Told()
    log.save_cursor(9, Cursor(17), saved)
    assert await saved.outcome() is None
    await flush_all(storage)
    log = (await world.reopen()).topic(TOPIC, 2)
    assert log.cursor(9) == Cursor(17)
