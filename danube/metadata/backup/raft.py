"""State in the folder `raft/` of a member that does not run, and a new group that begins with a state.

A member knows its own log. Entries behind its newest snapshot may be agreed on or not: only a majority knows that. All
of them are applied, so everything that this member knew to be agreed on is there.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from danube.metadata.raft.bootstrap import begin
from danube.metadata.raft.folder.folder import RaftFolder, newest_snapshot
from danube.metadata.raft.folder.format import FOLDER, Entry, damaged
from danube.metadata.raft.folder.recovery import LogRecovery, aligned, check_together, members_after
from danube.metadata.raft.folder.small_files import IDENTITY, VOTE, read_identity, read_vote
from danube.metadata.raft.member import unpack_batch
from danube.metadata.raft.values.entries import NO_OP, REGULAR
from danube.metadata.raft.values.node import RaftNode
from danube.metadata.replication.command_format import decode_request
from danube.metadata.replication.snapshot_format import decode_state
from danube.metadata.state import State, StateSnapshot, apply
from danube.model.errors import DataFolderError
from danube.runtime.disk import Disk
from danube.runtime.rng import Rng

_FIRST_TERM = 1
_FIRST_INDEX = 11
"""Index of the snapshot that a new group begins with. A member that joins has the two entries that every log begins
with, and nothing else, so it must not find those here: it has to be given the snapshot."""


@dataclass(frozen=True, slots=True)
class RaftState:
    """State of a member, as its folder has it."""

    snapshot: StateSnapshot
    position: int
    """Index of the last entry in its log."""
    agreed_position: int
    """Last index surely agreed on: by its newest snapshot, or because no other member had a vote."""
    node_id: int
    members: tuple[str, ...]


def read_raft(disk: Disk) -> RaftState:
    """All that is in the folder; changes nothing.

    Raises DamagedDataError, DataFolderError also for a member that belongs to no cluster yet, MetadataError, OSError.
    """
    owner = read_identity(disk)
    vote = read_vote(disk)
    if owner is None or vote is None:
        raise damaged(VOTE if vote is None else IDENTITY, 0, "the file is missing")
    snapshot = newest_snapshot(disk)
    found = LogRecovery(disk, owner).run()
    check_together(found, snapshot, vote[1])
    if snapshot is None:
        raise DataFolderError(f"{FOLDER}/ is of a broker that belongs to no cluster yet: there is nothing in it")
    behind = [entry for entry in aligned(found, snapshot) or () if entry[1] > snapshot.index]
    position = behind[-1][1] if behind else snapshot.index
    members = members_after(snapshot.members, behind)
    is_alone = {RaftNode(member).node_id for member in {*snapshot.members, *members}} == {owner.node_id}
    state = _replayed(decode_state(snapshot.payload.read(0, snapshot.payload.size)), behind)
    return RaftState(state, position, position if is_alone else snapshot.index, owner.node_id, members)


def own_address(state: RaftState) -> str:
    """Address at which the others reach the member whose folder it is; "" when it has no vote."""
    own = (member for member in map(RaftNode, state.members) if member.node_id == state.node_id)
    return next((member.address for member in own), "")


def begin_group(disk: Disk, snapshot: StateSnapshot, address: str, rng: Rng) -> tuple[str, int]:
    """Make the folder `raft/`, which is not there yet, that of the one voter of a new group, at `address`.

    It starts with this state; others join it. Answers the group's cluster id and the member's node id, both new.

    Raises DataFolderError, InvalidRequestError for an address that is none, OSError.
    """
    folder = RaftFolder.open(disk, rng)
    try:
        member = RaftNode.of(folder.node_id, address)
        folder.log.setCurrentTerm(_FIRST_TERM, None)
        after = (NO_OP, _FIRST_INDEX - 1, _FIRST_TERM), (NO_OP, _FIRST_INDEX, _FIRST_TERM)
        begin(folder, f"{rng.new_id():016x}", (str(member.id),), snapshot, after)
        return folder.cluster_id, folder.node_id
    finally:
        folder.close()


def _replayed(snapshot: StateSnapshot, entries: Sequence[Entry]) -> StateSnapshot:
    state = State.of(snapshot)
    for request in _requests(entries):
        apply(state, decode_request(request).command)
    return state.snapshot()


def _requests(entries: Sequence[Entry]) -> Iterator[bytes]:
    for command, _, _ in entries:
        if command[:1] == REGULAR:
            yield from unpack_batch(command)[2]
