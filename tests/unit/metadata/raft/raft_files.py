"""A folder `raft/` on a simulated disk, and a few entries to put in it."""

from collections.abc import Sequence

from danube.metadata.raft.folder.folder import RaftFolder
from danube.metadata.raft.folder.format import Entry
from danube.metadata.raft.folder.snapshot import HeldSnapshot, MemoryBytes
from danube.runtime.rng import SystemRng
from danube.testing.simulated.disk import SimDisk

MEMBERS = ("1@10.0.0.1:7650", "2@10.0.0.2:7650")


def opened(disk: SimDisk) -> RaftFolder:
    """The folder, with the same chance each time."""
    return RaftFolder.open(disk, SystemRng(7))


def entry(index: int, term: int = 1) -> Entry:
    """An entry as a leader of this term would have it."""
    return b"\0entry %d of term %d" % (index, term), index, term


def entries(first: int, end: int, term: int = 1) -> list[Entry]:
    """The entries from `first` up to `end`, not included."""
    return [entry(index, term) for index in range(first, end)]


def fill(folder: RaftFolder, added: Sequence[Entry]) -> None:
    """Enter the terms of these entries, add them, and sync."""
    for command, index, term in added:
        if term > folder.log.getCurrentTerm():
            folder.log.setCurrentTerm(term, None)
        folder.log.add(command, index, term)
    folder.log.sync()


def snapshot_at(index: int, term: int = 1, payload: bytes = b"state") -> HeldSnapshot:
    """A snapshot after this entry."""
    return HeldSnapshot(
        prev=entry(index - 1, term), last=entry(index, term), members=MEMBERS, payload=MemoryBytes(payload)
    )


def keep(folder: RaftFolder, snapshot: HeldSnapshot) -> None:
    """Save a snapshot in its term, or in a later one."""
    folder.log.setCurrentTerm(max(snapshot.term, folder.log.getCurrentTerm()), folder.log.getVotedForNodeId())
    folder.save_snapshot(snapshot)


def put(files: dict[str, bytes]) -> SimDisk:
    """A disk that has these files, durably."""
    disk = SimDisk()
    disk.make_folder("raft")
    for name, content in files.items():
        disk.replace_file(name, content)
    return disk
