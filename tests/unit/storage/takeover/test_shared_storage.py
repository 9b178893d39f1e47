"""The whole life of topics over a shared folder: taken, cut, given, deleted; and journals go when nobody needs them."""

import asyncio
import contextlib
from pathlib import Path
from typing import Any

import pytest

from danube.model.errors import (
    DanubeError,
    DataFolderError,
    JournalFencedError,
    StorageUnavailableError,
    TopicNotServedError,
)
from danube.model.limits.broker import FLUSH_RETRY_S
from danube.runtime.disk import LocalDisk
from danube.storage.journal.folder import journal_folder
from danube.storage.log.histories import TopicHistories
from danube.storage.retention.rules import Retention
from danube.testing.simulated.disk import Operation, SimDisk
from tests.unit.storage.journal_world import Told
from tests.unit.storage.store.storage_world import always, fill, read_all
from tests.unit.storage.store.test_on_disk import deleted_but_open
from tests.unit.storage.takeover.shared_world import PausedRunner, SteppedRunner
from tests.unit.storage.takeover.storages_world import (
    SUBSCRIPTION,
    StoragesWorld,
    fall_behind,
    flush_whole,
    rest,
    save,
    stop_at,
)

A, B, LATE = 1, 2, 3


async def test_a_taken_topic_is_read_through_the_dead_owners_journal_and_appended_to(storages: StoragesWorld) -> None:
    first, second = await storages.start(1), await storages.start(2)
    await first.acquire([A])
    before = await fill(first.topic(A), 30)
    storages.kill(1)
    assert await second.acquire([A]) == {A}
    after = await fill(second.topic(A), 10, first=30)
    assert await read_all(second.topic(A)) == before + after


async def test_what_a_former_owner_left_is_flushed_before_what_came_after(storages: StoragesWorld) -> None:
    first, second = await storages.start(1), await storages.start(2)
    await first.acquire([A])
    before = await fill(first.topic(A), 30)
    storages.kill(1)
    await second.acquire([A])
    after = await fill(second.topic(A), 30, first=30)
    await flush_whole(second)
    record = await storages.records.get(A)
    assert len(record.epochs) == 1
    assert await read_all(second.topic(A)) == before + after


async def test_the_dead_owners_journal_goes_once_every_topic_in_it_is_flushed(storages: StoragesWorld) -> None:
    first, second = await storages.start(1), await storages.start(2)
    await first.acquire([A, B])
    dead = first.journal_folder
    await fill(first.topic(A), 30)
    await fill(first.topic(B), 30)
    storages.kill(1)
    await second.acquire([A])
    await flush_whole(second)
    assert await second.remove_journals() == 0
    await second.acquire([B])
    assert await second.remove_journals() == 0
    await flush_whole(second)
    assert await second.remove_journals() == 1
    assert not storages.disk.exists(dead)
    assert len(await read_all(second.topic(A))) == len(await read_all(second.topic(B))) == 30


async def test_topics_of_former_owners_that_cannot_be_flushed_are_not_listed_once_for_each(
    storages: StoragesWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = await storages.start(1), await storages.start(2)
    await first.acquire([A, B])
    for topic_id in (A, B):
        await fill(first.topic(topic_id), 3)
    await storages.stop(1)
    await second.acquire([A, B])
    storages.disks[2].fail(Operation.SYNC, name="segments/*", times=100)  # type: ignore[attr-defined]
    assert (await second.flush()).failed == 2
    lists: list[frozenset[int]] = []
    original = vars(TopicHistories)["with_older_epochs"].fget

    def note(histories: TopicHistories) -> frozenset[int]:
        lists.append(original(histories))
        return lists[-1]

    monkeypatch.setattr(TopicHistories, "with_older_epochs", property(note))
    assert not second._flusher.is_due
    assert lists == [{A, B}]


async def test_positions_come_along_through_segments_and_a_second_owner(storages: StoragesWorld) -> None:
    first, second, third = await storages.start(1), await storages.start(2), await storages.start(3)
    await first.acquire([A])
    await fill(first.topic(A), 30)
    await save(first.topic(A), 20)
    await flush_whole(first)
    await second.acquire([A])
    await flush_whole(second)
    await third.acquire([A])
    cursor = third.topic(A).cursor(SUBSCRIPTION)
    assert cursor is not None
    assert cursor.position == 20


async def test_a_given_topic_is_the_next_owners_and_the_giver_goes_on_with_the_others(storages: StoragesWorld) -> None:
    first, second = await storages.start(1), await storages.start(2)
    await first.acquire([A, B])
    records = await fill(first.topic(A), 10)
    log = first.topic(A)
    await first.release(A, lambda: stop_at(log))
    with pytest.raises(TopicNotServedError):
        first.topic(A)
    assert await second.acquire([A]) == {A}
    assert await read_all(second.topic(A)) == records
    await fill(first.topic(B), 5)
    assert [*first.owned, *second.owned] == [B, A]


@pytest.mark.parametrize("step", ["before", "while it is cut"])
async def test_what_is_wrong_with_a_topic_is_the_next_owners_business_once_it_is_given(
    storages: StoragesWorld, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await storages.start(1)
    await first.acquire([A, B])
    log = first.topic(A)
    await fill(log, 3)
    await first.journal.rotate()
    if step == "before":
        storages.disks[1].fail(Operation.SYNC, name=f"segments/{A}/*")  # type: ignore[attr-defined]
        assert (await first.flush()).failed == 1
        await first.release(A, lambda: stop_at(log))
    else:
        point = storages.records.point

        async def release_first(changes: Any) -> Any:
            await first.release(A, lambda: stop_at(log))
            return await point(changes)

        monkeypatch.setattr(storages.records, "point", release_first)
        await first.flush()
    assert first.stats.quarantined_topics == 0


async def test_a_givers_files_stay_until_the_next_owner_has_cut_what_is_in_them(storages: StoragesWorld) -> None:
    first, second = await storages.start(1), await storages.start(2)
    await first.acquire([A, B])
    records = await fill(first.topic(A), 60)
    log = first.topic(A)
    await first.release(A, lambda: stop_at(log))
    await second.acquire([A])
    await fill(first.topic(B), 5)
    await first.journal.rotate()
    await first.flush()
    assert first.journal.closed_files()
    await flush_whole(second)
    storages.clock.advance(FLUSH_RETRY_S)
    assert first._flusher.is_due
    await first.flush()
    assert not first.journal.closed_files()
    assert await read_all(second.topic(A)) == records


async def test_a_topic_that_came_back_holds_no_file_for_what_others_have_cut_meanwhile(storages: StoragesWorld) -> None:
    first, second = await storages.start(1), await storages.start(2)
    await first.acquire([A, B])
    records = await fill(first.topic(A), 3)
    await fill(first.topic(B), 3)
    await first.journal.rotate()
    storages.disks[1].fail(Operation.SYNC, name=f"segments/{B}/*")  # type: ignore[attr-defined]
    assert (await first.flush()).failed == 1
    for old_owner, taker in ((first, second), (second, first)):
        log = old_owner.topic(A)
        await old_owner.release(A, lambda: stop_at(log))  # noqa: B023 - awaited in its turn
        await taker.acquire([A])
        if taker is second:
            records += await fill(second.topic(A), 3, first=3)
            await flush_whole(second)
    storages.clock.advance(FLUSH_RETRY_S)
    assert not (await first.flush()).failed
    assert not first.journal.closed_files()
    assert await read_all(first.topic(A)) == records


async def test_an_owner_that_starts_again_has_its_topics_and_what_is_in_older_journals(storages: StoragesWorld) -> None:
    first, second = await storages.start(1), await storages.start(2)
    await first.acquire([A])
    before = await fill(first.topic(A), 20)
    storages.kill(1)
    await second.acquire([A])
    after = await fill(second.topic(A), 20, first=20)
    await storages.stop(2)
    again = await storages.start(2)
    assert again.owned == {A}
    assert await read_all(again.topic(A)) == before + after
    await flush_whole(again)
    assert await again.remove_journals() == 1
    assert await read_all(again.topic(A)) == before + after


async def test_a_fenced_broker_begins_a_new_journal_and_its_old_one_is_left_to_the_taker(
    storages: StoragesWorld,
) -> None:
    first, second = await storages.start(1), await storages.start(2)
    await first.acquire([A])
    records = await fill(first.topic(A), 20)
    old = first.journal.journal_id
    await second.acquire([A])
    await storages.stop(1)
    again = await storages.start(1)
    assert again.owned == frozenset()
    assert again.journal.journal_id != old
    await flush_whole(second)
    assert await again.remove_journals() == 1
    assert not storages.disk.exists(journal_folder(old))
    assert await read_all(second.topic(A)) == records


async def test_nothing_begins_in_a_journal_that_was_struck_off(storages: StoragesWorld) -> None:
    first = await storages.start(1)
    await storages.journals.strike_off(first.journal.journal_id)
    with pytest.raises(JournalFencedError, match="struck off"):
        await first.acquire([A])
    assert (await storages.records.get(A)).epochs == ()


async def test_a_journal_that_was_removed_is_never_made_again_by_its_owner(storages: StoragesWorld) -> None:
    first, second = await storages.start(1), await storages.start(2)
    await first.acquire([A])
    await fill(first.topic(A), 20)
    folder = first.journal_folder
    await second.acquire([A])
    await flush_whole(second)
    await second.remove_journals()
    told = Told()
    first.topic(A).append_record(b"late", told)
    assert isinstance(await told.outcome(), StorageUnavailableError)
    await storages.stop(1)
    await storages.start(1)
    assert not storages.disk.exists(folder)


async def test_a_live_journal_is_never_retired(storages: StoragesWorld) -> None:
    first, second = await storages.start(1), await storages.start(2)
    assert await second.remove_journals() == 0
    await first.acquire([A])
    assert await second.remove_journals() == 0
    assert len(storages.folders()) == 2


async def test_an_owner_that_slept_through_a_take_over_changes_nothing_and_leaves_no_file(
    storages: StoragesWorld,
) -> None:
    first, second = await storages.start(1), await storages.start(2)
    await first.acquire([A])
    records = await fill(first.topic(A), 40)
    await second.acquire([A])
    records += await fill(second.topic(A), 40, first=40)
    await flush_whole(second)
    named = await storages.records.get(A)
    assert (await first.flush()).failed
    assert await storages.records.get(A) == named
    assert await read_all(second.topic(A)) == records
    await second.sweep_orphans()
    manifest_versions = {name.split("-")[-1].split(".")[0] for name in storages.disk.list(f"segments/{A}")}
    assert all(int(one) >> 32 == named.epochs[-1].epoch for one in manifest_versions)


async def test_retention_takes_what_was_flushed_from_a_former_owners_journal(storages: StoragesWorld) -> None:
    first, second = await storages.start(1), await storages.start(2)
    await first.acquire([A])
    await fill(first.topic(A), 60)
    storages.kill(1)
    await second.acquire([A])
    log = second.topic(A)
    await fill(log, 10, first=60)
    await flush_whole(second)
    assert await second.retain(always(Retention(None, 2_000)), lambda _: None)
    assert log.start_offset > 0
    assert (await read_all(log))[-1].startswith(b"1/69/")


async def test_a_deleted_topic_keeps_no_journal_and_no_folder(storages: StoragesWorld) -> None:
    first, second = await storages.start(1), await storages.start(2)
    await first.acquire([A])
    await fill(first.topic(A), 40)
    await flush_whole(first)
    storages.kill(1)
    await storages.delete(A)
    await second.acquire([B])
    assert await second.sweep_deleted() == 1
    assert not storages.disk.exists(f"segments/{A}")


async def test_what_a_late_owner_leaves_of_a_deleted_topic_goes_with_the_next_start(storages: StoragesWorld) -> None:
    first, second = await storages.start(1), await storages.start(2)
    await first.acquire([A])
    await fill(first.topic(A), 40)
    await storages.delete(A)
    await second.sweep_deleted()
    await first.flush()
    assert storages.disk.exists(f"segments/{A}")
    await second.sweep_orphans()
    assert not storages.disk.exists(f"segments/{A}")


async def test_the_folder_of_a_topic_that_came_since_a_broker_heard_of_the_metadata_stays(
    storages: StoragesWorld,
) -> None:
    first, second = await storages.start(1), await storages.start(2)
    fall_behind(storages)
    await storages.create(LATE)
    await first.acquire([LATE])
    records = await fill(first.topic(LATE), 40)
    await flush_whole(first)
    await second.sweep_orphans()
    assert await read_all(first.topic(LATE)) == records


async def test_a_folder_of_a_deleted_topic_that_cannot_be_removed_keeps_no_other(storages: StoragesWorld) -> None:
    first = await storages.start(1)
    for topic_id in (A, B, LATE):
        storages.disk.make_folder(f"segments/{topic_id}")
        storages.disk.create_whole(f"segments/{topic_id}/0000000001.manifest", [b"late"])
    for topic_id in (A, B):
        await storages.delete(topic_id)
        await storages.records.remove_tombstone(topic_id)
    storages.disks[1].fail(Operation.REMOVE, name=f"segments/{A}/*", times=100)  # type: ignore[attr-defined]
    await first.sweep_orphans()
    assert [storages.disk.exists(f"segments/{topic_id}") for topic_id in (A, B, LATE)] == [True, False, False]


@pytest.mark.parametrize("works", range(1, 7))
async def test_a_topic_that_its_owner_cuts_while_it_is_taken_keeps_its_positions(
    storages: StoragesWorld, works: int
) -> None:
    reads = SteppedRunner()
    first, second = await storages.start(1), await storages.start(2, read_runner=reads)
    await first.acquire([A])
    records = await fill(first.topic(A), 40)
    await save(first.topic(A), 30)

    async def flush() -> None:
        with contextlib.suppress(DanubeError):  # its journal may be fenced by now
            await first.journal.rotate()
            await first.flush()

    reads.happen_after(works, flush)
    assert await second.acquire([A]) == {A}
    cursor = second.topic(A).cursor(SUBSCRIPTION)
    assert cursor is not None
    assert cursor.position == 30
    assert await read_all(second.topic(A)) == records


@pytest.mark.parametrize("works", range(2, 7))
async def test_a_taker_whose_own_journal_is_removed_meanwhile_takes_nothing(
    storages: StoragesWorld, works: int
) -> None:
    reads = SteppedRunner()
    first, second, third = await storages.start(1), await storages.start(2, read_runner=reads), await storages.start(3)
    await first.acquire([B])
    records = await fill(first.topic(B), 20)
    await storages.stop(1)  # nothing of it has to be written again, so no round of the taker meets a fence
    await second.acquire([A])

    async def remove_unneeded() -> None:
        await third.acquire([A])
        await third.flush()
        assert await third.remove_journals() == 1

    reads.happen_after(works, remove_unneeded)
    with contextlib.suppress(DanubeError):
        await second.acquire([B])
    assert await third.acquire([B]) == {B}
    assert await read_all(third.topic(B)) == records


@pytest.mark.parametrize("works", range(1, 8))
async def test_a_taker_that_another_one_overtakes_is_not_told_that_the_old_journal_is_gone_or_damaged(
    storages: StoragesWorld, works: int
) -> None:
    reads = SteppedRunner()
    first, second, third = await storages.start(1), await storages.start(2, read_runner=reads), await storages.start(3)
    await first.acquire([A])
    records = await fill(first.topic(A), 20)
    storages.kill(1)

    async def overtake() -> None:
        await third.acquire([A])
        await flush_whole(third)
        assert await third.remove_journals() == 1

    reads.happen_after(works, overtake)
    owner = second if await second.acquire([A]) else third
    assert await read_all(owner.topic(A)) == records


async def test_a_topic_that_is_deleted_while_others_are_taken_with_it_keeps_none_of_them(
    storages: StoragesWorld,
) -> None:
    writes = PausedRunner()
    await storages.create(3)
    first, second = await storages.start(1), await storages.start(2, runner=writes)
    await first.acquire([A, B])
    await second.acquire([3])
    for topic_id in (A, B):
        await save(first.topic(topic_id), 0)
    records = await fill(first.topic(B), 5)
    storages.kill(1)
    writes.hold()
    second.topic(3).append_record(b"on its way", Told())
    await rest()
    beginning = asyncio.ensure_future(second.acquire([A, B]))
    await rest()
    await storages.delete(A)
    await second.sweep_deleted()
    writes.release()
    assert await beginning == {B}
    assert await read_all(second.topic(B)) == records
    assert second.journal.index(A) is None


async def test_a_topic_that_was_deleted_is_not_brought_back(storages: StoragesWorld) -> None:
    first = await storages.start(1)
    await storages.delete(A)
    assert await first.acquire([A]) == frozenset()
    assert await first.sweep_deleted() == 1
    assert await first.acquire([A, B]) == {B}
    assert sorted(await storages.records.all()) == [B]


async def test_a_broker_does_not_start_on_a_folder_that_lacks_its_journal_and_goes_on_once_it_is_there(
    storages: StoragesWorld,
) -> None:
    first = await storages.start(1)
    await first.acquire([A])
    records = await fill(first.topic(A), 5)
    await storages.stop(1)
    entered, mounted = await storages.journals.all(), storages.disk
    storages.disk = SimDisk()
    with pytest.raises(DataFolderError, match=f"{first.journal_folder} is not in the shared folder.*mounted"):
        await storages.start(1)
    assert await storages.journals.all() == entered
    storages.disk = mounted
    again = await storages.start(1)
    assert again.owned == {A}
    assert await read_all(again.topic(A)) == records


async def test_a_folder_without_hard_links_is_refused_with_what_to_do(storages: StoragesWorld) -> None:
    assert isinstance(storages.disk, SimDisk)
    storages.disk.links = False
    with pytest.raises(DataFolderError, match=r"hard links.*NFS"):
        await storages.start(1)


async def test_a_giver_keeps_no_file_open_that_the_next_owner_removes(tmp_path: Path) -> None:
    storages = StoragesWorld(LocalDisk(tmp_path))
    await storages.create(A)
    first, second = await storages.start(1), await storages.start(2)
    await first.acquire([A])
    log = first.topic(A)
    await fill(log, 60)
    await flush_whole(first)
    assert len(await read_all(log)) == 60
    await first.release(A, lambda: stop_at(log))
    await second.acquire([A])
    second.topic(A)
    await second.retain(always(Retention(None, 1_000)), lambda _: None)
    assert second.stats.dropped_segments > 0
    assert deleted_but_open(tmp_path) == []
    await storages.end()


async def test_a_folder_of_this_machine_can_be_shared(tmp_path: Path) -> None:
    storages = StoragesWorld(LocalDisk(tmp_path))
    await storages.create(A)
    first, second = await storages.start(1), await storages.start(2)
    await first.acquire([A])
    records = await fill(first.topic(A), 40)
    await second.acquire([A])
    await flush_whole(second)
    assert await second.remove_journals() == 1
    assert await read_all(second.topic(A)) == records
    await storages.end()
