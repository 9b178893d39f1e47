"""Raft's log: what pysyncobj does with it, and what is on the disk when."""

from collections.abc import Callable

import pytest
from pysyncobj.journal import Journal

from danube.metadata.raft.folder import log_files
from danube.metadata.raft.folder.durable_log import RaftLog
from danube.model.errors import JournalStoppedError
from danube.model.limits.metadata import RAFT_ENTRY_BYTES_MAX, RAFT_LOG_UNSYNCED_BYTES_MAX, RAFT_MARK_DELAY_S
from danube.testing.simulated.disk import Operation, SimDisk
from tests.unit.metadata.raft.raft_files import entries, entry, fill, keep, opened, snapshot_at


def _log_files(disk: SimDisk) -> list[str]:
    return [name for name in disk.contents() if name.startswith("raft/log-")]


def test_the_log_is_a_journal_of_pysyncobj() -> None:
    assert issubclass(RaftLog, Journal)
    wanted = {name for name in vars(Journal) if not name.startswith("__")}
    assert wanted <= set(vars(RaftLog)), "pysyncobj asks more of a journal than it did"


def test_what_was_synced_survives_a_power_cut() -> None:
    disk = SimDisk(1)
    fill(opened(disk), entries(1, 20))
    assert opened(disk.power_cut()).log[:] == entries(1, 20)


def test_what_was_not_synced_is_on_no_disk() -> None:
    disk = SimDisk()
    folder = opened(disk)
    fill(folder, entries(1, 3))
    folder.log.add(*entry(3))
    assert folder.log.unsynced
    assert opened(disk.process_kill()).log[:] == entries(1, 3)


def test_entries_added_between_two_syncs_are_written_and_synced_once() -> None:
    disk = SimDisk()
    folder = opened(disk)
    fill(folder, entries(1, 2))
    before = disk.changes_done
    fill(folder, entries(2, 500))
    assert disk.changes_done - before == 2


def test_a_sync_with_nothing_to_sync_does_nothing() -> None:
    disk = SimDisk()
    folder = opened(disk)
    fill(folder, entries(1, 3))
    before = disk.changes_done
    folder.log.sync()
    assert disk.changes_done == before


def test_a_large_backlog_is_synced_by_itself() -> None:
    folder = opened(SimDisk())
    folder.log.add(b"\1", 1, 0)
    for index in range(2, 2 + RAFT_LOG_UNSYNCED_BYTES_MAX // RAFT_ENTRY_BYTES_MAX + 1):
        assert folder.log.unsynced
        folder.log.add(bytes(RAFT_ENTRY_BYTES_MAX), index, 0)
    assert not folder.log.unsynced


def test_an_own_copy_is_synced_before_it_counts_as_committed() -> None:
    disk = SimDisk(3)
    folder = opened(disk)
    for each in entries(1, 9, term=0):
        folder.log.add(*each)
    folder.log.setRaftCommitIndex(5)
    assert opened(disk.power_cut()).log.last_index >= 5


def test_a_commit_of_what_is_synced_costs_no_sync() -> None:
    disk = SimDisk()
    folder = opened(disk)
    fill(folder, entries(1, 9))
    folder.log.add(*entry(9))
    before = disk.changes_done
    folder.log.setRaftCommitIndex(8)
    assert disk.changes_done == before


def test_replaced_entries_never_come_back() -> None:
    disk = SimDisk(5)
    folder = opened(disk)
    fill(folder, entries(1, 9))
    folder.log.deleteEntriesFrom(4)
    fill(folder, entries(5, 7, term=2))
    assert opened(disk.power_cut()).log[:] == [*entries(1, 5), *entries(5, 7, term=2)]


def test_a_cut_with_nothing_behind_it_is_durable_when_synced() -> None:
    disk = SimDisk(5)
    folder = opened(disk)
    fill(folder, entries(1, 9))
    folder.log.deleteEntriesFrom(4)
    folder.log.sync()
    assert opened(disk.power_cut()).log[:] == entries(1, 5)


def test_a_cut_that_was_not_synced_leaves_the_log_as_it_was() -> None:
    disk = SimDisk(5)
    folder = opened(disk)
    fill(folder, entries(1, 9))
    folder.log.setCurrentTerm(2, None)
    folder.log.deleteEntriesFrom(4)
    folder.log.add(*entry(5, 2))
    assert opened(disk.power_cut()).log[:] == entries(1, 9)


def test_a_cut_of_what_was_never_synced_writes_no_file() -> None:
    disk = SimDisk()
    folder = opened(disk)
    fill(folder, entries(1, 3))
    for each in entries(3, 6):
        folder.log.add(*each)
    folder.log.deleteEntriesFrom(3)
    folder.log.sync()
    assert (folder.log[:], len(_log_files(disk))) == (entries(1, 4), 1)


def test_a_log_goes_on_in_a_new_file_when_one_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_files, "RAFT_LOG_FILE_BYTES_MAX", 500)
    disk = SimDisk(2)
    folder = opened(disk)
    for index in range(1, 30):
        fill(folder, [entry(index)])
    assert len(_log_files(disk)) > 3
    assert opened(disk.power_cut()).log[:] == entries(1, 30)


def test_files_below_an_image_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_files, "RAFT_LOG_FILE_BYTES_MAX", 500)
    disk = SimDisk(2)
    folder = opened(disk)
    for index in range(1, 60):
        fill(folder, [entry(index)])
    files = len(_log_files(disk))
    keep(folder, snapshot_at(50))
    folder.log.deleteEntriesTo(48)
    assert folder.log[:] == entries(49, 60)
    assert len(_log_files(disk)) < files / 2
    assert opened(disk.power_cut()).log[:] == entries(49, 60)


def test_a_narrowed_log_shows_less_and_loses_nothing() -> None:
    disk = SimDisk(4)
    folder = opened(disk)
    fill(folder, entries(1, 9))
    log = folder.log
    log.narrow(5)
    assert (len(log), log[-1], log[3:], log.last_index) == (5, entry(5), entries(4, 6), 5)
    assert (log.term_of(5), log.term_of(6)) == (1, None)
    log.widen()
    assert log[:] == entries(1, 9)
    assert opened(disk.power_cut()).log[:] == entries(1, 9)


def test_a_narrowed_log_syncs_what_it_does_not_show() -> None:
    disk = SimDisk(4)
    folder = opened(disk)
    for each in entries(1, 9, term=0):
        folder.log.add(*each)
    folder.log.narrow(5)
    folder.log.sync()
    assert opened(disk.power_cut()).log[:] == entries(1, 9, term=0)


def test_a_narrowed_log_cannot_be_changed() -> None:
    log = opened(SimDisk()).log
    log.add(*entry(1, 0))
    log.narrow(1)
    changes: list[Callable[[], None]] = [lambda: log.add(*entry(2, 0)), log.clear]
    changes += [lambda: log.deleteEntriesFrom(0), lambda: log.narrow(1)]
    for change in changes:
        with pytest.raises(RuntimeError):
            change()


@pytest.mark.parametrize(
    "wrong", [(b"a", 3, 1), (b"a", 1, 1), (b"a", 2, 0), ("a", 2, 1), (bytes(RAFT_ENTRY_BYTES_MAX + 1), 2, 1)]
)
def test_what_does_not_follow_is_not_added(wrong: tuple[bytes, int, int]) -> None:
    log = opened(SimDisk()).log
    log.setCurrentTerm(1, None)
    log.add(b"a", 1, 1)
    with pytest.raises(ValueError, match="entry"):
        log.add(*wrong)
    assert len(log) == 1


def test_the_size_is_that_of_the_entries() -> None:
    folder = opened(SimDisk())
    fill(folder, entries(1, 9))
    of_eight = folder.log.size_bytes
    fill(folder, entries(9, 10))
    folder.log.deleteEntriesFrom(8)
    assert folder.log.size_bytes == of_eight > 8 * 50
    folder.log.deleteEntriesTo(7)
    assert folder.log.size_bytes == of_eight // 8
    folder.log.clear()
    assert folder.log.size_bytes == 0


@pytest.mark.parametrize("operation", [Operation.APPEND, Operation.SYNC])
def test_after_a_failure_of_the_disk_nothing_is_written_ever(operation: Operation) -> None:
    disk = SimDisk()
    folder = opened(disk)
    fill(folder, entries(1, 3))
    folder.log.add(*entry(3))
    disk.fail(operation, name="raft/log-*")
    with pytest.raises(JournalStoppedError, match=r"Input/output error.*restart the broker"):
        folder.log.sync()
    before = disk.changes_done
    for write in (
        folder.log.sync,
        lambda: folder.log.setCurrentTerm(9, None),
        lambda: folder.log.setRaftCommitIndex(3),
    ):
        with pytest.raises(JournalStoppedError):
            write()
    folder.close()
    assert disk.changes_done == before


def test_an_idle_log_says_that_its_last_entry_was_synced() -> None:
    disk = SimDisk()
    folder = opened(disk)
    fill(folder, entries(1, 3))
    before = disk.changes_done
    folder.log.onOneSecondTimer()
    assert disk.changes_done == before, "it was busy a moment ago"
    folder.log.onOneSecondTimer()
    written = disk.changes_done
    folder.log.onOneSecondTimer()
    beside = ["create", "append", "sync", "rename", "sync the folder"]
    assert (written - before, disk.changes_done) == (len(beside), written)


def test_the_file_beside_a_busy_log_is_written_every_few_seconds_and_not_with_each_sync() -> None:
    disk = SimDisk()
    folder = opened(disk)
    marks = []
    for index in range(1, 101):
        fill(folder, [entry(index)])
        marks.append(disk.contents()["raft/mark"])
        if not index % 10:
            folder.log.onOneSecondTimer()
    assert len(set(marks)) == 1 + 10 // RAFT_MARK_DELAY_S - 1


def test_closing_twice_is_closing_once() -> None:
    disk = SimDisk()
    folder = opened(disk)
    folder.log.add(*entry(1, 0))
    folder.close()
    before = disk.changes_done
    folder.log._destroy()
    assert disk.changes_done == before
    assert opened(disk.power_cut()).log[:] == [entry(1, 0)]


def test_an_entry_of_a_term_to_come_is_not_added() -> None:
    folder = opened(SimDisk())
    folder.log.setCurrentTerm(3, None)
    with pytest.raises(ValueError, match="this is term 3"):
        folder.log.add(*entry(1, 4))
