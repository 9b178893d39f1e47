"""Format of a file of Raft's log, version 1: header, records, checksums; and the errors about such files. Pure.

Byte by byte: `docs/formats/raft.md`. Nobody outside knows a file's id, so no command can hold bytes that pass for a
record.
"""

import hashlib
import re
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum

from danube.model.errors import DamagedDataError, DataFolderError, NewerDataFolderError
from danube.runtime.checksum import crc_of, is_intact, other_version, with_crc

Entry = tuple[bytes, int, int]
"""Command, index and term: as pysyncobj has them."""

FOLDER = "raft"
"""Folder of a member, within its data folder."""

VERSION = 1
FILE_HEADER_BYTES = 52
RECORD_HEADER_BYTES = 52
RECORD_MAGIC = b"DnRr"

_FILE = struct.Struct("<4sBB2sQQQQQ")
_RECORD = struct.Struct("<4sB3sQQQIIII")
_MAGIC = b"DnRf"
_NAME = re.compile(r"log-(\d{10})")


class RecordKind(IntEnum):
    """Kind of a record."""

    ENTRY = 1
    MARK = 2


@dataclass(frozen=True, slots=True)
class Owner:
    """Member that the files belong to."""

    node_id: int
    cluster_id: str = ""

    @property
    def cluster_mark(self) -> int:
        """Cluster id as it stands in a header."""
        if not self.cluster_id:
            return 0
        return int.from_bytes(hashlib.sha256(self.cluster_id.encode()).digest()[:8], "little")


@dataclass(frozen=True, slots=True)
class FileHeader:
    """Header of a file of the log."""

    node_id: int
    cluster_mark: int
    sequence: int
    first_index: int
    file_id: int
    voids: bool
    """True if nothing in files before this one counts any more."""


@dataclass(frozen=True, slots=True)
class RecordHeader:
    """Header of a record."""

    kind: RecordKind
    file_id: int
    index: int
    term: int
    position: int
    synced_to: int
    command_bytes: int
    command_crc: int

    @property
    def end(self) -> int:
        return self.position + RECORD_HEADER_BYTES + self.command_bytes


def log_path(sequence: int) -> str:
    """The name of a file of the log."""
    return f"{FOLDER}/log-{sequence:010d}"


def file_sequence(name: str) -> int | None:
    """The sequence of the file with this name, or None when it is none of the log."""
    match = _NAME.fullmatch(name)
    return int(match[1]) if match else None


def encode_file_header(header: FileHeader) -> bytes:
    """The first bytes of a file."""
    return with_crc(
        _FILE.pack(
            _MAGIC,
            VERSION,
            header.voids,
            bytes(2),
            header.node_id,
            header.cluster_mark,
            header.sequence,
            header.first_index,
            header.file_id,
        )
    )


def decode_file_header(content: bytes) -> FileHeader | None:
    """The header of a file that begins with `content`, or None when that is no sound one of this version."""
    packed = content[:FILE_HEADER_BYTES]
    if len(packed) < FILE_HEADER_BYTES or not is_intact(packed):
        return None
    magic, version, voids, _, node_id, cluster_mark, sequence, first_index, file_id = _FILE.unpack_from(packed)
    if (magic, version) != (_MAGIC, VERSION):
        return None
    return FileHeader(node_id, cluster_mark, sequence, first_index, file_id, bool(voids))


def newer_version(content: bytes) -> int | None:
    """The format version of a file that a later Danube wrote, or None."""
    packed = content[:FILE_HEADER_BYTES]
    if packed[:4] == _MAGIC and len(packed) == FILE_HEADER_BYTES and is_intact(packed) and packed[4] > VERSION:
        return packed[4]
    return None


def encode_records(entries: Iterable[Entry], file_id: int, position: int, synced_to: int) -> list[bytes]:
    """The records of entries, to be written at `position` of a file that is synced up to `synced_to`."""
    chunks: list[bytes] = []
    for entry in entries:
        chunks += _encode_record(RecordKind.ENTRY, entry, file_id, position, synced_to)
        position += RECORD_HEADER_BYTES + len(entry[0])
    return chunks


def encode_mark(index: int, term: int, file_id: int, position: int) -> bytes:
    """A mark, to be written at the end of a file that is synced up to there."""
    return _encode_record(RecordKind.MARK, (b"", index, term), file_id, position, position)[0]


def decode_record_header(content: bytes, at: int) -> RecordHeader | None:
    """The header of the record at a position of a file, or None when there is no sound one."""
    packed = content[at : at + RECORD_HEADER_BYTES]
    if len(packed) < RECORD_HEADER_BYTES or not is_intact(packed):
        return None
    magic, kind, _, file_id, index, term, position, synced_to, command_bytes, command_crc = _RECORD.unpack_from(packed)
    if magic != RECORD_MAGIC or kind not in (RecordKind.ENTRY, RecordKind.MARK) or position != at:
        return None
    return RecordHeader(RecordKind(kind), file_id, index, term, position, synced_to, command_bytes, command_crc)


def record_headers(content: bytes, start: int, file_id: int) -> Iterator[RecordHeader]:
    """All sound headers of records from `start` on, wherever they stand, whatever their commands became."""
    at = content.find(RECORD_MAGIC, start)
    while at >= 0:
        header = decode_record_header(content, at)
        if header is not None and header.file_id == file_id:
            yield header
        at = content.find(RECORD_MAGIC, at + 1)


def _encode_record(kind: RecordKind, entry: Entry, file_id: int, position: int, synced_to: int) -> list[bytes]:
    command, index, term = entry
    header = _RECORD.pack(
        RECORD_MAGIC, kind, bytes(3), file_id, index, term, position, synced_to, len(command), crc_of(command)
    )
    return [with_crc(header), command]


NEXT_STEP = (
    "Look into it with: danube-broker metadata inspect --data-dir ... If the other members are well, remove this one "
    "from the cluster, delete the folder raft/ in its data folder and add it again: it comes back as a new member. "
    "If there are no others, restore the data folder from a backup"
)
"""Follows the sentence that names file, byte and damage."""


def damaged(name: str, at: int, what: str) -> DamagedDataError:
    """The error for bytes that are not what was written and synced."""
    return DamagedDataError(f"{name}, byte {at}: {what}. {NEXT_STEP}")


def too_new(name: str, version: int) -> NewerDataFolderError:
    """The error for a format that this program does not know yet."""
    return other_version(name, version, VERSION)


def of_another(name: str, node_id: int, own_id: int) -> DataFolderError:
    """The error for a file that some other member wrote."""
    return DataFolderError(
        f"{name} belongs to member {node_id}, this is member {own_id}: give each broker a data folder of its own"
    )
