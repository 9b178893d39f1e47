"""Writes the files of version 1 of Raft's formats beside this module: `python -m tests.golden.raft.make`.

Run it for a new version only, into a new folder: files of a version that was released are never written again.
"""

from pathlib import Path

from danube.metadata.raft.folder.folder import RaftFolder
from danube.metadata.raft.folder.format import Entry
from danube.metadata.raft.folder.snapshot import HeldSnapshot, MemoryBytes
from danube.metadata.raft.values.encoding import dumps
from danube.metadata.raft.values.entries import MEMBERSHIP
from danube.runtime.rng import SystemRng
from danube.testing.simulated.disk import SimDisk

FOLDER = Path(__file__).parent / "v1"
MEMBERS = ("1@10.0.0.1:7650", "2@10.0.0.2:7650", "3@broker-3.example:7650")
OLD = [(b"\0old %d" % index, index, 1) for index in range(1, 13)]
CHANGE = MEMBERSHIP + dumps(["rem", MEMBERS[0]])
NEW: list[Entry] = [(b"\1", 10, 3), (CHANGE, 11, 3), (b"", 12, 3), (bytes(range(70)), 13, 3)]
LOG = [*OLD[6:9], *NEW]
"""What the folder holds: from the two entries of the snapshot on."""
STATE = b"not what a state looks like"
CLUSTER = "blue-1f2e"


def lived_in() -> tuple[SimDisk, RaftFolder]:
    """A folder whose log was cut once, with a snapshot, of a member that has voted; still open, its end not marked."""
    disk = SimDisk()
    folder = RaftFolder.open(disk, SystemRng(41))
    folder.set_cluster_id(CLUSTER)
    folder.log.setCurrentTerm(1, None)
    _fill(folder, OLD)
    folder.log.onOneSecondTimer()
    folder.log.onOneSecondTimer()
    folder.log.setCurrentTerm(3, MEMBERS[1])
    folder.log.deleteEntriesFrom(9)
    _fill(folder, NEW[:2])
    _fill(folder, NEW[2:])
    snapshot = HeldSnapshot(prev=OLD[6], last=OLD[7], members=MEMBERS, payload=MemoryBytes(STATE))
    folder.save_snapshot(snapshot)
    folder.log.deleteEntriesTo(6)
    return disk, folder


def files() -> dict[str, bytes]:
    """The same folder after it was closed."""
    disk, folder = lived_in()
    folder.close()
    return disk.contents()


def _fill(folder: RaftFolder, entries: list[Entry]) -> None:
    for entry in entries:
        folder.log.add(*entry)
    folder.log.sync()


if __name__ == "__main__":
    for name, content in files().items():
        path = FOLDER / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
