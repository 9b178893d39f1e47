"""The file that is given up to delete something on a full disk."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from danube.data_folder.data_folder import open_data_folder
from danube.data_folder.disk_reserve import RESERVE, DiskReserve
from danube.model.errors import StorageUnavailableError
from danube.model.limits.broker import DISK_RESERVE_BYTES_MAX, MIB
from danube.runtime.disk import DiskRoom, LocalDisk
from danube.runtime.rng import SystemRng
from danube.storage.batches.stored_batch import AppendDone
from danube.storage.disk_space import Watermarks
from tests.unit.storage.store.storage_world import StorageWorld


class Room:
    """A disk's size as a test says."""

    def __init__(self, free_mib: int, total_mib: int = 1_000) -> None:
        self.now = DiskRoom(free_mib * MIB, total_mib * MIB)

    def room(self) -> DiskRoom:
        return self.now


def ignore(_: object) -> None:
    return None


IGNORED: AppendDone = ignore


@pytest.fixture
async def world() -> AsyncIterator[StorageWorld]:
    one = StorageWorld(watermarks=Watermarks(warn_below_bytes=0, refuse_below_bytes=0))
    one.sim.capacity_bytes = 10 * MIB
    yield one
    await one.end()


async def reserve_of(world: StorageWorld, folder: Path, room: Room) -> DiskReserve:
    reserve, storage = DiskReserve(folder, room), await world.open()
    await asyncio.to_thread(reserve.follow, storage.note_reserve)
    return reserve


@pytest.mark.parametrize(("total_mib", "size"), [(1_000, DISK_RESERVE_BYTES_MAX), (64, 4 * MIB)])
async def test_it_takes_room_on_the_disk_and_of_a_small_one_little(
    world: StorageWorld, tmp_path: Path, total_mib: int, size: int
) -> None:
    await asyncio.to_thread((await reserve_of(world, tmp_path, Room(60, total_mib))).keep)
    found = (tmp_path / RESERVE).stat()
    assert found.st_size == size
    assert found.st_blocks * 512 >= size


async def test_it_is_not_made_where_it_would_take_the_last_room(world: StorageWorld, tmp_path: Path) -> None:
    await asyncio.to_thread((await reserve_of(world, tmp_path, Room(31))).keep)
    assert not (tmp_path / RESERVE).exists()


async def test_it_is_given_up_on_a_full_disk_alone_and_messages_wait_until_it_is_there_again(
    world: StorageWorld, tmp_path: Path
) -> None:
    room = Room(100)
    reserve = await reserve_of(world, tmp_path, room)
    await asyncio.to_thread(reserve.keep)
    assert await asyncio.to_thread(reserve.make_room)
    assert (tmp_path / RESERVE).stat().st_size
    room.now = DiskRoom(MIB, 1_000 * MIB)
    assert await asyncio.to_thread(reserve.make_room)
    assert not (tmp_path / RESERVE).stat().st_size
    log = world.storage.topic(1, 1)
    for free_mib in (17, 31):
        room.now = DiskRoom(free_mib * MIB, 1_000 * MIB)
        await asyncio.to_thread(reserve.keep)
        with pytest.raises(StorageUnavailableError):
            log.append_record(b"no", IGNORED)
    room.now = DiskRoom(100 * MIB, 1_000 * MIB)
    await asyncio.to_thread(reserve.keep)
    log.append_record(b"yes", IGNORED)


async def test_messages_wait_over_a_restart_for_a_reserve_that_was_given_up(
    world: StorageWorld, tmp_path: Path
) -> None:
    room = Room(100)
    before = DiskReserve(tmp_path, room)
    await asyncio.to_thread(before.keep)
    room.now = DiskRoom(0, 1_000 * MIB)
    assert not await asyncio.to_thread(before.make_room)
    room.now = DiskRoom(20 * MIB, 1_000 * MIB)
    reserve = await reserve_of(world, tmp_path, room)
    await asyncio.to_thread(reserve.keep)
    with pytest.raises(StorageUnavailableError, match="kept back is in use"):
        world.storage.topic(1, 1).append_record(b"no", IGNORED)


def test_a_start_on_a_full_disk_gives_it_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reserve = tmp_path / RESERVE
    for free_bytes, is_kept in ((100 * MIB, True), (0, False)):
        room = DiskRoom(free_bytes, 1_000 * MIB)
        monkeypatch.setattr(LocalDisk, "room", lambda _disk, room=room: room)
        folder = open_data_folder(tmp_path, SystemRng())
        folder.reserve.keep()
        assert bool(reserve.stat().st_size) is is_kept
        folder.lock.release()
