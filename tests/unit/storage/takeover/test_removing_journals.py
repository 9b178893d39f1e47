"""Journals go when they were fenced and struck off, and no topic's record names them; nothing else goes."""

import errno
from collections.abc import AsyncIterator

import pytest

from danube.metadata.records.storage import EpochRange, TopicStorage
from danube.model.limits.broker import JOURNALS_LOOK_S
from danube.runtime.blocking import InlineRunner
from danube.storage.journal.folder import Fence, journal_folder
from danube.storage.takeover.journal_removal import JournalRemover, named_journals
from danube.testing.simulated.disk import Operation, SimDisk
from tests.unit.storage.store.storage_world import fill
from tests.unit.storage.takeover.storages_world import StoragesWorld, fall_behind, flush_whole

A, OWN = 1, 99


@pytest.fixture
async def world() -> AsyncIterator[StoragesWorld]:
    one = StoragesWorld()
    await one.create(A)
    yield one
    await one.end()


def remover(world: StoragesWorld) -> JournalRemover:
    return JournalRemover(world.disk, world.records, world.journals, InlineRunner(), own_id=OWN)


def make_journal(world: StoragesWorld, journal_id: int) -> str:
    folder = journal_folder(journal_id)
    Fence(world.disk, folder).prepare()
    world.disk.create(f"{folder}/0000000001.journal").close()
    return folder


def test_every_journal_that_an_epoch_is_in_is_named() -> None:
    records = [TopicStorage(1, 3, (EpochRange(1, 10, 0, 5), EpochRange(2, 20, 5))), TopicStorage(2)]
    assert named_journals(records) == {10, 20}


async def test_a_journal_that_is_not_entered_was_struck_off_and_goes(world: StoragesWorld) -> None:
    folder = make_journal(world, 5)
    assert await remover(world).remove_unneeded() == 1
    assert not world.disk.exists(folder)


async def test_ones_own_journal_and_folders_of_other_names_stay(world: StoragesWorld) -> None:
    own = make_journal(world, OWN)
    world.disk.make_folder("journals/notes")
    assert await remover(world).remove_unneeded() == 0
    assert world.disk.exists(own)
    assert world.disk.exists("journals/notes")


async def test_a_journal_whose_owner_is_about_to_make_it_stays(world: StoragesWorld) -> None:
    entry = await world.journals.enter(7)
    world.disk.make_folder(journal_folder(entry.journal_id))
    assert await remover(world).remove_unneeded() == 0
    assert entry.journal_id in await world.journals.all()


async def test_a_journal_that_was_entered_since_this_broker_heard_of_the_metadata_stays(world: StoragesWorld) -> None:
    first, second = await world.start(1), await world.start(2)
    fall_behind(world)
    third = await world.start(3)
    await third.acquire([A])
    assert [await first.remove_journals(), await second.remove_journals()] == [0, 0]
    assert world.disk.exists(third.journal_folder)
    assert len(await fill(third.topic(A), 5)) == 5


async def test_a_fenced_journal_is_struck_off_also_while_a_record_names_it(world: StoragesWorld) -> None:
    entry = await world.journals.enter(7)
    folder = make_journal(world, entry.journal_id)
    await world.records.seal(await world.records.get(A), (EpochRange(1, entry.journal_id, 0),))
    Fence(world.disk, folder).put_up(8)
    assert await remover(world).remove_unneeded() == 0
    assert await world.journals.all() == {}
    assert world.disk.exists(folder)


async def test_the_fence_is_the_last_file_that_goes(world: StoragesWorld) -> None:
    assert isinstance(world.disk, SimDisk)
    folder = make_journal(world, 5)
    world.disk.fail(Operation.REMOVE, 2, error=errno.EIO)
    assert await remover(world).remove_unneeded() == 0
    assert world.disk.list(folder) == ["fence"]
    assert await remover(world).remove_unneeded() == 1


async def test_a_journal_that_cannot_be_removed_or_looked_at_keeps_no_other(world: StoragesWorld) -> None:
    assert isinstance(world.disk, SimDisk)
    stays, goes = make_journal(world, 5), make_journal(world, 6)
    unreadable, fenced = [await world.journals.enter(number) for number in (7, 8)]
    for entry in (unreadable, fenced):
        Fence(world.disk, make_journal(world, entry.journal_id)).put_up(9)
    world.disk.fail(Operation.REMOVE, name=f"{stays}/*", error=errno.EIO)
    world.disk.fail(Operation.READ, name=f"{journal_folder(unreadable.journal_id)}/*", error=errno.EIO)
    assert await remover(world).remove_unneeded() == 2
    assert not world.disk.exists(goes)
    assert [*await world.journals.all()] == [unreadable.journal_id]
    assert await remover(world).remove_unneeded() == 2
    assert world.folders() == []


async def test_a_storage_removes_them_in_the_background(world: StoragesWorld) -> None:
    first, second = await world.start(1), await world.start(2)
    await first.acquire([A])
    await fill(first.topic(A), 30)
    world.kill(1)
    await second.acquire([A])
    await flush_whole(second)
    second.start()
    await world.clock.run_for(JOURNALS_LOOK_S + 1)
    assert world.folders() == [second.journal_folder.rpartition("/")[2]]
