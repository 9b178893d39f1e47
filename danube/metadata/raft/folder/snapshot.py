"""Snapshot of the metadata with its place in Raft's log, in memory and as a file.

Byte by byte: `docs/formats/raft.md`. The payload is a state as `danube/metadata/replication/snapshot_format.py` has it.
"""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from typing import Protocol

from danube.metadata.raft.folder.format import Entry, damaged, too_new
from danube.model.errors import InvalidRequestError
from danube.model.limits.metadata import (
    RAFT_ENTRY_BYTES_MAX,
    RAFT_MEMBER_ID_BYTES_MAX,
    RAFT_SNAPSHOT_BYTES_MAX,
    RAFT_SNAPSHOT_READ_BYTES,
    RAFT_VOTERS_MAX,
)
from danube.runtime.checksum import extended
from danube.runtime.disk import Disk
from danube.runtime.sealed import OtherVersionError, Sealed, UnsealError, framed, unframed

_HEAD_BYTES_MAX = 2 * RAFT_ENTRY_BYTES_MAX + RAFT_VOTERS_MAX * (RAFT_MEMBER_ID_BYTES_MAX + 5) + 1_024


@dataclass(frozen=True, slots=True)
class _Head:
    prev: Entry
    last: Entry
    members: tuple[str, ...]
    payload_bytes: int
    payload_crc: int


_HEAD = Sealed(b"DnRi", _Head)


class SnapshotBytes(Protocol):
    """Bytes that can be read in pieces, from any thread."""

    @property
    def size(self) -> int: ...

    def read(self, position: int, length: int) -> bytes:
        """Some of them, fewer at the end. Raises OSError: FileNotFoundError when a newer snapshot took its place."""


class MemoryBytes:
    """Bytes in memory."""

    def __init__(self, *chunks: bytes) -> None:
        self._content = b"".join(chunks)
        self.size = len(self._content)

    def read(self, position: int, length: int) -> bytes:
        return self._content[position : position + length]


class FileBytes:
    """The bytes of a file from a position on. The file is opened for each read, so nobody has to close it."""

    def __init__(self, disk: Disk, name: str, start: int, size: int) -> None:
        self._disk = disk
        self._name = name
        self._start = start
        self.size = size

    def read(self, position: int, length: int) -> bytes:
        wanted = max(0, min(length, self.size - position))
        with contextlib.closing(self._disk.open_read(self._name)) as file:
            return file.read(self._start + position, wanted)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldSnapshot:
    """The state after one entry of the log, encoded, with what Raft needs to go on from there."""

    prev: Entry
    """The entry before the last one that the snapshot covers."""
    last: Entry
    members: tuple[str, ...]
    """Ids of the members with a vote, as of the last entry."""
    payload: SnapshotBytes

    @property
    def index(self) -> int:
        """Index of the last entry that the snapshot covers."""
        return self.last[1]

    @property
    def term(self) -> int:
        return self.last[2]

    def pieces(self) -> Iterator[bytes]:
        """The whole snapshot as the bytes of its file.

        Raises OSError, InvalidRequestError when it has no place in a log or is larger than any snapshot.
        """
        self._check()
        yield _encode_head(self)
        yield from _pieces(self.payload)

    def _check(self) -> None:
        (before, prev_index, prev_term), (command, index, term) = self.prev, self.last
        if prev_index + 1 != index or not 0 <= prev_term <= term:
            raise InvalidRequestError(
                f"a snapshot at entry {index} of term {term} goes on from {prev_index}/{prev_term}"
            )
        if max(len(before), len(command)) > RAFT_ENTRY_BYTES_MAX or self.payload.size > RAFT_SNAPSHOT_BYTES_MAX:
            raise InvalidRequestError(
                f"a snapshot of {self.payload.size} bytes is too large: {RAFT_SNAPSHOT_BYTES_MAX}"
            )
        if len(self.members) > RAFT_VOTERS_MAX:
            raise InvalidRequestError(f"{len(self.members)} members with a vote are too many: {RAFT_VOTERS_MAX}")


def load_snapshot(disk: Disk, name: str) -> HeldSnapshot:
    """The snapshot in a file, all of it checked. Raises DamagedDataError, DataFolderError, OSError."""
    with contextlib.closing(disk.open_read(name)) as file:
        size = file.size()
    try:
        return _decode(disk, name, size)
    except OtherVersionError as error:
        raise too_new(name, error.found) from error
    except UnsealError as error:
        raise damaged(name, 0, f"the snapshot is not what was written ({error})") from error


def _decode(disk: Disk, name: str, size: int) -> HeldSnapshot:
    packed, end = unframed(FileBytes(disk, name, 0, size).read(0, _HEAD_BYTES_MAX))
    head = _HEAD.unseal(packed)
    if (
        size != end + head.payload_bytes
        or head.payload_bytes > RAFT_SNAPSHOT_BYTES_MAX
        or not 0 < head.last[1] == head.prev[1] + 1
    ):
        raise UnsealError("it has another size than it says")
    payload = FileBytes(disk, name, end, head.payload_bytes)
    if reduce(extended, _pieces(payload), 0) != head.payload_crc:
        raise UnsealError("its payload is damaged")
    return HeldSnapshot(prev=head.prev, last=head.last, members=head.members, payload=payload)


def _encode_head(snapshot: HeldSnapshot) -> bytes:
    if any(len(member.encode()) > RAFT_MEMBER_ID_BYTES_MAX for member in snapshot.members):
        raise InvalidRequestError(f"a member's id has at most {RAFT_MEMBER_ID_BYTES_MAX} bytes")
    crc = reduce(extended, _pieces(snapshot.payload), 0)
    head = _Head(snapshot.prev, snapshot.last, snapshot.members, snapshot.payload.size, crc)
    return framed(_HEAD.seal(head))


def _pieces(payload: SnapshotBytes) -> Iterator[bytes]:
    for position in range(0, payload.size, RAFT_SNAPSHOT_READ_BYTES):
        yield payload.read(position, RAFT_SNAPSHOT_READ_BYTES)
