"""Files of a few bytes in `raft/`: `identity`, `vote` and `mark`. Byte by byte: `docs/formats/raft.md`.

Each is replaced whole and synced before its rename, so a torn one is never seen and another byte is damage.

A damaged `vote` may be the one that says that the vote is given: nothing older is accepted in its place. `mark` stands
beside the log, so an end of the log that is missing is noticed. No file of the log is ever made shorter or written
over, so an old mark says less and never anything wrong.
"""

import contextlib
from dataclasses import dataclass
from typing import TypeVar

from danube.logfile.files import MarkFile
from danube.metadata.raft.folder.format import (
    FOLDER,
    Owner,
    damaged,
    of_another,
    too_new,
)
from danube.model.errors import InvalidRequestError
from danube.model.limits.metadata import RAFT_CLUSTER_ID_BYTES_MAX, RAFT_MEMBER_ID_BYTES_MAX
from danube.runtime.disk import Disk
from danube.runtime.sealed import OtherVersionError, Sealed, UnsealError

_BYTES_MAX = 4_096

R = TypeVar("R")


IDENTITY = f"{FOLDER}/identity"
VOTE = f"{FOLDER}/vote"
MARK = f"{FOLDER}/mark"


def _read(disk: Disk, name: str, sealed: Sealed[R]) -> R | None:
    """The record in a file, or None when there is no such file. Raises DamagedDataError, DataFolderError, OSError."""
    if not disk.exists(name):
        return None
    with contextlib.closing(disk.open_read(name)) as file:
        packed = file.read(0, _BYTES_MAX)
    try:
        return sealed.unseal(packed)
    except OtherVersionError as error:
        raise too_new(name, error.found) from error
    except UnsealError as error:
        raise damaged(name, 0, f"it is not what was written ({error})") from error


_IDENTITY = Sealed(b"DnRn", Owner)


def read_identity(disk: Disk) -> Owner | None:
    """Owner of the folder; None when it has none yet. Raises DamagedDataError, DataFolderError."""
    owner = _read(disk, IDENTITY, _IDENTITY)
    if owner is not None and not owner.node_id:
        raise damaged(IDENTITY, 0, "it names no member")
    return owner


def write_identity(disk: Disk, owner: Owner) -> None:
    """Write it, durably. Raises InvalidRequestError for a cluster id that is too long, OSError."""
    if len(owner.cluster_id.encode()) > RAFT_CLUSTER_ID_BYTES_MAX:
        raise InvalidRequestError(f"a cluster id has at most {RAFT_CLUSTER_ID_BYTES_MAX} bytes")
    disk.replace_file(IDENTITY, _IDENTITY.seal(owner))


@dataclass(frozen=True, slots=True)
class Vote:
    """Term and vote of a member."""

    term: int = 0
    voted_for: str | None = None
    synced_index: int = 0
    """Index of the last entry known to be synced; 0 for none."""
    synced_term: int = 0


class VoteFile:
    """The file `vote` of the member `node_id`. All of it blocks."""

    def __init__(self, disk: Disk, node_id: int) -> None:
        self.vote = Vote()
        """Vote as it is on the disk."""
        self._disk = disk
        self._node_id = node_id

    def load(self) -> bool:
        """Read it; answers whether it is there. Raises DamagedDataError, DataFolderError, OSError."""
        found = read_vote(self._disk)
        if found is None:
            return False
        node_id, self.vote = found
        if node_id != self._node_id:
            raise of_another(VOTE, node_id, self._node_id)
        return True

    def write(self, vote: Vote) -> None:
        """Have it say this; durable on return. Raises OSError, and then either may be on the disk."""
        if len((vote.voted_for or "").encode()) > RAFT_MEMBER_ID_BYTES_MAX:
            raise InvalidRequestError(f"a member's id has at most {RAFT_MEMBER_ID_BYTES_MAX} bytes")
        self._disk.replace_file(VOTE, _VOTE.seal(_OwnVote(self._node_id, vote)))
        self.vote = vote


@dataclass(frozen=True, slots=True)
class _OwnVote:
    node_id: int
    vote: Vote


_VOTE = Sealed(b"DnRv", _OwnVote)


def read_vote(disk: Disk) -> tuple[int, Vote] | None:
    """Node id and vote in the file; None when it is missing. Raises DamagedDataError, DataFolderError, OSError."""
    found = _read(disk, VOTE, _VOTE)
    return None if found is None else (found.node_id, found.vote)


@dataclass(frozen=True, slots=True)
class LogMark:
    """Position up to which a log is synced at least."""

    node_id: int
    sequence: int
    file_id: int
    synced_to: int


LOG_MARK = Sealed(b"DnRm", LogMark)


def log_mark(disk: Disk) -> MarkFile[LogMark]:
    """The file `mark`, beside the log."""
    return MarkFile(disk, MARK, LOG_MARK)
