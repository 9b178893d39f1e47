"""Storage on the machine's disk, with threads: files that are gone are let go, and threads end."""

import contextlib
import errno
import os
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from danube.metadata.records.storage import add_tombstone
from danube.metadata.transaction_builder import TransactionBuilder, commit_transaction
from danube.runtime.disk import Buffer, LocalDisk
from danube.storage.retention.rules import Retention
from tests.unit.storage.store.storage_world import StorageWorld, always, fill, flush_all, read_all, storage_settings


class FullDisk(LocalDisk):
    """On which no more segments fit, once that is said."""

    is_full = False

    def create_whole(self, name: str, chunks: Sequence[Buffer]) -> None:
        if self.is_full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), name)
        super().create_whole(name, chunks)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[StorageWorld]:
    one = StorageWorld(FullDisk(tmp_path), threads=True)
    yield one
    await one.end()


def open_files() -> list[str]:
    """What this process has open."""
    found = []
    for link in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # of the listing itself
            found.append(str(link.readlink()))
    return found


def deleted_but_open(folder: Path) -> list[str]:
    """Files in a folder that are gone and still take up room, because this process has them open."""
    return [target for target in open_files() if target.startswith(str(folder)) and target.endswith("(deleted)")]


async def test_no_file_that_is_gone_is_kept_open(world: StorageWorld, tmp_path: Path) -> None:
    world.settings = storage_settings(journal={"cache_bytes_max": 0})  # else no journal file is read from
    storage = await world.open()
    log = storage.topic(1, 1)
    for number in range(8):  # enough for merges of merges
        await fill(log, 6, first=6 * number)
        await read_all(log)
        await flush_all(storage)
        await read_all(log)
    await storage.retain(always(Retention(None, 3_000)), lambda _: None)
    assert storage.stats.merged_segments > 0
    assert deleted_but_open(tmp_path) == []


async def test_what_is_deleted_on_a_full_disk_makes_room_at_once(world: StorageWorld, tmp_path: Path) -> None:
    storage = await world.open()
    log = storage.topic(1, 1)
    for number in range(5):
        await fill(log, 1, first=number)
        if number < 4:
            await flush_all(storage)
    await storage.journal.rotate()
    assert isinstance(world.disk, FullDisk)
    world.disk.is_full = True
    assert (await storage.flush()).failed == 1  # it was to merge what is there

    async def delete(builder: TransactionBuilder) -> None:
        add_tombstone(builder, 1)

    await commit_transaction(world.metadata, world.rng, delete)
    storage.forget(1)
    assert await storage.sweep_deleted() == 1
    assert deleted_but_open(tmp_path) == []


async def test_an_idle_topic_costs_no_file_and_no_task(world: StorageWorld, tmp_path: Path) -> None:
    storage = await world.open()
    for topic_id in range(1, 21):
        await fill(storage.topic(topic_id, 1), 2)
    await flush_all(storage)
    storage = await world.reopen()
    before = len(open_files())
    logs = [storage.topic(topic_id, 2) for topic_id in range(1, 21)]
    assert [log.durable_end for log in logs] == [2] * 20
    assert len(open_files()) == before


async def test_storage_works_again_after_it_was_closed_in_the_middle_of_its_work(world: StorageWorld) -> None:
    storage = await world.open()
    storage.start()
    log = storage.topic(1, 1)
    records = await fill(log, 60)
    await storage.journal.rotate()
    storage._tasks.spawn(storage.flush(), "a cut")
    storage = await world.reopen()
    assert await read_all(storage.topic(1, 2)) == records
