"""Snapshot of the metadata with its place in Raft's log, in memory and as a file.

Byte by byte: `docs/formats/raft.md`. The payload is a state as `danube/metadata/replication/snapshot_format.py` has it.
"""

import contextlib
import struct
from collections.abc import Iterable, Iterator
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
from danube.runtime.checksum import CRC_BYTES, extended, is_intact, with_crc
from danube.runtime.disk import Disk

VERSION = 1

_FIXED = struct.Struct("<4sB3sQQQQIIII")
_LENGTH = struct.Struct("<H")
_MAGIC = b"DnRi"
_MEMBERS_BYTES_MAX = RAFT_VOTERS_MAX * (RAFT_MEMBER_ID_BYTES_MAX + _LENGTH.size)
_HEAD_BYTES_MAX = _FIXED.size + 2 * RAFT_ENTRY_BYTES_MAX + _MEMBERS_BYTES_MAX + CRC_BYTES


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
        size, start = file.size(), file.read(0, _FIXED.size)
    snapshot = _decode(disk, name, size)
    if snapshot is None and start[:4] == _MAGIC and start[4:5] > bytes([VERSION]):
        raise too_new(name, start[4])
    if snapshot is None:
        raise damaged(name, 0, "the snapshot is not what was written")
    return snapshot


def _decode(disk: Disk, name: str, size: int) -> HeldSnapshot | None:
    head = FileBytes(disk, name, 0, size).read(0, _HEAD_BYTES_MAX)
    if len(head) < _FIXED.size:
        return None
    magic, version, _, index, term, prev_term, payload_bytes, *lengths, payload_crc = _FIXED.unpack_from(head)
    end = _FIXED.size + sum(lengths) + CRC_BYTES
    if (magic, version) != (_MAGIC, VERSION) or len(head) < end or not is_intact(head[:end]):
        return None
    if size != end + payload_bytes or payload_bytes > RAFT_SNAPSHOT_BYTES_MAX or not index:
        return None
    payload = FileBytes(disk, name, end, payload_bytes)
    if reduce(extended, _pieces(payload), 0) != payload_crc:
        return None
    before, command, encoded_members = _cut(head[_FIXED.size : end - CRC_BYTES], lengths)
    try:
        members = tuple(_decode_members(encoded_members))
    except (struct.error, UnicodeDecodeError):
        return None
    return HeldSnapshot(
        prev=(before, index - 1, prev_term), last=(command, index, term), members=members, payload=payload
    )


def _encode_head(snapshot: HeldSnapshot) -> bytes:
    members = b"".join(_encode_member(member) for member in snapshot.members)
    before, _, prev_term = snapshot.prev
    command, index, term = snapshot.last
    lengths = len(before), len(command), len(members)
    crc = reduce(extended, _pieces(snapshot.payload), 0)
    fixed = _FIXED.pack(_MAGIC, VERSION, bytes(3), index, term, prev_term, snapshot.payload.size, *lengths, crc)
    return with_crc(fixed + before + command + members)


def _encode_member(member: str) -> bytes:
    encoded = member.encode()
    if len(encoded) > RAFT_MEMBER_ID_BYTES_MAX:
        raise InvalidRequestError(f"a member's id has at most {RAFT_MEMBER_ID_BYTES_MAX} bytes")
    return _LENGTH.pack(len(encoded)) + encoded


def _decode_members(encoded: bytes) -> Iterator[str]:
    at = 0
    while at < len(encoded):
        (length,) = _LENGTH.unpack_from(encoded, at)
        at += _LENGTH.size
        yield encoded[at : at + length].decode()
        at += length


def _cut(content: bytes, lengths: Iterable[int]) -> Iterator[bytes]:
    at = 0
    for length in lengths:
        yield content[at : at + length]
        at += length


def _pieces(payload: SnapshotBytes) -> Iterator[bytes]:
    for position in range(0, payload.size, RAFT_SNAPSHOT_READ_BYTES):
        yield payload.read(position, RAFT_SNAPSHOT_READ_BYTES)
