"""The fence of a journal: any byte in it ends its owner's right to acknowledge."""

import pytest

from danube.model.errors import DataFolderError
from danube.model.limits.broker import FENCE_BYTES_MAX
from danube.model.plans.durability import Durability
from danube.storage.journal.folder import FENCE_RECORD_BYTES, Fence
from danube.testing.simulated.disk import Operation, SimDisk
from tests.unit.storage.takeover.shared_world import SharedBroker, SharedWorld

FOLDER = "journals/1"


@pytest.fixture
def disk() -> SimDisk:
    return SimDisk()


@pytest.fixture
def fence(disk: SimDisk) -> Fence:
    fence = Fence(disk, FOLDER)
    fence.prepare()
    return fence


def test_a_new_fence_is_down_and_preparing_it_again_changes_nothing(fence: Fence) -> None:
    assert not fence.is_up()
    fence.put_up(2)
    fence.prepare()
    assert fence.is_up()


def test_a_fence_survives_a_power_cut_and_says_who_put_it_up(disk: SimDisk, fence: Fence) -> None:
    fence.put_up(2)
    after = Fence(disk.power_cut(), FOLDER)
    assert after.is_up()
    assert after.new_owners() == [2]


def test_a_torn_fence_counts_as_one(disk: SimDisk, fence: Fence) -> None:
    disk.open_append(f"{FOLDER}/fence").append([b"D"])
    assert fence.is_up()
    assert fence.new_owners() == []


def test_a_fence_that_is_not_there_counts_as_one_and_can_be_put_up(disk: SimDisk, fence: Fence) -> None:
    disk.remove(f"{FOLDER}/fence")
    assert fence.is_up()
    fence.put_up(3)
    assert fence.new_owners() == [3]


def test_a_taker_syncs_the_fence_of_one_that_died_before_its_own_sync(disk: SimDisk, fence: Fence) -> None:
    disk.fail(Operation.SYNC, name="*fence")
    with pytest.raises(OSError, match="Input/output"):
        fence.put_up(2)
    fence.put_up(3)
    assert Fence(disk.power_cut(), FOLDER).is_up()


def test_a_fence_does_not_grow_beyond_its_bound(disk: SimDisk, fence: Fence) -> None:
    for broker_id in range(FENCE_BYTES_MAX // FENCE_RECORD_BYTES + 10):
        fence.put_up(broker_id)
    assert len(disk.contents()[f"{FOLDER}/fence"]) <= FENCE_BYTES_MAX


async def test_a_journal_whose_fence_cannot_be_looked_at_acknowledges_nothing_more(world: SharedWorld) -> None:
    broker = await world.start(1)
    await broker.acquire(1)
    broker.disk.fail(Operation.READ, name="*fence")
    told = broker.append(1, b"0")
    assert "looking at the fence" in str(await told.error())
    assert broker.journal.stopped is not None


async def test_a_journal_that_was_removed_is_fenced_also_where_a_new_file_is_due(world: SharedWorld) -> None:
    """In a folder that is gone no file can be made: that ends when the broker goes on in another, and not before."""
    broker = await world.start(1)
    await broker.acquire(1)
    await broker.store(1, [b"0"])
    for name in world.disk.list(broker.folder):
        world.disk.remove(f"{broker.folder}/{name}")
    world.disk.remove_folder(broker.folder)
    assert "another broker has taken over" in str(await broker.append(1, bytes(4_096)).error())
    assert broker.journal.stopped is not None


async def test_a_start_whose_fence_cannot_be_read_says_so(world: SharedWorld) -> None:
    await world.start(1)
    disk = world.disk.join()
    disk.fail(Operation.READ, name="*fence")
    with pytest.raises(DataFolderError, match="fence"):
        await SharedBroker(world, 1, disk=disk).start()


async def test_a_journal_that_is_fenced_while_it_opens_is_not_shown(world: SharedWorld) -> None:
    first = await world.start(1)
    await first.acquire(1)
    await first.store(1, [b"0"])
    first.kill()
    Fence(world.disk, first.folder).put_up(2)
    again = await world.start(1)
    assert again.folder != first.folder


@pytest.mark.parametrize("durability", list(Durability))
async def test_in_a_shared_folder_every_round_is_synced_whatever_is_set(
    world: SharedWorld, durability: Durability
) -> None:
    world.durability = durability
    broker = await world.start(1)
    await broker.acquire(1)
    await broker.store(1, [b"0"])
    broker.topics[1].log.set_durability(Durability.OS)
    await broker.store(1, [b"1"])
    await world.power_cut()
    assert await (await world.start(1)).content(1) == [b"0", b"1"]
