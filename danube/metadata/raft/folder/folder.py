"""Folder `raft/` of a member: its identity, its vote, its log and its newest snapshot.

The formats: `docs/formats/raft.md`. What crashes and power cuts leave is put in order when it is opened; what they
cannot leave is damage, and refused. Everything blocks.
"""

import re
import threading

from danube.metadata.raft.folder.durable_log import RaftLog
from danube.metadata.raft.folder.format import FOLDER, Owner, damaged, file_sequence
from danube.metadata.raft.folder.log_files import LogFiles
from danube.metadata.raft.folder.recovery import LogRecovery, aligned, check_together
from danube.metadata.raft.folder.small_files import (
    IDENTITY,
    VOTE,
    Vote,
    VoteFile,
    read_identity,
    read_vote,
    write_identity,
)
from danube.metadata.raft.folder.snapshot import HeldSnapshot, load_snapshot
from danube.model.errors import DataFolderError, InvalidRequestError, PreconditionFailedError
from danube.runtime.disk import PARTIAL_SUFFIX, Disk
from danube.runtime.rng import Rng, SystemRng

_IMAGE = re.compile(r"image-(\d{20})")


class RaftFolder:
    """The folder of one member, opened. `save_snapshot` may be called from any thread, `log` is for one."""

    def __init__(self, disk: Disk, rng: Rng, files: LogFiles, log: RaftLog, snapshot: HeldSnapshot | None) -> None:
        self.log = log
        self.snapshot = snapshot
        """The newest snapshot that is on the disk."""
        self._disk = disk
        self._rng = rng
        self._files = files
        self._saving = threading.Lock()

    @classmethod
    def open(cls, disk: Disk, rng: Rng | None = None) -> "RaftFolder":
        """Open the folder, make it where it is missing, and put in order what a crash left.

        The log begins with the two entries of the snapshot, if there is one, and everything in it is durable.

        Raises:
            DamagedDataError: something was synced and is not there any more, or is not what was written.
            DataFolderError: it is another member's, of a newer format, or cannot be read or written.
        """
        rng = rng or SystemRng()
        try:
            return cls(disk, rng, *_open(disk, rng))
        except OSError as error:
            raise DataFolderError(
                f"the metadata in {FOLDER}/ cannot be opened: {error}. Check the data folder and its disk"
            ) from error

    def reopen(self) -> None:
        """Put in order what an error of the disk left, as a start does; `log` and `snapshot` go on from there.

        Raises as `open`, and OSError: then it can be tried again.
        """
        with self._saving:
            self._files, opened, self.snapshot = _open(self._disk, self._rng)
            self.log.take_over(opened)

    @property
    def node_id(self) -> int:
        """Identity of this member for the life of the folder: another folder is another member."""
        return self._files.owner.node_id

    @property
    def cluster_id(self) -> str:
        """The cluster that it belongs to; empty while it belongs to none."""
        return self._files.owner.cluster_id

    def set_cluster_id(self, cluster_id: str) -> None:
        """Belong to a cluster from now on; durable on return. Raises PreconditionFailedError when it belongs to
        another one, OSError.
        """
        if self.cluster_id not in ("", cluster_id):
            raise PreconditionFailedError(
                f"this member belongs to cluster {self.cluster_id} and cannot join {cluster_id}: delete the folder "
                f"{FOLDER}/ in its data folder to have it begin anew"
            )
        owner = Owner(self.node_id, cluster_id)
        write_identity(self._disk, owner)
        self._files.owner = owner

    def begin(self, cluster_id: str, snapshot: HeldSnapshot) -> None:
        """Belong to a cluster, with a log that begins with this snapshot; durable on return. Raises as both steps do.

        The snapshot makes a member of the folder, so it is written before the log, which each start aligns to it.
        """
        self.set_cluster_id(cluster_id)
        self.save_snapshot(snapshot)
        _begin_log(self.log, snapshot)

    def save_snapshot(self, snapshot: HeldSnapshot) -> None:
        """Keep a snapshot, durably, and remove older ones. Without effect when the one that is held is as new.

        Raises InvalidRequestError for one that has no place in this log, OSError: then the older one is still there.
        """
        if snapshot.term > self.log.getCurrentTerm():
            raise InvalidRequestError(f"a snapshot of term {snapshot.term} came in term {self.log.getCurrentTerm()}")
        with self._saving:
            if self.snapshot is not None and self.snapshot.index >= snapshot.index:
                return
            name = _snapshot_name(snapshot.index)
            if self._disk.exists(name):  # of an attempt that failed at its last step
                self._disk.remove(name)
            self._disk.create_whole(name, list(snapshot.pieces()))
            self.snapshot = load_snapshot(self._disk, name)
            _remove_snapshots(self._disk, before=snapshot.index)

    def close(self) -> None:
        """Close the log; after a clean one the next start knows what has to be there. Idempotent."""
        self.log.close()


def newest_snapshot(disk: Disk) -> HeldSnapshot | None:
    """The newest snapshot in the folder. Raises DamagedDataError, DataFolderError, OSError."""
    indexes = _snapshot_indexes(disk)
    if not indexes:
        return None
    name = _snapshot_name(indexes[-1])
    snapshot = load_snapshot(disk, name)
    if snapshot.index != indexes[-1]:
        raise damaged(name, 0, "it is the snapshot of another entry than its name says")
    return snapshot


def _open(disk: Disk, rng: Rng) -> tuple[LogFiles, RaftLog, HeldSnapshot | None]:
    disk.make_folder(FOLDER)
    for name in disk.list(FOLDER):
        if name.endswith(PARTIAL_SUFFIX):
            disk.remove(f"{FOLDER}/{name}")
    owner = read_identity(disk) or _begin(disk, rng)
    votes = VoteFile(disk, owner.node_id)
    if not votes.load():
        raise damaged(VOTE, 0, "the file is missing")
    snapshot = newest_snapshot(disk)
    files, log = _open_log(disk, rng, owner, votes, snapshot)
    if snapshot is not None:
        _remove_snapshots(disk, before=snapshot.index)
    return files, log, snapshot


def _begin(disk: Disk, rng: Rng) -> Owner:
    """Make a new member. The vote is there before the identity is, so one without the other was lost."""
    found = read_vote(disk)
    has_voted = found is not None and found[1] != Vote()
    if has_voted or _snapshot_indexes(disk) or any(file_sequence(name) is not None for name in disk.list(FOLDER)):
        raise damaged(IDENTITY, 0, "the file is missing")
    owner = Owner(rng.new_id())
    VoteFile(disk, owner.node_id).write(Vote())
    write_identity(disk, owner)
    return owner


def _open_log(
    disk: Disk, rng: Rng, owner: Owner, votes: VoteFile, snapshot: HeldSnapshot | None
) -> tuple[LogFiles, RaftLog]:
    recovery = LogRecovery(disk, owner)
    found = recovery.run()
    check_together(found, snapshot, votes.vote)
    recovery.settle()
    files = LogFiles(disk, owner, rng, found)
    files.mark()
    entries = aligned(found, snapshot)
    if snapshot is None or entries is not None:
        return files, RaftLog(files, votes, entries or [], snapshot.index if snapshot is not None else 1)
    log = RaftLog(files, votes, [], snapshot.index)
    _begin_log(log, snapshot)
    return files, log


def _begin_log(log: RaftLog, snapshot: HeldSnapshot) -> None:
    log.clear()
    log.add(*snapshot.prev)
    log.add(*snapshot.last)
    log.sync()


def _snapshot_name(index: int) -> str:
    return f"{FOLDER}/image-{index:020d}"


def _snapshot_indexes(disk: Disk) -> list[int]:
    return sorted(int(match[1]) for name in disk.list(FOLDER) if (match := _IMAGE.fullmatch(name)))


def _remove_snapshots(disk: Disk, before: int) -> None:
    for index in _snapshot_indexes(disk):
        if index < before:
            disk.remove(_snapshot_name(index))
