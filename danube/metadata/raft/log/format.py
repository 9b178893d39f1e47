"""What stands in a file of Raft's log, version 1. Pure. How files make a log: `docs/formats/raft.md`.

Little-endian, no padding. A file begins with 52 bytes:

    at  bytes  field
    0   4      magic "DnRf"
    4   1      version, 1
    5   1      1 when nothing in files before this one counts: the log begins anew with an image; else 0
    6   2      reserved, 0
    8   8      node id of the member that wrote it
    16  8      cluster mark: the first 8 bytes of the SHA-256 of the cluster id in UTF-8; 0 while that is unknown
    24  8      sequence, 1 for the first; also the file's name
    32  8      first index: files before this one count up to the entry before it
    40  8      file id, chosen at random when the file began
    48  4      CRC-32C of the 48 bytes before it

Then come records, each of 52 bytes and a command:

    at  bytes  field
    0   4      magic "DnRr"
    4   1      kind: 1 entry, 2 mark (no command; index and term of the entry before it)
    5   3      reserved, 0
    8   8      file id
    16  8      index
    24  8      term
    32  4      position of the record's own first byte in the file
    36  4      synced to: the position up to which the file was known to be synced when this was written
    40  4      length of the command
    44  4      CRC-32C of the command
    48  4      CRC-32C of the 48 bytes before it

Nobody outside knows a file's id, so no command can hold bytes that pass for a record.
"""

import hashlib
import re
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum

from danube.metadata.raft.log.checksum import crc_of, is_sealed, sealed

Entry = tuple[bytes, int, int]
"""Command, index and term: as pysyncobj has them."""

VERSION = 1
FILE_HEADER_BYTES = 52
RECORD_HEADER_BYTES = 52
RECORD_MAGIC = b"DnRr"

_FILE = struct.Struct("<4sBB2sQQQQQ")
_RECORD = struct.Struct("<4sB3sQQQIIII")
_MAGIC = b"DnRf"
_NAME = re.compile(r"log-(\d{10})")


class RecordKind(IntEnum):
    """What a record is."""

    ENTRY = 1
    MARK = 2


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose files these are."""

    node_id: int
    cluster_id: str = ""

    @property
    def cluster_mark(self) -> int:
        """What stands in a header for the cluster's id."""
        if not self.cluster_id:
            return 0
        return int.from_bytes(hashlib.sha256(self.cluster_id.encode()).digest()[:8], "little")


@dataclass(frozen=True, slots=True)
class FileHeader:
    """How a file of the log begins."""

    node_id: int
    cluster_mark: int
    sequence: int
    first_index: int
    file_id: int
    voids: bool
    """Whether nothing in files before this one counts any more."""


@dataclass(frozen=True, slots=True)
class RecordHeader:
    """How a record begins."""

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
        """The position after the record."""
        return self.position + RECORD_HEADER_BYTES + self.command_bytes


def file_name(sequence: int) -> str:
    """The name of a file of the log within its folder."""
    return f"log-{sequence:010d}"


def file_sequence(name: str) -> int | None:
    """The sequence of the file with this name, or None when it is none of the log."""
    match = _NAME.fullmatch(name)
    return int(match[1]) if match else None


def encode_file_header(header: FileHeader) -> bytes:
    """The first bytes of a file."""
    return sealed(
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
    if len(packed) < FILE_HEADER_BYTES or not is_sealed(packed):
        return None
    magic, version, voids, _, node_id, cluster_mark, sequence, first_index, file_id = _FILE.unpack_from(packed)
    if (magic, version) != (_MAGIC, VERSION):
        return None
    return FileHeader(node_id, cluster_mark, sequence, first_index, file_id, bool(voids))


def newer_version(content: bytes) -> int | None:
    """The format version of a file that a later Danube wrote, or None."""
    packed = content[:FILE_HEADER_BYTES]
    if packed[:4] == _MAGIC and len(packed) == FILE_HEADER_BYTES and is_sealed(packed) and packed[4] > VERSION:
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
    if len(packed) < RECORD_HEADER_BYTES or not is_sealed(packed):
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
    return [sealed(header), command]
