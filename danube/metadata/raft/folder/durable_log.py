"""Raft's log with pysyncobj's interface: entries in memory, and on the disk when `sync` returns."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import overload

from pysyncobj.journal import Journal

from danube.metadata.raft.folder.format import RECORD_HEADER_BYTES, Entry
from danube.metadata.raft.folder.log_files import LogFiles
from danube.metadata.raft.folder.small_files import Vote, VoteFile
from danube.model.errors import JournalStoppedError
from danube.model.limits.metadata import RAFT_ENTRY_BYTES_MAX, RAFT_LOG_UNSYNCED_BYTES_MAX, RAFT_MARK_DELAY_S


class RaftLog(Journal):  # type: ignore[misc]  # pysyncobj has no types
    """The log of one member, for one thread. What blocks: `sync`, `setCurrentTerm`, `deleteEntriesTo`, at times `add`.

    Positions count from the first entry that is still there, indexes are Raft's. Until `sync` returns, entries and cuts
    may be lost by a crash, the newest first. After an OSError everything that writes raises JournalStoppedError, until
    `take_over`: what is on the disk is unknown then, and only opening it anew can tell.
    """

    def __init__(self, files: LogFiles, votes: VoteFile, entries: Sequence[Entry], commit_index: int = 1) -> None:
        """`entries` are in `files` already. `commit_index` is what is known to be committed at the start."""
        self._files = files
        self._votes = votes
        self._entries = list(entries)
        self._aside: list[Entry] | None = None
        self._unsynced: list[Entry] = []
        self._unsynced_bytes = 0
        self._cut_at: int | None = None
        self._commit_index = commit_index
        self._synced = self._entries[-1][1:] if entries else (0, 0)
        self._stopped: str | None = None
        self._was_busy = False
        self._mark_age_s = 0
        self.size_bytes = sum(_size_of(entry) for entry in self._entries)
        """Rough size of the entries in memory and on the disk."""

    # As pysyncobj calls it

    def add(self, command: object, idx: int, term: int) -> None:
        """Append an entry. Raises ValueError for one that does not follow the last one, or is of a term to come."""
        self._check_wide()
        if self._entries and (idx != self.last_index + 1 or term < self._entries[-1][2]):
            raise ValueError(f"entry {idx} of term {term} does not follow entry {self.last_index}")
        if term > self._votes.vote.term:
            raise ValueError(f"entry {idx} is of term {term}, and this is term {self._votes.vote.term}")
        if not isinstance(command, bytes) or len(command) > RAFT_ENTRY_BYTES_MAX:
            raise ValueError(f"entry {idx} has no bytes for a command, or more than {RAFT_ENTRY_BYTES_MAX}")
        entry = (command, idx, term)
        self._entries.append(entry)
        self._unsynced.append(entry)
        self.size_bytes += _size_of(entry)
        self._unsynced_bytes += _size_of(entry)
        if self._unsynced_bytes > RAFT_LOG_UNSYNCED_BYTES_MAX:
            self.sync()

    def clear(self) -> None:
        """Forget all entries; what is added next may have any index."""
        self._check_wide()
        self._entries.clear()
        self._unsynced.clear()
        self._unsynced_bytes = self.size_bytes = 0
        self._cut_at, self._synced = 0, (0, 0)

    def deleteEntriesFrom(self, entryFrom: int) -> None:  # noqa: N802, N803 - pysyncobj's names
        """Forget the entries from a position on: a newer leader has others there."""
        self._check_wide()
        cut = self._entries[entryFrom:]
        if not cut:
            return
        del self._entries[entryFrom:]
        self.size_bytes -= sum(map(_size_of, cut))
        self._drop_unsynced(len(cut))
        index = cut[0][1]
        if index <= self._synced[0]:
            self._cut_at = index
            self._synced = self._entries[-1][1:] if self._entries else (0, 0)

    def deleteEntriesTo(self, entryTo: int) -> None:  # noqa: N802, N803 - pysyncobj's names
        """Forget the entries before a position: a snapshot that is on the disk covers them."""
        self._check_wide()
        if not 0 < entryTo < len(self._entries):
            return
        self.sync()
        self.size_bytes -= sum(map(_size_of, self._entries[:entryTo]))
        del self._entries[:entryTo]
        with self._writing():
            self._files.remove_before(self._entries[0][1])

    @overload
    def __getitem__(self, item: int) -> Entry: ...

    @overload
    def __getitem__(self, item: slice) -> list[Entry]: ...

    def __getitem__(self, item: int | slice) -> Entry | list[Entry]:
        return self._entries[item]

    def __len__(self) -> int:
        return len(self._entries)

    def setCurrentTerm(self, term: int, votedForNodeId: str | None) -> None:  # noqa: N802, N803 - pysyncobj's names
        """Enter a term, or vote in it; durable on return. Raises ValueError for what was decided otherwise already."""
        now = self._votes.vote
        if term < now.term or (term == now.term and now.voted_for not in (None, votedForNodeId)):
            raise ValueError(f"term {term} cannot follow term {now.term} with a vote for {now.voted_for}")
        if (term, votedForNodeId) != (now.term, now.voted_for):
            with self._writing():
                self._votes.write(self._with_synced(replace(now, term=term, voted_for=votedForNodeId)))

    def getCurrentTerm(self) -> int:  # noqa: N802 - pysyncobj's name
        return self._votes.vote.term

    def getVotedForNodeId(self) -> str | None:  # noqa: N802 - pysyncobj's name
        return self._votes.vote.voted_for

    def setRaftCommitIndex(self, raftCommitIndex: int) -> None:  # noqa: N802, N803 - pysyncobj's names
        """Entries up to this one are committed: this member's own copies of them count, so they are synced first."""
        if raftCommitIndex > self._synced[0]:
            self.sync()

    def getRaftCommitIndex(self) -> int:  # noqa: N802 - pysyncobj's name
        """Index known to be committed at the start: the snapshot's, or none."""
        return self._commit_index

    def onOneSecondTimer(self) -> None:  # noqa: N802 - pysyncobj's name
        """Have the file `mark` say how far the log is synced: when it is idle, or else every RAFT_MARK_DELAY_S."""
        was_busy, self._was_busy = self._was_busy, False
        if self._stopped:
            return
        self._mark_age_s += 1
        if (not was_busy or self._mark_age_s >= RAFT_MARK_DELAY_S) and self._files.mark():
            self._mark_age_s = 0

    def _destroy(self) -> None:
        self.close()

    # What Danube needs besides

    @property
    def first_index(self) -> int:
        """1 while there is no entry."""
        return self._entries[0][1] if self._entries else 1

    @property
    def last_index(self) -> int:
        """0 while there is no entry."""
        return self._entries[-1][1] if self._entries else 0

    def term_of(self, index: int) -> int | None:
        """The term of an entry, or None when it is not here."""
        at = index - self.first_index
        return self._entries[at][2] if 0 <= at < len(self._entries) else None

    @property
    def unsynced(self) -> bool:
        """True if a crash may undo something."""
        return bool(self._unsynced) or self._cut_at is not None

    @property
    def is_marked(self) -> bool:
        """True if the files say that all of it was synced: `onOneSecondTimer` has nothing to do."""
        return not self.unsynced and self._files.is_marked

    def sync(self) -> None:
        """Make everything durable. Raises JournalStoppedError."""
        with self._writing():
            if not self.unsynced:
                return
            self._begin_file_if_needed()
            if self._unsynced:
                self._files.append(self._unsynced)
                self._synced = self._unsynced[-1][1:]
                self._unsynced, self._unsynced_bytes = [], 0
            self._was_busy = True

    def narrow(self, last_index: int) -> None:
        """Show nothing behind this entry until `widen`. Nothing changes on the disk; nothing can be added or cut."""
        self._check_wide()
        end = max(0, min(last_index + 1 - self.first_index, len(self._entries)))
        self._aside = self._entries[end:]
        del self._entries[end:]

    def widen(self) -> None:
        if self._aside is not None:
            self._entries += self._aside
            self._aside = None

    def take_over(self, opened: "RaftLog") -> None:
        """Go on as this log, which was opened anew from the same files."""
        self._files.close()
        self.__dict__.update(opened.__dict__)

    def close(self) -> None:
        """Sync, have the files say that all of them was synced, and close them. Idempotent."""
        if self._stopped:
            self._files.close()
            return
        try:
            self.widen()
            self.sync()
            with self._writing():
                self._files.mark()
                vote = self._with_synced(self._votes.vote)
                if vote != self._votes.vote:
                    self._votes.write(vote)
            self._stopped = "it is closed"
        finally:
            self._files.close()

    def _begin_file_if_needed(self) -> None:
        """Take care that the newest file takes what is added next, and that what was cut does not count."""
        first = self._unsynced[0][1] if self._unsynced else max(self._cut_at or 0, 1)
        if self._cut_at is None and self._files.takes and self._files.next_index == first:
            return
        if self._votes.vote.synced_index > self._synced[0]:
            self._votes.write(self._with_synced(self._votes.vote))
        self._files.begin(first, voids=self._cut_at == 0 or first > self._files.next_index)
        self._cut_at = None

    def _with_synced(self, vote: Vote) -> Vote:
        return replace(vote, synced_index=self._synced[0], synced_term=self._synced[1])

    def _drop_unsynced(self, count: int) -> None:
        """Forget the newest of what is not synced, as many as are cut."""
        kept = max(0, len(self._unsynced) - count)
        self._unsynced_bytes -= sum(map(_size_of, self._unsynced[kept:]))
        del self._unsynced[kept:]

    def _check_wide(self) -> None:
        if self._aside is not None:
            raise RuntimeError("a log of which only a part is shown cannot be changed")

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Anything that goes wrong with the disk in here is the end of this log."""
        if self._stopped:
            raise JournalStoppedError(f"the log of the metadata stopped: {self._stopped}")
        try:
            yield
        except OSError as error:
            self._stopped = f"{error}. Check the disk of the data folder, then restart the broker"
            raise JournalStoppedError(f"the log of the metadata stopped: {self._stopped}") from error


def _size_of(entry: Entry) -> int:
    return RECORD_HEADER_BYTES + len(entry[0])
