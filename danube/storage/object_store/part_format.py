"""Format of the numbered objects of a journal: a header, then bytes of one of its files. Pure.

`docs/formats/journal-objects.md` draws it.
"""

from enum import IntEnum
from typing import NamedTuple

from danube.runtime.checksum import FixedRecord, crc_of

DIGITS = 12
"""Of the number in an object's name."""


class PartKind(IntEnum):
    """Kind of a numbered object."""

    DATA = 1
    """Bytes of a journal file, from a position on; what the file had from there on counts no more."""
    CLAIM = 2
    """Taken by the owner when it opens the journal: whatever an earlier process of it still sends comes too late."""
    FENCE = 3
    """Taken by a new owner of the topics: nothing follows but other fences."""


class Part(NamedTuple):
    """Header of a numbered object."""

    kind: int
    crc: int
    """Of the payload."""
    number: int
    writer: int
    """Drawn by each process that writes, so that no two objects are the same."""
    sequence: int
    """Of the journal file; 0 of a claim or fence."""
    position: int
    length: int


_HEADER: FixedRecord[Part] = FixedRecord(b"DnOb", 1, "IIQQQQQ", Part._make)
HEADER_BYTES = _HEADER.length
"""In every version."""


def encode_part(
    kind: PartKind, number: int, writer: int, payload: bytes = b"", *, sequence: int = 0, position: int = 0
) -> bytes:
    """The object: header and payload."""
    return _HEADER.encode(Part(kind, crc_of(payload), number, writer, sequence, position, len(payload))) + payload


def decode_header(data: bytes) -> Part | None:
    """The header that an object begins with; None without a sound one."""
    return _HEADER.decode(data[:HEADER_BYTES])


def refuse_other_part(name: str, data: bytes) -> None:
    """Raise NewerDataFolderError for an object of another version."""
    _HEADER.refuse_other_version(name, data[:HEADER_BYTES])


def decode_part(data: bytes, name: str) -> tuple[Part, bytes] | None:
    """Header and payload of the object with this name; None unless they are what was written.

    Raises NewerDataFolderError.
    """
    refuse_other_part(name, data)
    number = number_of(name) or 0
    header, payload = decode_header(data), data[HEADER_BYTES:]
    if header is None or header.number != number or header.length != len(payload) or header.crc != crc_of(payload):
        return None
    return header, payload


def part_name(folder: str, number: int) -> str:
    """The name of an object of the journal in `folder`."""
    return f"{log_prefix(folder)}{number:0{DIGITS}d}"


def log_prefix(folder: str) -> str:
    """The prefix of the numbered objects of a journal."""
    return f"{folder}/log/"


def number_of(name: str) -> int | None:
    """The number in an object's name; None for a name of another form."""
    digits = name.rpartition("/")[2]
    return int(digits) if len(digits) == DIGITS and digits.isdecimal() else None
