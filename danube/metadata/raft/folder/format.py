"""Format of a file of Raft's log, version 1: header, records, checksums; and the errors about such files. Pure.

Byte by byte: `docs/formats/raft.md`. Nobody outside knows a file's id, so no command can hold bytes that pass for a
record.
"""

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from danube.model.errors import DamagedDataError, DataFolderError, NewerDataFolderError
from danube.runtime.checksum import FixedRecord, crc_of, other_version

Entry = tuple[bytes, int, int]
"""Command, index and term: as pysyncobj has them."""

FOLDER = "raft"
"""Folder of a member, within its data folder."""

VERSION = 1
FILE_HEADER_BYTES = 56
RECORD_HEADER_BYTES = 52

_NAME = re.compile(r"log-(\d{10})")


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


class FileHeader(NamedTuple):
    """Header of a file of the log."""

    node_id: int
    cluster_mark: int
    sequence: int
    first_index: int
    file_id: int
    voids: int
    """1 if nothing in files before this one counts any more, else 0."""


class RecordHeader(NamedTuple):
    """Header of a record."""

    file_id: int
    entry_index: int
    term: int
    position: int
    synced_to: int
    content_bytes: int
    """Of the command."""
    command_crc: int

    @property
    def end(self) -> int:
        return self.position + RECORD_HEADER_BYTES + self.content_bytes


_FILE = FixedRecord(b"DnRf", VERSION, "QQQQQI", FileHeader._make)
RECORD = FixedRecord(b"DnRr", VERSION, "QQQIIII", RecordHeader._make)
encode_file_header, decode_file_header, newer_version = _FILE.encode, _FILE.decode, _FILE.newer_version


def log_path(sequence: int) -> str:
    """The name of a file of the log."""
    return f"{FOLDER}/log-{sequence:010d}"


def file_sequence(name: str) -> int | None:
    """The sequence of the file with this name, or None when it is none of the log."""
    match = _NAME.fullmatch(name)
    return int(match[1]) if match else None


def encode_records(entries: Iterable[Entry], file_id: int, position: int, synced_to: int) -> list[bytes]:
    """The records of entries, to be written at `position` of a file that is synced up to `synced_to`."""
    chunks: list[bytes] = []
    for entry in entries:
        command, index, term = entry
        header = RecordHeader(file_id, index, term, position, synced_to, len(command), crc_of(command))
        chunks += (RECORD.encode(header), command)
        position = header.end
    return chunks


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
