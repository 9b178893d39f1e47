"""What begins and fails leaves nothing behind: no file that stays open, and nobody who still writes."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from danube.metadata.records import keys
from danube.metadata.records.journals import JournalEntry, encode_journal
from danube.model.errors import DamagedDataError, DataFolderError, MetadataError
from danube.runtime.disk import LocalDisk
from danube.storage.journal.folder import Fence
from tests.unit.storage.store.storage_world import fill, read_all
from tests.unit.storage.takeover.storages_world import StoragesWorld

A = 1


@pytest.fixture
async def on_disk(tmp_path: Path) -> AsyncIterator[StoragesWorld]:
    """On a real disk, whose open files can be counted."""
    world = StoragesWorld(LocalDisk(tmp_path))
    await world.create(A)
    yield world
    await world.end()


def open_files() -> list[str]:
    """Of this process, but for the folder that they are listed from."""
    return sorted(str(link.readlink()) for link in Path("/proc/self/fd").iterdir() if link.is_symlink())


async def test_a_start_that_fails_once_its_journal_is_open_leaves_nobody_who_writes_to_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    storages = StoragesWorld(journal={"idle_mark_delay_s": 1.0})
    await storages.create(A)
    first = await storages.start(1)
    await first.acquire([A])
    records = await fill(first.topic(A), 5)
    storages.kill(1)
    await storages.journals.enter(1)
    newest = keys.stored_journal(first.journal.journal_id)
    await storages.metadata.put(
        newest, encode_journal(JournalEntry(first.journal.journal_id, 1, 0))
    )  # so it is opened before the other one is struck off

    async def fail(key: str) -> None:
        raise MetadataError(f"{key} is out of reach")

    with monkeypatch.context() as failing, pytest.raises(MetadataError):
        failing.setattr(storages.metadata, "delete", fail)
        await storages.start(1)
    again = await storages.start(1)
    records += await fill(again.topic(A), 5, first=5)
    await storages.clock.run_for(5.0)
    records += await fill(again.topic(A), 5, first=10)
    storages.kill(1)
    assert await read_all((await storages.start(1)).topic(A)) == records
    await storages.end()


async def test_a_start_whose_fence_cannot_be_read_any_more_leaves_no_file_open(
    on_disk: StoragesWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    await on_disk.start(1)
    await on_disk.stop(1)
    before, is_up, looks = open_files(), Fence.is_up, iter(range(1_000))

    def fail_at_the_last(self: Fence) -> bool:
        if next(looks) % 3 == 2:
            raise OSError(5, "Input/output error")
        return is_up(self)

    monkeypatch.setattr(Fence, "is_up", fail_at_the_last)
    for _ in range(3):
        with pytest.raises(DataFolderError, match="fence of the journal cannot be read"):
            await on_disk.start(1)
    assert open_files() == before


async def test_a_begin_that_cannot_read_what_it_has_to_append_again_leaves_no_file_open(
    on_disk: StoragesWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = await on_disk.start(1), await on_disk.start(2)
    await first.acquire([A])
    await fill(first.topic(A), 5)  # the last of them is above the mark
    before = open_files()
    monkeypatch.setattr("danube.storage.journal.reader.body_of_data", lambda *_: None)
    for _ in range(3):
        with pytest.raises(DamagedDataError):
            await second.acquire([A])
    assert open_files() == before
