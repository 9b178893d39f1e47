"""Files of a few bytes in `raft/`: `identity`, `vote` and `mark`. Byte by byte: `docs/formats/raft.md`.

Each is replaced whole and synced before its rename, so a torn one is never seen and another byte is damage.

A damaged `vote` may be the one that says that the vote is given: nothing older is accepted in its place. `mark` stands
beside the log, so an end of the log that is missing is noticed. No file of the log is ever made shorter or written
over, so an old mark says less and never anything wrong.
"""

import contextlib
import logging
import struct
from dataclasses import astuple, dataclass

from danube.metadata.raft.folder.format import (
    FOLDER,
    Owner,
    damaged,
    of_another,
    too_new,
)
from danube.model.errors import InvalidRequestError
from danube.model.limits.metadata import RAFT_CLUSTER_ID_BYTES_MAX, RAFT_MEMBER_ID_BYTES_MAX
from danube.runtime.checksum import CRC_BYTES, is_intact, with_crc
from danube.runtime.disk import Disk, content_of

_BYTES_MAX = 4_096
_VERSION_AT = 4


IDENTITY = f"{FOLDER}/identity"
VOTE = f"{FOLDER}/vote"
MARK = f"{FOLDER}/mark"


def read_small(disk: Disk, name: str, start: bytes, fixed_bytes: int) -> bytes | None:
    """The file's bytes without their checksum, or None when there is no such file.

    They begin with `start` (magic and version) and are at least `fixed_bytes`.

    Raises DamagedDataError, DataFolderError, OSError.
    """
    if not disk.exists(name):
        return None
    with contextlib.closing(disk.open_read(name)) as file:
        packed = file.read(0, _BYTES_MAX)
    if not is_intact(packed) or len(packed) < fixed_bytes + CRC_BYTES or packed[:_VERSION_AT] != start[:_VERSION_AT]:
        raise damaged(name, 0, "it is not what was written")
    if packed[_VERSION_AT] != start[_VERSION_AT]:
        raise too_new(name, packed[_VERSION_AT])
    return packed[:-CRC_BYTES]


_IDENTITY = struct.Struct("<5sBHQ")
_IDENTITY_START = b"DnRn\x01"


def read_identity(disk: Disk) -> Owner | None:
    """Owner of the folder; None when it has none yet. Raises DamagedDataError, DataFolderError."""
    packed = read_small(disk, IDENTITY, _IDENTITY_START, _IDENTITY.size)
    if packed is None:
        return None
    _, _, length, node_id = _IDENTITY.unpack_from(packed)
    if len(packed) != _IDENTITY.size + length or not node_id:
        raise damaged(IDENTITY, 0, "its fields do not fit each other")
    return Owner(node_id, packed[_IDENTITY.size :].decode())


def write_identity(disk: Disk, owner: Owner) -> None:
    """Write it, durably. Raises InvalidRequestError for a cluster id that is too long, OSError."""
    cluster_id = owner.cluster_id.encode()
    if len(cluster_id) > RAFT_CLUSTER_ID_BYTES_MAX:
        raise InvalidRequestError(f"a cluster id has at most {RAFT_CLUSTER_ID_BYTES_MAX} bytes")
    disk.replace_file(
        IDENTITY, with_crc(_IDENTITY.pack(_IDENTITY_START, 0, len(cluster_id), owner.node_id) + cluster_id)
    )


_VOTE = struct.Struct("<5sBHQQQQ")
_VOTE_START = b"DnRv\x01"


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
        voted_for = (vote.voted_for or "").encode()
        if len(voted_for) > RAFT_MEMBER_ID_BYTES_MAX:
            raise InvalidRequestError(f"a member's id has at most {RAFT_MEMBER_ID_BYTES_MAX} bytes")
        fixed = _VOTE.pack(
            _VOTE_START,
            vote.voted_for is not None,
            len(voted_for),
            self._node_id,
            vote.term,
            vote.synced_index,
            vote.synced_term,
        )
        self._disk.replace_file(VOTE, with_crc(fixed + voted_for))
        self.vote = vote


def read_vote(disk: Disk) -> tuple[int, Vote] | None:
    """Node id and vote in the file; None when it is missing. Raises DamagedDataError, DataFolderError, OSError."""
    packed = read_small(disk, VOTE, _VOTE_START, _VOTE.size)
    if packed is None:
        return None
    _, is_given, length, node_id, term, synced_index, synced_term = _VOTE.unpack_from(packed)
    if len(packed) != _VOTE.size + length:
        raise damaged(VOTE, 0, "its fields do not fit each other")
    return node_id, Vote(term, packed[_VOTE.size :].decode() if is_given else None, synced_index, synced_term)


_log = logging.getLogger(__name__)

_MARK_START = b"DnRm\x01"
_MARK = struct.Struct("<5s3sQQQQ")


@dataclass(frozen=True, slots=True)
class LogMark:
    """Position up to which a log is synced at least."""

    node_id: int
    sequence: int
    file_id: int
    synced_to: int


def decode_log_mark(packed: bytes) -> LogMark | None:
    """The mark in the file `mark`, or None when that is not a valid one of this version."""
    if len(packed) != _MARK.size + CRC_BYTES or not is_intact(packed) or not packed.startswith(_MARK_START):
        return None
    return LogMark(*_MARK.unpack_from(packed)[2:])


class LogMarkFile:
    """The file `mark`, beside the log. All of it blocks."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._is_failing = False
        """True if the last mark could not be written: said once, not at every try."""

    def read(self) -> LogMark | None:
        """The mark; None for one that is missing, or damaged: the log is none the worse for it. Raises OSError."""
        return decode_log_mark(content_of(self._disk, MARK)) if self._disk.exists(MARK) else None

    def write(self, mark: LogMark) -> bool:
        """Write it, durably; answers whether that worked. After an OSError the mark before it is still true."""
        try:
            self._disk.replace_file(MARK, with_crc(_MARK.pack(_MARK_START, bytes(3), *astuple(mark))))
        except OSError as error:
            if not self._is_failing:
                _log.warning("%s could not be written, so an end that is lost may not be noticed: %s", MARK, error)
            self._is_failing = True
            return False
        self._is_failing = False
        return True
