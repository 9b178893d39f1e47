"""A cut that ends anywhere: nothing is lost, nothing is doubled, and the next one comes to the same end."""

import pytest

from danube.model.subscription import Cursor
from danube.storage.store import Storage
from danube.testing.simulated.clock import end_tasks
from danube.testing.simulated.disk import MachineOffError, SimDisk
from tests.unit.storage.journal_world import Told
from tests.unit.storage.store.storage_world import StorageWorld, fill, flush_all, read_all

TOPICS = (1, 2, 3)
CURSOR = Cursor(7)


async def seeded(world: StorageWorld) -> dict[int, list[bytes]]:
    """Three topics with segments, batches in closed files and a cursor; the third has only a cursor in these."""
    storage = await world.open()
    records = {topic_id: await fill(storage.topic(topic_id, 1), 12) for topic_id in TOPICS}
    await flush_all(storage)
    for topic_id in TOPICS[:2]:
        records[topic_id] += await fill(storage.topic(topic_id, 1), 12, first=12)
    saved = Told()
    storage.topic(3, 1).save_cursor(9, CURSOR, saved)
    await saved.outcome()
    await storage.journal.rotate()
    await world.close()
    return records


async def changes_of_a_flush() -> int:
    """How many changes of the disk one cut of the seeded world makes."""
    world = StorageWorld()
    await seeded(world)
    storage = await world.open()
    before = world.sim.changes_done
    await storage.flush()
    done = world.sim.changes_done - before
    await world.end()
    return done


async def check(storage: Storage, records: dict[int, list[bytes]]) -> None:
    for topic_id, expected in records.items():
        assert await read_all(storage.topic(topic_id, 2)) == expected
    assert storage.topic(3, 2).cursor(9) == CURSOR


@pytest.mark.parametrize("ending", ["power", "kill"])
async def test_a_cut_that_ends_at_any_step_is_made_again_to_the_same_end(ending: str) -> None:
    changes = await changes_of_a_flush()
    assert changes > 20
    for step in range(1, changes + 1):
        world = StorageWorld(SimDisk(seed=step))
        records = await seeded(world)
        storage = await world.open()
        world.sim.stop_at(step)
        with pytest.raises(MachineOffError):
            await storage.flush()
        await end_tasks(world.clock)
        world.disk = world.sim.power_cut() if ending == "power" else world.sim.process_kill()
        storage = await world.open()
        await check(storage, records)
        await flush_all(storage)
        await check(storage, records)
        assert len([name for name in world.files("journal") if name.endswith(".journal")]) == 1
        await storage.sweep_orphans()
        check_folders(storage, world)
        await world.end()


def check_folders(storage: Storage, world: StorageWorld) -> None:
    """Nothing is left in the folders of segments but what the newest manifests name."""
    for topic_id in TOPICS:
        history = storage.topics.histories.get(topic_id)
        assert history is not None
        segments = [f"{one.base_offset:020d}-{one.manifest_version:010d}.segment" for one in history.manifest.segments]
        assert world.files(f"segments/{topic_id}") == sorted([*segments, f"{history.manifest.version:010d}.manifest"])
