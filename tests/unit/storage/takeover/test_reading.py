"""Reading a journal that is somebody else's: what is sound is found, nothing is ever written."""

import dataclasses

import pytest

from danube.metadata.records.record_format import EpochRange, TopicStorage
from danube.model.errors import DamagedDataError, DataFolderError, StorageUnavailableError
from danube.model.limits.broker import JOURNAL_READ_ATTEMPTS_MAX
from danube.runtime.blocking import InlineRunner
from danube.storage.journal.folder import journal_folder, listed_journals
from danube.storage.journal.index import TopicIndex
from danube.storage.journal.reader import JournalReader
from danube.storage.log.parts import PreviousOwnerTail
from danube.storage.takeover.epoch_history import empty_base, wanted_epochs
from danube.storage.takeover.journal_reader import FoundJournal, Wanted, read_journal
from danube.testing.simulated.disk import Operation, SimDisk
from tests.unit.storage.takeover.shared_world import SharedBroker, SharedWorld

A, B = 1, 2
FIRST = "0000000001.journal"


async def owner_of(world: SharedWorld, *several: bytes) -> SharedBroker:
    owner = await world.start(1)
    await owner.acquire(A, B)
    await owner.store(A, several)
    return owner


def read(world: SharedWorld, owner: SharedBroker, **epoch: int) -> FoundJournal:
    whole = EpochRange(1, owner.journal.journal_id, 0)
    record = TopicStorage(A, epochs=(dataclasses.replace(whole, **epoch),))
    return read_journal(world.disk, owner.journal.journal_id, wanted_epochs(record, empty_base(A)))


async def test_journals_are_found_by_their_names_and_none_is_opened(world: SharedWorld) -> None:
    owner = await owner_of(world, b"0")
    world.disk.make_folder("journals/lost+found")
    world.disk.fail(Operation.READ)
    assert listed_journals(world.disk) == {owner.journal.journal_id: owner.folder}
    assert listed_journals(SimDisk()) == {}


async def test_a_journal_whose_first_file_is_damaged_missing_or_only_begun_is_damage(world: SharedWorld) -> None:
    owner = await owner_of(world, b"0")
    name = f"{owner.folder}/{FIRST}"
    world.disk.flip_bit(name, 20)
    with pytest.raises(DamagedDataError, match=f"{name} is damaged at byte 0.*begin the journal"):
        read(world, owner)
    world.disk.open_append(name).truncate(10)
    with pytest.raises(DamagedDataError, match=f"{name} is damaged at byte 0.*begin the journal"):
        read(world, owner)
    world.disk.remove(name)
    with pytest.raises(DamagedDataError, match=f"{name} is damaged at byte 0.*missing"):
        read(world, owner)


async def test_a_folder_that_holds_another_journal_is_damage(world: SharedWorld) -> None:
    owner = await owner_of(world, b"0")
    world.disk.make_folder(journal_folder(9))
    world.disk.create_whole(f"{journal_folder(9)}/{FIRST}", [world.disk.contents()[f"{owner.folder}/{FIRST}"]])
    with pytest.raises(DamagedDataError, match="does not begin the journal"):
        read_journal(world.disk, 9, [])


async def test_the_mark_is_what_the_last_round_says_was_synced_before_it(world: SharedWorld) -> None:
    found = read(world, owner := await owner_of(world, b"0", b"1", b"2"))
    epoch = found.epochs[A, 1]
    assert (epoch.marked_end, epoch.index.end_offset) == (2, 3)
    assert found.mark < found.end_position == owner.journal.end_position


async def test_after_a_clean_end_all_is_below_the_mark(world: SharedWorld) -> None:
    owner = await owner_of(world, b"0", b"1")
    await owner.journal.close()
    assert read(world, owner).epochs[A, 1].marked_end == 2


async def test_a_journal_that_ends_below_its_mark_is_damaged(world: SharedWorld) -> None:
    owner = await owner_of(world, b"0", b"1")
    await owner.journal.close()
    file = world.disk.open_append(f"{owner.folder}/{FIRST}")
    file.truncate(file.size() - 1)
    with pytest.raises(DamagedDataError, match=r"though byte \d+ was synced"):
        read(world, owner)
    world.disk.remove(f"{owner.folder}/{FIRST}")
    with pytest.raises(DamagedDataError, match=owner.folder):
        read(world, owner)


async def test_reading_changes_nothing_in_the_folder(world: SharedWorld) -> None:
    owner = await owner_of(world, b"0", b"1")
    world.disk.open_append(f"{owner.folder}/{FIRST}").append([b"torn"])
    before, changes = world.disk.contents(), world.disk.changes_done
    read(world, owner)
    assert (world.disk.contents(), world.disk.changes_done) == (before, changes)


async def test_what_an_epoch_takes_is_counted_without_going_through_its_batches_one_by_one(
    world: SharedWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = await owner_of(world, *[b"%d" % number for number in range(20)])
    journal = read(world, owner)
    found = journal.epochs[A, 1]
    body_bytes = found.index.body_bytes - found.index[19].body_bytes
    reader = JournalReader(world.disk, owner.folder)
    monkeypatch.setattr(TopicIndex, "__getitem__", lambda *_: pytest.fail("a batch was looked at"))
    part = PreviousOwnerTail(
        A, found.index, 19, folder=journal.folder, files=journal.files, reader=reader, runner=InlineRunner()
    )
    assert (part.start_offset, part.end_offset, part.body_bytes) == (0, 19, body_bytes)


async def test_a_torn_end_is_left_out(world: SharedWorld) -> None:
    owner = await owner_of(world, b"0", b"1")
    world.disk.open_append(f"{owner.folder}/{FIRST}").append([b"torn" * 100])
    assert read(world, owner).epochs[A, 1].index.end_offset == 2


async def test_a_file_that_is_being_created_is_left_out(world: SharedWorld) -> None:
    owner = await owner_of(world, b"0", b"1")
    world.disk.create(f"{owner.folder}/0000000002.journal").append([b"DnJf"])
    assert read(world, owner).epochs[A, 1].index.end_offset == 2


async def test_records_outside_of_the_epoch_count_for_nothing(world: SharedWorld) -> None:
    owner = await owner_of(world, b"0", b"1", b"2")
    assert read(world, owner, end_offset=2).epochs[A, 1].index.end_offset == 2
    assert len(read(world, owner, epoch=2).epochs[A, 2].index) == 0
    assert len(read(world, owner, position=owner.journal.end_position).epochs[A, 1].index) == 0


async def test_a_sealed_epoch_that_is_not_there_to_its_end_is_damage(world: SharedWorld) -> None:
    owner = await owner_of(world, b"0", b"1")
    with pytest.raises(DamagedDataError, match="sealed at 3"):
        read(world, owner, end_offset=3)


async def test_a_missing_file_is_damage(world: SharedWorld) -> None:
    owner = await owner_of(world, *[b"%d" % number * 900 for number in range(8)])
    world.disk.remove(f"{owner.folder}/0000000001.journal")
    with pytest.raises(DamagedDataError, match="missing"):
        read(world, owner)


async def test_files_that_its_owner_removed_are_not_missed(world: SharedWorld) -> None:
    owner = await owner_of(world, *[b"%d" % number * 900 for number in range(8)])
    await owner.save(B, 0)
    closed = owner.journal.closed_files()[0]
    kept = owner.journal.run(A, closed.end_position).end_offset
    owner.journal.drop_flushed(A, kept)
    assert await owner.journal.remove_files(closed.sequence + 1) > 0
    wanted = Wanted(A, EpochRange(1, owner.journal.journal_id, 0), kept)
    found = read_journal(world.disk, owner.journal.journal_id, [wanted]).epochs[A, 1]
    assert (found.index.start_offset, found.index.end_offset) == (kept, 8)


async def test_a_file_that_goes_while_it_is_read_has_the_journal_read_anew(world: SharedWorld) -> None:
    owner = await owner_of(world, b"0", b"1")
    world.disk.fail(Operation.READ, 2, error=2, name=f"*{FIRST}")
    assert read(world, owner).epochs[A, 1].index.end_offset == 2
    world.disk.fail(Operation.READ, error=2, name=f"*{FIRST}", times=JOURNAL_READ_ATTEMPTS_MAX)
    with pytest.raises(StorageUnavailableError, match="cannot be read"):
        read(world, owner)


async def test_a_disk_that_fails_and_a_newer_format_are_told_apart_from_damage(world: SharedWorld) -> None:
    owner = await owner_of(world, b"0")
    world.disk.fail(Operation.READ, name=f"*{FIRST}")
    with pytest.raises(StorageUnavailableError, match="Check the shared folder"):
        read(world, owner)
    world.disk.flip_bit(f"{owner.folder}/{FIRST}", 4, 1)
    with pytest.raises(DataFolderError, match="format 3; this one reads 1"):
        read(world, owner)
