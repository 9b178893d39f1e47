"""The metadata in the folder `raft/` of a member that does not run, as an image; and a new group that begins with one.

A member knows what is in its own log. What stands behind its newest image may be agreed on or not: only a majority
knows that. All of it is taken: so what this member knew to be agreed on is there, and what was under way may be, too,
as after an answer that did not come.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from danube.metadata.command_format import decode_request
from danube.metadata.image_format import decode_image, encode_image
from danube.metadata.raft.alignment import aligned, check_together, members_after
from danube.metadata.raft.damage import damaged
from danube.metadata.raft.dump import HeldImage, MemoryBytes
from danube.metadata.raft.folder import FOLDER, IDENTITY, VOTE, RaftFolder, newest_image
from danube.metadata.raft.identity import read_identity
from danube.metadata.raft.log_format import Entry
from danube.metadata.raft.log_recovery import LogRecovery
from danube.metadata.raft.member import unpack_batch
from danube.metadata.raft.node import RaftNode
from danube.metadata.raft.seams import NO_OP, REGULAR
from danube.metadata.raft.vote import read_vote
from danube.metadata.state import State, StateImage, apply
from danube.model.errors import DataFolderError
from danube.runtime.disk import Disk
from danube.runtime.rng import Rng

_FIRST_TERM = 1
_FIRST_INDEX = 11
"""Of the image that a new group begins with. Who joins has the two entries that every log begins with and nothing
else, so it must not find those here: it has to be given the image."""


@dataclass(frozen=True, slots=True)
class RaftState:
    """What a member knows."""

    image: StateImage
    position: int
    """Of the last entry in its log."""
    agreed_position: int
    """Up to here it was agreed on for sure: by its newest image, or because nobody else had a vote."""
    node_id: int
    members: tuple[str, ...]


def read_raft(disk: Disk) -> RaftState:
    """All that is in the folder; changes nothing.

    Raises DamagedDataError, DataFolderError also for a member that belongs to no cluster yet, MetadataError, OSError.
    """
    owner = read_identity(disk, IDENTITY)
    vote = read_vote(disk, VOTE)
    if owner is None or vote is None:
        raise damaged(VOTE if vote is None else IDENTITY, 0, "the file is missing")
    image = newest_image(disk)
    found = LogRecovery(disk, FOLDER, owner).run()
    check_together(found, image, vote[1], FOLDER)
    if image is None:
        raise DataFolderError(f"{FOLDER}/ is of a broker that belongs to no cluster yet: there is nothing in it")
    behind = [entry for entry in aligned(found, image) or () if entry[1] > image.index]
    position = behind[-1][1] if behind else image.index
    members = members_after(image.members, behind)
    is_alone = [RaftNode(member).node_id for member in {*image.members, *members}] == [owner.node_id]
    state = _replayed(decode_image(image.payload.read(0, image.payload.size)), behind)
    return RaftState(state, position, position if is_alone else image.index, owner.node_id, members)


def own_address(state: RaftState) -> str:
    """At which the others reach the member whose folder it is; "" when it has no vote."""
    own = (member for member in map(RaftNode, state.members) if member.node_id == state.node_id)
    return next((member.address for member in own), "")


def begin_group(disk: Disk, image: StateImage, address: str, rng: Rng) -> tuple[str, int]:
    """Make the folder `raft/`, which is not there yet, that of the one voter of a new group, at `address`.

    It starts with this state; others join it. Answers the group's cluster id and the member's node id, both new.

    Raises DataFolderError, InvalidRequestError for an address that is none, OSError.
    """
    folder = RaftFolder.open(disk, rng)
    try:
        member = RaftNode.of(folder.node_id, address)
        folder.set_cluster_id(f"{rng.new_id():016x}")
        folder.log.setCurrentTerm(_FIRST_TERM, None)
        prev, last = (NO_OP, _FIRST_INDEX - 1, _FIRST_TERM), (NO_OP, _FIRST_INDEX, _FIRST_TERM)
        payload = MemoryBytes(*encode_image(image))
        folder.save_image(HeldImage(prev=prev, last=last, members=(str(member.id),), payload=payload))
        folder.log.clear()
        folder.log.add(*prev)
        folder.log.add(*last)
        folder.log.sync()
        return folder.cluster_id, folder.node_id
    finally:
        folder.close()


def _replayed(image: StateImage, entries: Sequence[Entry]) -> StateImage:
    state = State.of(image)
    for request in _requests(entries):
        apply(state, decode_request(request).command)
    return state.image()


def _requests(entries: Sequence[Entry]) -> Iterator[bytes]:
    for command, _, _ in entries:
        if command[:1] == REGULAR:
            yield from unpack_batch(command)[2]
