"""States taken out of stores and put into others: the folder of a Raft member."""

import asyncio
import contextlib
from pathlib import Path

import pytest

from danube.metadata.backup.backup import restored
from danube.metadata.backup.raft import begin_group, own_address, read_raft
from danube.metadata.commands import Transact
from danube.metadata.raft.bootstrap import FIRST_ENTRIES, begin
from danube.metadata.raft.folder.folder import RaftFolder
from danube.metadata.raft.folder.snapshot import HeldSnapshot, MemoryBytes
from danube.metadata.raft.member import pack_batch
from danube.metadata.raft.values.node import ALONE, RaftNode
from danube.metadata.replication.command_format import Request, encode_request
from danube.metadata.replication.snapshot_format import encode_state
from danube.metadata.state import StateSnapshot
from danube.metadata.store import Entry, Put, Transaction
from danube.model.errors import DamagedDataError, DataFolderError, InvalidRequestError
from danube.runtime.disk import LocalDisk
from danube.runtime.rng import SystemRng
from danube.testing.alone_metadata import open_alone
from danube.testing.simulated.clock import SimClock
from danube.testing.simulated.disk import SimDisk
from tests.unit.metadata.backups import RESTORE, backup

ADDRESS = "10.0.0.7:7650"
IMAGE = restored(backup(), to_cluster=False, restore_id=RESTORE).snapshot


async def test_a_restored_folder_of_a_standalone_broker_is_a_store_that_goes_on(tmp_path: Path) -> None:
    await asyncio.to_thread(begin_group, LocalDisk(tmp_path), IMAGE, ALONE, SystemRng(3))
    store = await open_alone(tmp_path, SimClock())
    try:
        assert await store.list("/") == list(IMAGE.entries)
        assert await store.put("/new", b"x") == IMAGE.revision + 1
        assert await store.grant_lease(5.0) == IMAGE.last_lease_id + 1
    finally:
        await store.close()


def test_a_new_group_begins_with_the_state_and_one_voter() -> None:
    disk = SimDisk()
    cluster_id, node_id = begin_group(disk, IMAGE, ADDRESS, SystemRng(3))
    found = read_raft(disk)
    assert found.snapshot == IMAGE
    assert found.members == (f"{node_id}@{ADDRESS}",)
    assert own_address(found) == ADDRESS
    with contextlib.closing(RaftFolder.open(disk)) as folder:
        assert (folder.cluster_id, folder.node_id) == (cluster_id, node_id)


def test_a_new_group_is_whole_after_a_power_cut() -> None:
    disk = SimDisk()
    begin_group(disk, IMAGE, ADDRESS, SystemRng(3))
    assert read_raft(disk.power_cut()).snapshot == IMAGE


def test_who_joins_a_new_group_needs_its_snapshot() -> None:
    disk = SimDisk()
    begin_group(disk, IMAGE, ADDRESS, SystemRng(3))
    with contextlib.closing(RaftFolder.open(disk)) as folder:
        assert folder.log.first_index > FIRST_ENTRIES[-1][1] + 1


def test_an_address_without_a_port_founds_nothing() -> None:
    with pytest.raises(InvalidRequestError):
        begin_group(SimDisk(), IMAGE, "somewhere", SystemRng(3))


def member_with(changes: int, *, voters: int) -> SimDisk:
    """The folder of the first of so many members, with changes behind its snapshot."""
    disk = SimDisk()
    with contextlib.closing(RaftFolder.open(disk, SystemRng(7))) as folder:
        members = [str(RaftNode.of(folder.node_id + number, f"10.0.0.{number}:7650").id) for number in range(voters)]
        begin(folder, "c", members)
        folder.log.setCurrentTerm(2, None)
        for number in range(changes):
            change = Transact(Transaction(f"t{number}", (), (Put(f"/k/{number}", b"x"),)))
            command = pack_batch(1, number, [encode_request(Request(f"r{number}", change))])
            folder.log.add(command, folder.log.last_index + 1, 2)
        folder.log.sync()
    return disk


def test_what_stands_behind_a_members_image_is_taken_too() -> None:
    found = read_raft(member_with(3, voters=3))
    assert [entry.key for entry in found.snapshot.entries] == ["/k/0", "/k/1", "/k/2"]
    assert (found.position, found.agreed_position) == (5, 2)


def test_a_member_that_votes_alone_knows_what_is_agreed_on() -> None:
    found = read_raft(member_with(3, voters=1))
    assert (found.position, found.agreed_position) == (5, 5)


def test_reading_a_member_changes_nothing() -> None:
    disk = member_with(3, voters=3)
    before = {name: disk.open_read(f"raft/{name}").read(0, 1 << 20) for name in disk.list("raft")}
    read_raft(disk)
    assert {name: disk.open_read(f"raft/{name}").read(0, 1 << 20) for name in disk.list("raft")} == before


def test_a_member_that_lost_a_file_is_refused() -> None:
    disk = member_with(3, voters=3)
    disk.remove("raft/vote")
    with pytest.raises(DamagedDataError, match="vote"):
        read_raft(disk)


def test_a_member_that_belongs_to_no_cluster_has_nothing_to_take() -> None:
    disk = SimDisk()
    RaftFolder.open(disk).close()
    with pytest.raises(DataFolderError, match="no cluster yet"):
        read_raft(disk)


def test_an_image_stands_for_the_entries_before_it() -> None:
    disk = member_with(3, voters=3)
    with contextlib.closing(RaftFolder.open(disk)) as folder:
        state = StateSnapshot(40, 0, (Entry("/snapshot", b"x", 40, 40),))
        prev, last = folder.log[-2], folder.log[-1]
        members = folder.snapshot.members if folder.snapshot else ()
        payload = MemoryBytes(*encode_state(state))
        folder.save_snapshot(HeldSnapshot(prev=prev, last=last, members=members, payload=payload))
    found = read_raft(disk)
    assert (found.snapshot, found.position, found.agreed_position) == (state, 5, 5)
