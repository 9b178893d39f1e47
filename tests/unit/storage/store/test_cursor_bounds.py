"""Cursors that stand beyond their log."""

from danube.model.subscription import Cursor
from danube.storage.journal import Durability
from tests.unit.storage.journal_world import Told
from tests.unit.storage.store.storage_world import StorageWorld, cut_all, fill, storage_settings


async def test_a_cursor_that_lost_its_messages_in_a_power_cut_is_brought_back_for_good(
    world: StorageWorld,
) -> None:
    world.settings = storage_settings(journal={"durability": Durability.OS}, file_bytes_max=1_000_000)
    storage = await world.open()
    log = storage.topic(1, 1)
    await fill(log, 10)
    await storage._journal.rotate()
    await fill(log, 10, first=10)  # written, and not on the disk yet
    saved = Told()
    log.save_cursor(4, Cursor(20), saved)
    await saved.outcome()
    await storage.cut()
    storage = await world.after_power_cut()
    log = storage.topic(1, 2)
    end = log.durable_end
    assert log.cursor(4) == Cursor(min(20, end))
    await fill(log, 15, first=end)
    log = (await world.reopen()).topic(1, 3)
    assert log.cursor(4) == Cursor(min(20, end))
    await cut_all(world.storage)
