"""Sabotages of Raft's files: each takes one rule out, and a seed of the simulation of one member notices.

`python -m tests.simulation.raft_disk_sabotages` looks for the first seed of each anew.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import pytest

from danube.metadata.raft.folder import folder, recovery
from danube.metadata.raft.folder import format as log_format
from danube.metadata.raft.folder.durable_log import RaftLog
from danube.metadata.raft.folder.format import Entry, encode_records
from danube.metadata.raft.folder.log_files import LogFiles
from danube.metadata.raft.folder.recovery import LogRecovery, RecoveredLog
from danube.metadata.raft.folder.small_files import Vote, VoteFile
from danube.metadata.raft.folder.snapshot import HeldSnapshot
from danube.runtime import checksum, sealed
from danube.testing.simulated.disk import SimDisk, SimFile
from tests.simulation.raft_disk_world import ViolationError, World
from tests.simulation.sabotage import Sabotaged, search


def leave_out_syncs_of_the_log(patch: pytest.MonkeyPatch) -> None:
    """Acknowledge what was written, not what was synced."""

    def append(self: LogFiles, entries: Sequence[Entry]) -> None:
        chunks = encode_records(entries, self._headers[-1].file_id, self._end, self._end)
        self._newest().append(chunks)
        self._end += sum(map(len, chunks))
        self.next_index = entries[-1][1] + 1

    patch.setattr(LogFiles, "append", append)


def leave_out_the_checksums_of_the_log(patch: pytest.MonkeyPatch) -> None:
    """Take records and commands for what they say."""
    patch.setattr(log_format, "crc_of", lambda *_: 0)
    patch.setattr(recovery, "crc_of", lambda *_: 0)
    patch.setattr(checksum, "is_intact", lambda *_: True)


def leave_out_the_sync_of_votes(patch: pytest.MonkeyPatch) -> None:
    """Answer before the vote is durable."""
    write = VoteFile.write

    def unsynced(self: VoteFile, vote: Vote) -> None:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(SimFile, "sync", lambda *_: None)
            inner.setattr(SimDisk, "sync_folder", lambda *_: None)
            write(self, vote)

    patch.setattr(VoteFile, "write", unsynced)


def leave_out_the_checksum_of_votes(patch: pytest.MonkeyPatch) -> None:
    """Write the vote in place, and take it for what it says."""

    def in_place(self: SimDisk, name: str, data: bytes) -> None:
        if not name.endswith("vote"):
            replace_file(self, name, data)
            return
        file = self.open_append(name) if self.exists(name) else self.create(name)
        file.truncate(0)
        file.append([data])
        file.sync()
        self.sync_folder("raft")

    replace_file = SimDisk.replace_file
    patch.setattr(SimDisk, "replace_file", in_place)
    patch.setattr(sealed, "is_intact", lambda *_: True)


def cut_what_the_vote_names(patch: pytest.MonkeyPatch) -> None:
    """Leave the vote as it is when entries are cut that it names as synced."""
    write = VoteFile.write

    def keep_the_mark(self: VoteFile, vote: Vote) -> None:
        now = self.vote
        if vote.synced_index < now.synced_index and vote.term == now.term:
            vote = replace(vote, synced_index=now.synced_index, synced_term=now.synced_term)
        write(self, vote)

    patch.setattr(VoteFile, "write", keep_the_mark)


def cut_in_place(patch: pytest.MonkeyPatch) -> None:
    """Cut entries by making their file shorter, and write the new ones over them with the same sync."""

    def begin(self: RaftLog) -> None:
        files = self._files
        if self._cut_at and files._file is not None and files._headers[-1].first_index <= self._cut_at:
            kept = [entry for entry in self._entries if files._headers[-1].first_index <= entry[1] < self._cut_at]
            files._file.truncate(56 + sum(52 + len(entry[0]) for entry in kept))
            files._end, files.next_index = files._file.size(), self._cut_at
            self._cut_at = None
        real(self)

    real = RaftLog._begin_file_if_needed
    patch.setattr(RaftLog, "_begin_file_if_needed", begin)
    patch.setattr(RaftLog, "onOneSecondTimer", lambda *_: None)


def trust_what_is_read(patch: pytest.MonkeyPatch) -> None:
    """Show what is in the files without making it durable; leave out what is torn, as one does."""

    def settle(self: LogRecovery) -> None:
        last = self._found.last
        if last is not None and not last.is_whole:
            self._put_anew(last)

    patch.setattr(LogRecovery, "settle", settle)


def keep_torn_ends(patch: pytest.MonkeyPatch) -> None:
    """Append behind what is torn."""

    def put_anew(self: LogRecovery, last: recovery.Scan) -> None:
        last.end = last.size

    patch.setattr(LogRecovery, "_put_anew", put_anew)


def begin_without_the_image(patch: pytest.MonkeyPatch) -> None:
    """Take the log as it is, whatever the image says."""

    def found_only(found: RecoveredLog, snapshot: HeldSnapshot | None) -> list[Entry] | None:
        return list(found.entries)

    patch.setattr(folder, "aligned", found_only)


def throw_away_what_follows_the_image(patch: pytest.MonkeyPatch) -> None:
    """Begin with the image's two entries alone when a log does not begin with them, as pysyncobj does."""

    def as_pysyncobj(found: RecoveredLog, snapshot: HeldSnapshot | None) -> list[Entry] | None:
        if snapshot is not None and found.entries[:2] != [snapshot.prev, snapshot.last]:
            return None
        return list(found.entries)

    patch.setattr(folder, "aligned", as_pysyncobj)


def remove_files_before_the_image(patch: pytest.MonkeyPatch) -> None:
    """Show an image before it is durable."""
    create_whole = SimDisk.create_whole

    def unsynced(self: SimDisk, name: str, chunks: Sequence[bytes]) -> None:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(SimFile, "sync", lambda *_: None)
            inner.setattr(SimDisk, "sync_folder", lambda *_: None)
            create_whole(self, name, chunks)

    patch.setattr(SimDisk, "create_whole", unsynced)


def take_the_members_of_the_image(patch: pytest.MonkeyPatch) -> None:
    """Do not look for newer members in the log, as pysyncobj does."""

    def of_the_image(members: Sequence[str], entries: Iterable[Entry]) -> tuple[str, ...]:
        return tuple(sorted(members))

    patch.setattr(recovery, "members_after", of_the_image)


def commit_without_the_own_copy(patch: pytest.MonkeyPatch) -> None:
    """Count this member's copy before it is synced."""
    patch.setattr(RaftLog, "setRaftCommitIndex", lambda *_: None)


def remove_any_old_file(patch: pytest.MonkeyPatch) -> None:
    """Remove files below the newest one whatever still counts in them."""
    patch.setattr(LogFiles, "_counts_until", lambda *_: 0)


def begin_below_the_mark(patch: pytest.MonkeyPatch) -> None:
    """Take the log as it is, however far it was known to be synced."""
    patch.setattr(LogRecovery, "_check_end", lambda *_: None)


def leave_the_mark_as_it_is(patch: pytest.MonkeyPatch) -> None:
    """Say only at a start how far the log is synced."""
    real = LogFiles.mark

    def at_a_start(self: LogFiles) -> bool:
        return real(self) if self._beside is None else True

    patch.setattr(LogFiles, "mark", at_a_start)


def show_what_is_set_aside_only(patch: pytest.MonkeyPatch) -> None:
    """Forget what a narrowed log does not show."""

    def widen(self: RaftLog) -> None:
        self._aside = None

    patch.setattr(RaftLog, "widen", widen)


SABOTAGES = (
    Sabotaged("entries are synced before they are acknowledged", leave_out_syncs_of_the_log, 0),
    Sabotaged("a torn record is told from a whole one", leave_out_the_checksums_of_the_log, 6),
    Sabotaged("no vote is given twice in a term", leave_out_the_sync_of_votes, 0),
    Sabotaged("a torn vote is never taken for one", leave_out_the_checksum_of_votes, 3),
    Sabotaged("what was cut is missed by nobody", cut_what_the_vote_names, 1),
    Sabotaged("old entries never come back between new ones", cut_in_place, 1),
    Sabotaged("what a start shows is durable", trust_what_is_read, 2),
    Sabotaged("nothing is written behind a torn end", keep_torn_ends, 6),
    Sabotaged("a log goes on from its image", begin_without_the_image, 0),
    Sabotaged("what follows an image is kept", throw_away_what_follows_the_image, 3),
    Sabotaged("an image is durable before its log goes", remove_files_before_the_image, 0),
    Sabotaged("the newest configuration in the log counts", take_the_members_of_the_image, 0),
    Sabotaged("a committed entry is durable here, too", commit_without_the_own_copy, 1),
    Sabotaged("a file stays while entries in it count", remove_any_old_file, 3),
    Sabotaged("a log that lost its end is missed", begin_below_the_mark, 5),
    Sabotaged("a mark trails by a few seconds", leave_the_mark_as_it_is, 20),
    Sabotaged("a narrowed log loses nothing", show_what_is_set_aside_only, 0),
)


def is_found(_: Sabotaged, seed: int) -> bool:
    """True if a seed notices the sabotage in place."""
    try:
        World(seed).run()
    except (ViolationError, IndexError, KeyError, ValueError, AssertionError):
        return True
    return False


if __name__ == "__main__":
    search(SABOTAGES, is_found)
