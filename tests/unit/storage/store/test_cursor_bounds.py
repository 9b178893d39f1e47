"""Cursors that stand beyond their log."""

import asyncio

from danube.model.plans.durability import Durability
from danube.model.subscription import Cursor
from danube.storage.batches.batch import encode_messages
from danube.testing.simulated.clock import end_tasks
from tests.unit.storage.journal_world import Told
from tests.unit.storage.store.storage_world import StorageWorld, fill, flush_all, storage_settings


async def test_a_cursor_that_lost_its_messages_in_a_power_cut_is_brought_back_for_good(
    world: StorageWorld,
) -> None:
    world.settings = storage_settings(journal={"durability": Durability.OS}, file_bytes_max=1_000_000)
    storage = await world.open()
    log = storage.topic(1, 1)
    await fill(log, 10)
    await storage.journal.rotate()
    await fill(log, 10, first=10)  # written, and not on the disk yet
    saved = Told()
    log.save_cursor(4, Cursor(20), saved)
    await saved.outcome()
    await storage.flush()
    storage = await world.after_power_cut()
    log = storage.topic(1, 2)
    end = log.durable_end
    assert log.cursor(4) == Cursor(min(20, end))
    await fill(log, 15, first=end)
    log = (await world.reopen()).topic(1, 3)
    assert log.cursor(4) == Cursor(min(20, end))
    await flush_all(world.storage)


async def test_cursors_that_were_brought_back_are_on_the_disk_before_anything_is_appended(world: StorageWorld) -> None:
    world.settings = storage_settings(journal={"durability": Durability.OS}, file_bytes_max=1_000_000)
    storage = await world.open()
    log = storage.topic(1, 1)
    await fill(log, 10)
    await storage.journal.rotate()
    await fill(log, 40, first=10)
    for subscription_id in range(30):
        log.save_cursor(subscription_id, Cursor(50))
    last = Told()
    log.save_cursor(30, Cursor(50), last)
    await last.outcome()
    await storage.flush()
    world.sim.chance.seed(2)
    log = (await world.after_power_cut()).topic(1, 2)
    end = log.durable_end
    assert end < 30
    first_round = asyncio.Event()
    log.on_durable(lambda _: first_round.set())
    for number in range(50):
        log.append_batch(encode_messages([b"%d" % number * 400]), Told())
    await first_round.wait()
    world.disk = world.sim.process_kill()
    world._open.clear()
    await end_tasks(world.clock)
    log = (await world.open()).topic(1, 3)
    assert {log.cursor(subscription_id) for subscription_id in range(31)} == {Cursor(end)}
