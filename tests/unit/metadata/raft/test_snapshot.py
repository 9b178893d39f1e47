"""Snapshots: whole or refused."""

import pytest

from danube.metadata.raft.folder.snapshot import HeldSnapshot, MemoryBytes, load_snapshot
from danube.model.errors import DamagedDataError, DataFolderError, InvalidRequestError
from danube.model.limits.metadata import RAFT_MEMBER_ID_BYTES_MAX, RAFT_VOTERS_MAX
from danube.testing.simulated.disk import Operation, SimDisk
from tests.unit.metadata.raft.raft_files import MEMBERS, entry, keep, opened, put, snapshot_at

NAME = "raft/image-00000000000000000009"


def _whole(snapshot: HeldSnapshot) -> bytes:
    return b"".join(snapshot.pieces())


def test_an_image_is_read_as_it_was_saved() -> None:
    disk = SimDisk()
    payload = bytes(range(256)) * 9_000
    folder = opened(disk)
    folder.log.setCurrentTerm(3, None)
    keep(folder, snapshot_at(9, 3, payload))
    snapshot = opened(disk.power_cut()).snapshot
    assert snapshot is not None
    assert (snapshot.index, snapshot.term, snapshot.members) == (9, 3, MEMBERS)
    assert (snapshot.prev, snapshot.last) == (entry(8, 3), entry(9, 3))
    assert snapshot.payload.size == len(payload)
    assert snapshot.payload.read(0, len(payload) + 9) == payload
    assert snapshot.payload.read(1_000_000, 3) == payload[1_000_000:1_000_003]
    assert snapshot.payload.read(len(payload), 10) == b""


def test_an_image_can_be_kept_again_from_its_file() -> None:
    disk = SimDisk()
    keep(opened(disk), snapshot_at(9))
    snapshot = load_snapshot(disk, NAME)
    assert _whole(snapshot) == disk.contents()[NAME] == _whole(snapshot_at(9))


def test_a_newer_image_takes_the_place_of_an_older_one() -> None:
    disk = SimDisk()
    folder = opened(disk)
    keep(folder, snapshot_at(9))
    keep(folder, snapshot_at(12))
    assert folder.snapshot is not None
    assert folder.snapshot.index == 12
    assert [name for name in disk.contents() if "image" in name] == ["raft/image-00000000000000000012"]


@pytest.mark.parametrize("index", [8, 9])
def test_an_image_that_is_not_newer_changes_nothing(index: int) -> None:
    disk = SimDisk()
    folder = opened(disk)
    keep(folder, snapshot_at(9))
    before = disk.changes_done
    keep(folder, snapshot_at(index, payload=b"another"))
    assert disk.changes_done == before


@pytest.mark.parametrize("operation", [Operation.APPEND, Operation.SYNC, Operation.RENAME, Operation.SYNC_FOLDER])
def test_an_image_that_could_not_be_saved_can_be_saved_again(operation: Operation) -> None:
    disk = SimDisk()
    folder = opened(disk)
    keep(folder, snapshot_at(9))
    disk.fail(operation)
    with pytest.raises(OSError, match="Input/output"):
        keep(folder, snapshot_at(12))
    assert folder.snapshot is not None
    assert folder.snapshot.payload.read(0, 5) == b"state"
    keep(folder, snapshot_at(12))
    assert folder.snapshot.index == 12


def test_a_piece_of_an_image_that_a_newer_one_replaced_cannot_be_read() -> None:
    folder = opened(SimDisk())
    keep(folder, snapshot_at(9))
    old = folder.snapshot
    keep(folder, snapshot_at(12))
    assert old is not None
    with pytest.raises(FileNotFoundError):
        old.payload.read(0, 1)


def test_every_flipped_byte_and_every_missing_end_of_an_image_is_refused() -> None:
    disk = SimDisk()
    folder = opened(disk)
    folder.log.setCurrentTerm(1, None)
    keep(folder, snapshot_at(9))
    files = disk.contents()
    whole = files[NAME]
    broken = [whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1 :] for at in range(len(whole))]
    for content in [*broken, *(whole[:size] for size in range(len(whole))), whole + b"\0"]:
        with pytest.raises((DamagedDataError, DataFolderError), match="raft/image-"):
            opened(put({**files, NAME: content}))


def test_an_image_under_the_name_of_another_is_refused() -> None:
    disk = SimDisk()
    keep(opened(disk), snapshot_at(9))
    files = disk.contents()
    files["raft/image-00000000000000000011"] = files.pop(NAME)
    with pytest.raises(DamagedDataError, match="another entry"):
        opened(put(files))


def test_what_is_left_of_an_interrupted_save_is_removed() -> None:
    files = {**SimDisk().contents(), f"{NAME}.0123456789abcdef.new": b"a part"}
    disk = put(files)
    assert opened(disk).snapshot is None
    assert not any(name.endswith(".new") for name in disk.contents())


@pytest.mark.parametrize(
    "wrong",
    [
        HeldSnapshot(prev=entry(3), last=entry(5), members=MEMBERS, payload=MemoryBytes()),
        HeldSnapshot(prev=entry(3, 2), last=entry(4, 1), members=MEMBERS, payload=MemoryBytes()),
        HeldSnapshot(prev=entry(3), last=entry(4), members=("m",) * (RAFT_VOTERS_MAX + 1), payload=MemoryBytes()),
        HeldSnapshot(
            prev=entry(3), last=entry(4), members=("m" * (RAFT_MEMBER_ID_BYTES_MAX + 1),), payload=MemoryBytes()
        ),
    ],
)
def test_an_image_without_a_place_in_a_log_is_refused(wrong: HeldSnapshot) -> None:
    disk = SimDisk()
    folder = opened(disk)
    with pytest.raises(InvalidRequestError):
        folder.save_snapshot(wrong)
    assert folder.snapshot is None


def test_an_image_of_a_term_to_come_is_refused() -> None:
    folder = opened(SimDisk())
    folder.log.setCurrentTerm(3, None)
    with pytest.raises(InvalidRequestError, match="came in term 3"):
        folder.save_snapshot(snapshot_at(9, 4))
