"""The term that a member is in and whom it voted for: the file `vote`, replaced whole at each change. Little-endian.

    at  bytes  field
    0   4      magic "DnRv"
    4   1      version, 1
    5   1      1 when there is a vote in this term, else 0
    6   2      n, length of whom it is for
    8   8      node id of the member whose file this is
    16  8      term
    24  8      index of the last entry of the log that was known to be synced when this was written
    32  8      term of that entry
    40  n      id of the member that has the vote, UTF-8
    end 4      CRC-32C of all before it

A rename puts the file in its place after it was synced, so a torn one is never seen, and the one that is damaged may be
the one that says that the vote is given: nothing older is taken for it. The last two numbers tell of a log that lost
its end as a whole, which no checksum in it could.
"""

import struct
from dataclasses import dataclass

from danube.metadata.raft.folder.damage import damaged, of_another
from danube.metadata.raft.folder.small_file import read_small
from danube.metadata.raft.log.checksum import sealed
from danube.model.errors import InvalidRequestError
from danube.model.limits.metadata import RAFT_MEMBER_ID_BYTES_MAX
from danube.runtime.disk import Disk

_FIXED = struct.Struct("<5sBHQQQQ")
_START = b"DnRv\x01"


@dataclass(frozen=True, slots=True)
class Vote:
    """What a member must not forget."""

    term: int = 0
    voted_for: str | None = None
    synced_index: int = 0
    """Of the last entry that the log was known to have, synced; 0 for none."""
    synced_term: int = 0


class VoteFile:
    """The file `name` of the member `node_id`. All of it blocks."""

    def __init__(self, disk: Disk, name: str, node_id: int) -> None:
        self.name = name
        self.vote = Vote()
        """As it is on the disk."""
        self._disk = disk
        self._node_id = node_id

    def load(self) -> bool:
        """Read it; answers whether it is there. Raises DamagedDataError, DataFolderError, OSError."""
        found = read_vote(self._disk, self.name)
        if found is None:
            return False
        node_id, self.vote = found
        if node_id != self._node_id:
            raise of_another(self.name, node_id, self._node_id)
        return True

    def write(self, vote: Vote) -> None:
        """Have it say this; durable on return. Raises OSError, and then either may be on the disk."""
        voted_for = (vote.voted_for or "").encode()
        if len(voted_for) > RAFT_MEMBER_ID_BYTES_MAX:
            raise InvalidRequestError(f"a member's id has at most {RAFT_MEMBER_ID_BYTES_MAX} bytes")
        fixed = _FIXED.pack(
            _START,
            vote.voted_for is not None,
            len(voted_for),
            self._node_id,
            vote.term,
            vote.synced_index,
            vote.synced_term,
        )
        self._disk.replace_file(self.name, sealed(fixed + voted_for))
        self.vote = vote


def read_vote(disk: Disk, name: str) -> tuple[int, Vote] | None:
    """Whose vote a file holds, and what it says; None when it is not there.

    Raises DamagedDataError, DataFolderError, OSError.
    """
    packed = read_small(disk, name, _START, _FIXED.size)
    if packed is None:
        return None
    _, is_given, length, node_id, term, synced_index, synced_term = _FIXED.unpack_from(packed)
    if len(packed) != _FIXED.size + length:
        raise damaged(name, 0, "its fields do not fit each other")
    return node_id, Vote(term, packed[_FIXED.size :].decode() if is_given else None, synced_index, synced_term)
