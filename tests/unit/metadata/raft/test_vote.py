"""The vote: given once in a term, whatever happens to the machine."""

import pytest

from danube.metadata.raft.folder.small_files import Vote, VoteFile, read_vote
from danube.model.errors import DamagedDataError, DataFolderError, InvalidRequestError, JournalStoppedError
from danube.model.limits.metadata import RAFT_MEMBER_ID_BYTES_MAX
from danube.testing.simulated.disk import MachineOffError, Operation, SimDisk
from tests.unit.metadata.raft.raft_files import entries, fill, opened, put

NAME = "raft/vote"


def _vote(disk: SimDisk) -> tuple[int, str | None]:
    log = opened(disk).log
    return log.getCurrentTerm(), log.getVotedForNodeId()


def test_a_vote_is_on_the_disk_when_it_is_given() -> None:
    disk = SimDisk()
    opened(disk).log.setCurrentTerm(4, "2@10.0.0.2:7650")
    assert _vote(disk.power_cut()) == (4, "2@10.0.0.2:7650")


def test_a_power_cut_at_any_step_leaves_the_vote_before_or_the_new_one() -> None:
    found = set()
    for step in range(1, 6):
        for seed in range(20):
            disk = SimDisk(seed)
            folder = opened(disk)
            folder.log.setCurrentTerm(4, "a")
            disk.stop_at(step)
            with pytest.raises(MachineOffError):
                folder.log.setCurrentTerm(5, "b")
            found.add(_vote(disk.power_cut()))
    assert found == {(4, "a"), (5, "b")}


def test_a_vote_is_not_given_twice_in_a_term() -> None:
    log = opened(SimDisk()).log
    log.setCurrentTerm(4, None)
    log.setCurrentTerm(4, "a")
    for wrong in [(4, "b"), (4, None), (3, "a"), (3, None)]:
        with pytest.raises(ValueError, match="term"):
            log.setCurrentTerm(*wrong)
    assert (log.getCurrentTerm(), log.getVotedForNodeId()) == (4, "a")


def test_a_vote_that_is_given_already_is_not_written_again() -> None:
    disk = SimDisk()
    log = opened(disk).log
    log.setCurrentTerm(4, "a")
    before = disk.changes_done
    log.setCurrentTerm(4, "a")
    assert disk.changes_done == before


def test_a_vote_that_cannot_be_written_ends_the_log() -> None:
    disk = SimDisk()
    log = opened(disk).log
    disk.fail(Operation.RENAME, name=NAME)
    with pytest.raises(JournalStoppedError, match="restart the broker"):
        log.setCurrentTerm(4, "a")
    with pytest.raises(JournalStoppedError):
        log.setCurrentTerm(5, None)


@pytest.mark.parametrize("vote", [Vote(), Vote(3, ""), Vote(2**63, "17@[::1]:1", 2**62, 2**61), Vote(5, "é")])
def test_what_is_written_is_read(vote: Vote) -> None:
    disk = put({})
    VoteFile(disk, 9).write(vote)
    assert read_vote(disk) == (9, vote)


def test_every_flipped_byte_and_every_missing_end_of_a_vote_is_refused() -> None:
    disk = SimDisk()
    opened(disk).log.setCurrentTerm(4, "2@10.0.0.2:7650")
    files = disk.contents()
    whole = files[NAME]
    broken = [whole[:at] + bytes([whole[at] ^ 0x40]) + whole[at + 1 :] for at in range(len(whole))]
    for content in [*broken, *(whole[:size] for size in range(len(whole)))]:
        with pytest.raises((DamagedDataError, DataFolderError), match="raft/vote"):
            opened(put({**files, NAME: content}))


def test_a_lost_vote_is_refused() -> None:
    disk = SimDisk()
    opened(disk).log.setCurrentTerm(4, "a")
    files = disk.contents()
    del files[NAME]
    with pytest.raises(DamagedDataError, match=r"raft/vote.*missing.*metadata inspect.*add it again"):
        opened(put(files))


def test_a_vote_that_is_older_than_the_log_is_refused() -> None:
    disk = SimDisk()
    folder = opened(disk)
    folder.log.setCurrentTerm(4, "a")
    before = disk.contents()[NAME]
    fill(folder, entries(1, 3, term=6))
    with pytest.raises(DamagedDataError, match="says term 4, and the log is in term 6"):
        opened(put({**disk.contents(), NAME: before}))


def test_the_vote_of_another_member_is_refused() -> None:
    disk = SimDisk()
    opened(disk)
    VoteFile(disk, 9).write(Vote())
    with pytest.raises(DataFolderError, match="belongs to member 9"):
        opened(disk)


def test_a_vote_has_a_bound() -> None:
    with pytest.raises(InvalidRequestError, match="bytes"):
        opened(SimDisk()).log.setCurrentTerm(1, "x" * (RAFT_MEMBER_ID_BYTES_MAX + 1))
