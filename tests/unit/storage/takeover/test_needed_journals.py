"""Which former owners' journals are needed to begin with a topic: those are read, and no others are even opened."""

import pytest

from danube.metadata.records.storage import TopicStorage
from danube.model.errors import DamagedDataError, LimitReachedError, StorageUnavailableError
from danube.model.subscription import Cursor
from danube.runtime.disk import File
from danube.storage.journal.folder import journal_folder
from tests.unit.storage.store.storage_world import fill, read_all
from tests.unit.storage.takeover.storages_world import SUBSCRIPTION, StoragesWorld, flush_whole, save, stop_at

A, B = 1, 2


async def release(storages: StoragesWorld, number: int) -> None:
    log = storages.storage(number).topic(A)
    await storages.storage(number).release(A, lambda: stop_at(log))


async def release_with_all_but_the_position_in_segments(storages: StoragesWorld, number: int = 1) -> str:
    """Answers the folder of the journal that has the position, 30."""
    storage = await storages.start(number)
    await storage.acquire([A])
    await fill(storage.topic(A), 30)
    await save(storage.topic(A), 10)
    await flush_whole(storage)
    await save(storage.topic(A), 30)
    await release(storages, number)
    return storage.journal_folder


def first_file(storages: StoragesWorld, folder: str) -> str:
    return f"{folder}/{min(name for name in storages.disk.list(folder) if name.endswith('.journal'))}"


async def test_a_position_is_found_in_the_newest_journal_though_every_message_is_in_segments(
    storages: StoragesWorld,
) -> None:
    await release_with_all_but_the_position_in_segments(storages)
    second = await storages.start(2)
    await second.acquire([A])
    assert second.topic(A).cursor(SUBSCRIPTION) == Cursor(30)


async def test_a_topic_whose_newest_journal_is_gone_is_refused_though_every_message_is_in_segments(
    storages: StoragesWorld,
) -> None:
    folder = await release_with_all_but_the_position_in_segments(storages)
    await storages.stop(1)
    for name in storages.disk.list(folder):
        storages.disk.remove(f"{folder}/{name}")
    storages.disk.remove_folder(folder)
    second = await storages.start(2)
    with pytest.raises(StorageUnavailableError, match="not in the shared folder"):
        await second.acquire([A])
    assert second.owned == frozenset()


async def test_a_manifest_that_others_have_replaced_since_this_broker_heard_of_the_topic_is_no_damage(
    storages: StoragesWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    await release_with_all_but_the_position_in_segments(storages)
    heard = await storages.records.get(A)
    second, third = await storages.start(2), await storages.start(3)
    await second.acquire([A])
    await fill(second.topic(A), 10, first=30)
    await flush_whole(second)
    await release(storages, 2)
    get = storages.records.get

    async def late(topic_id: int, *, linearizable: bool = False) -> TopicStorage:
        return await get(topic_id) if linearizable else heard

    monkeypatch.setattr(storages.records, "get", late)
    assert await third.acquire([A]) == {A}
    assert len(await read_all(third.topic(A))) == 40


async def test_a_topic_whose_newest_journal_is_damaged_at_its_beginning_is_refused_with_file_and_byte(
    storages: StoragesWorld,
) -> None:
    name = first_file(storages, await release_with_all_but_the_position_in_segments(storages))
    await storages.stop(1)
    storages.disk.flip_bit(name, 20)  # type: ignore[attr-defined]
    second = await storages.start(2)
    with pytest.raises(DamagedDataError, match=f"{name} is damaged at byte 0"):
        await second.acquire([A])


async def test_a_dead_owners_journal_that_is_damaged_at_its_beginning_is_told_with_file_and_byte(
    storages: StoragesWorld,
) -> None:
    first, second = await storages.start(1), await storages.start(2)
    await first.acquire([A])
    await fill(first.topic(A), 10)
    name = first_file(storages, first.journal_folder)
    storages.kill(1)
    storages.disk.flip_bit(name, 20)  # type: ignore[attr-defined]
    with pytest.raises(DamagedDataError, match=f"{name} is damaged at byte 0"):
        await second.acquire([A])


async def test_an_older_journal_that_is_damaged_keeps_no_topic_from_being_taken_that_does_not_need_it(
    storages: StoragesWorld,
) -> None:
    first, second, third = await storages.start(1), await storages.start(2), await storages.start(3)
    await first.acquire([A])
    await fill(first.topic(A), 10)
    await release(storages, 1)
    await second.acquire([A, B])
    records = await fill(second.topic(B), 10)
    storages.kill(2)
    await storages.stop(1)
    name = first_file(storages, first.journal_folder)
    storages.disk.flip_bit(name, 20)  # type: ignore[attr-defined]
    with pytest.raises(DamagedDataError, match=f"{name} is damaged"):
        await third.acquire([A, B])
    assert third.owned == {B}
    assert await read_all(third.topic(B)) == records


@pytest.mark.parametrize("at_once", [1, 2])
async def test_a_topic_with_too_many_owners_keeps_no_other_from_being_taken(
    storages: StoragesWorld, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr("danube.storage.takeover.takeover.STORAGE_POINTERS_MAX", at_once)
    first, second, third = await storages.start(1), await storages.start(2), await storages.start(3)
    await first.acquire([B])
    await fill(first.topic(B), 10)
    log = first.topic(B)
    await first.release(B, lambda: stop_at(log))
    await second.acquire([A, B])
    await fill(second.topic(B), 10, first=10)
    storages.kill(2)
    monkeypatch.setattr("danube.metadata.records.storage.TOPIC_EPOCHS_MAX", 2)
    with pytest.raises(LimitReachedError, match="let its owner cut first"):
        await third.acquire([A, B])
    assert third.owned == {A}


async def test_a_position_in_an_older_journal_says_nothing_against_a_newer_one(storages: StoragesWorld) -> None:
    first, second, third = await storages.start(1), await storages.start(2), await storages.start(3)
    await first.acquire([A])
    records = await fill(first.topic(A), 10)
    await save(first.topic(A), 2)
    await release(storages, 1)
    await second.acquire([A])
    records += await fill(second.topic(A), 10, first=10)
    await save(second.topic(A), 20)
    await release(storages, 2)
    await third.acquire([A])
    assert third.topic(A).cursor(SUBSCRIPTION) == Cursor(20)
    assert await read_all(third.topic(A)) == records


async def test_journals_that_a_topic_does_not_need_may_change_and_go_while_it_is_begun_with(
    storages: StoragesWorld,
) -> None:
    first, second, third = await storages.start(1), await storages.start(2), await storages.start(3)
    await second.acquire([B])
    await first.acquire([A])
    records = await fill(first.topic(A), 5)
    await release(storages, 1)
    storages.disk.make_folder(journal_folder(9))
    opened = watched(storages, 3)
    assert await third.acquire([A]) == {A}
    assert await read_all(third.topic(A)) == records
    assert first.journal_folder in opened
    assert {second.journal_folder, journal_folder(9)}.isdisjoint(opened)


def watched(storages: StoragesWorld, number: int) -> set[str]:
    """The folders in which a broker opens files from now on."""
    disk, opened = storages.disks[number], set[str]()
    open_read = disk.open_read

    def look(name: str) -> File:
        opened.add(name.rpartition("/")[0])
        return open_read(name)

    disk.open_read = look  # type: ignore[method-assign]
    return opened


@pytest.mark.parametrize("is_flushed", [False, True])
async def test_a_topic_moves_as_often_as_one_likes_as_long_as_nothing_gathers_in_journals(
    storages: StoragesWorld, is_flushed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("danube.metadata.records.storage.TOPIC_EPOCHS_MAX", 3)
    for number in (1, 2):
        await storages.start(number)
    for move in range(12):
        storage = storages.storage(move % 2 + 1)
        assert await storage.acquire([A]) == {A}
        if is_flushed:
            await fill(storage.topic(A), 1, first=move)
            await flush_whole(storage)
        await save(storage.topic(A), storage.topic(A).durable_end)
        await release(storages, move % 2 + 1)
    third = await storages.start(3)
    assert await third.acquire([A]) == {A}
    stored = 12 if is_flushed else 0
    assert len(await read_all(third.topic(A))) == stored
    assert third.topic(A).cursor(SUBSCRIPTION) == Cursor(stored)
    assert len((await storages.records.get(A)).epochs) == 1
