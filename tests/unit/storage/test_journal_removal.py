"""Files of a journal go: whatever ends that half-way, and however full the disk is, nothing is lost by it."""

import contextlib

import pytest

from danube.model.errors import StorageUnavailableError
from danube.storage.journal import Journal
from danube.storage.journal.index import TopicBase
from danube.testing.simulated.disk import MachineOffError, Operation, SimDisk
from tests.unit.storage.journal_world import MARK, World, content, log_in, store
from tests.unit.storage.test_journal_files import FIRST, TOPIC, base_of

THIRD_FILE = "journal/0000000003.journal"


async def removable(world: World) -> tuple[Journal, TopicBase]:
    """A journal whose first two files may go, and what is in segments instead."""
    journal = await world.open()
    log = log_in(journal, TOPIC, 1)
    await store(log, b"a", b"b")
    await journal.rotate()
    await store(log, b"c")
    await journal.rotate()
    await store(log, b"d")
    base = base_of(journal, TOPIC)
    journal.drop_flushed(TOPIC, base.end_offset)
    return journal, base


def fill_up(disk: SimDisk) -> None:
    disk.capacity_bytes = sum(map(len, disk.contents().values()))


async def removed(journal: Journal) -> bool:
    try:
        await journal.remove_files(3)
    except MachineOffError:
        return False
    return True


@pytest.mark.parametrize("is_full", [False, True])
async def test_power_cut_at_every_change_of_a_removal_loses_nothing(*, is_full: bool) -> None:
    for cut in range(1, 60):
        for seed in range(6):
            world = World(SimDisk(seed))
            journal, base = await removable(world)
            if is_full:
                fill_up(world.disk)
            world.disk.stop_at(cut)
            ended = await removed(journal)
            after = world.after(world.disk.power_cut() if seed % 2 else world.disk.process_kill())
            journal = await after.open(bases={TOPIC: base})
            log = log_in(journal, TOPIC, 2)
            assert (log.start_offset, await content(log, 3)) == (3, [b"d"]), (cut, seed)
            after.disk.capacity_bytes = None
            assert await store(log, b"e") == [4]
            await world.close()
        if ended:
            return
    raise AssertionError("the removal never came to its end")


async def test_files_with_an_index_go_from_a_disk_without_any_room(world: World) -> None:
    journal, _ = await removable(world)
    before = world.disk.contents()
    fill_up(world.disk)
    freed = await journal.remove_files(3)
    assert set(world.disk.contents()) == {THIRD_FILE, FIRST, MARK}
    assert freed == sum(len(data) for name, data in before.items() if name not in world.disk.contents())


async def test_another_fault_than_a_full_disk_takes_no_index_away(world: World) -> None:
    journal, _ = await removable(world)
    before = world.disk.contents()
    world.disk.fail(Operation.APPEND, name=f"{FIRST}*")
    with pytest.raises(StorageUnavailableError):
        await journal.remove_files(3)
    assert {name: data for name, data in world.disk.contents().items() if name in before} == before


async def test_a_kill_in_a_removal_and_a_power_cut_in_the_start_after_it_lose_nothing() -> None:
    """That start sees names which are not durable yet: it must not have anything go by them before they are."""
    for died in range(1, 60):
        for cut in range(1, 60):
            starts = [await started_after_a_kill(died, cut, seed) for seed in range(4)]
            if all(is_whole for is_whole, _ in starts):
                break
        if all(was_whole for _, was_whole in starts):
            return
    raise AssertionError("the removal, or the start, never came to its end")


async def started_after_a_kill(died: int, cut: int, seed: int) -> tuple[bool, bool]:
    """A removal is killed and the power goes in the next start; answers whether start and removal came to their end."""
    world = World(SimDisk(seed))
    journal, base = await removable(world)
    world.disk.stop_at(died)
    was_whole = await removed(journal)
    killed = world.after(world.disk.process_kill())
    killed.disk.stop_at(cut)
    with contextlib.suppress(MachineOffError):
        await killed.open(bases={TOPIC: base})
    is_whole = not killed.disk.is_off
    after = killed.after(killed.disk.power_cut())
    assert await content(log_in(await after.open(bases={TOPIC: base}), TOPIC, 2), 3) == [b"d"], (died, cut, seed)
    await world.close()
    return is_whole, was_whole
