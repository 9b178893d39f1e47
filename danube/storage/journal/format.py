"""What stands in a journal file besides envelopes and bodies, version 1. Pure. The rest: `docs/formats/journal.md`.

Little-endian, no padding. A position counts bytes from the journal's first file on, headers included: a file's byte `b`
has position `base position + b`.

A file begins with 52 bytes:

    at  bytes  field
    0   4      magic "DnJf"
    4   1      version, 1
    5   3      reserved, 0
    8   8      journal id, chosen at random when the journal began
    16  8      broker id
    24  8      file sequence, 1 for the first; also the file's name
    32  8      base position: of the file's first byte
    40  8      synced to: the position up to which the journal was known to be synced when this was written
    48  4      CRC-32C of the 48 bytes before it

Then come rounds, each of 52 bytes and its envelopes with their bodies:

    at  bytes  field
    0   4      magic "DnRd"
    4   1      version, 1
    5   3      reserved, 0
    8   8      round number, 1 for the journal's first, then one more each
    16  8      position of the round's own first byte
    24  8      synced to, as above
    32  8      journal id
    40  4      length of the envelopes and bodies that follow
    44  4      how many envelopes
    48  4      CRC-32C of the 48 bytes before it

The file `first` is there once files were removed from the front; it has 44 bytes:

    at  bytes  field
    0   4      magic "DnJ1"
    4   1      version, 1
    5   3      reserved, 0
    8   8      journal id
    16  8      sequence of the first file
    24  8      base position of that file
    32  8      number of the last round before that file
    40  4      CRC-32C of the 40 bytes before it
"""

import re
import struct
from dataclasses import dataclass

from danube.storage.checksum import is_intact, with_crc

VERSION = 1
FILE_MAGIC = b"DnJf"
ROUND_MAGIC = b"DnRd"
FIRST_MAGIC = b"DnJ1"
HEADER_BYTES = 52
"""Of a file's header, and of a round's."""
FIRST_SEQUENCE = 1
FIRST_NAME = "first"
FIRST_BYTES = 44

_FILE = struct.Struct("<4sB3sQQQQQ")
_ROUND = struct.Struct("<4sB3sQQQQII")
_FIRST = struct.Struct("<4sB3sQQQQ")
_RESERVED = bytes(3)
_NAME = re.compile(r"(\d{10})\.journal")
_INDEX_NAME = re.compile(r"(\d{10})\.index")


@dataclass(frozen=True, slots=True)
class FileHeader:
    """How a journal file begins."""

    journal_id: int
    broker_id: int
    sequence: int
    base_position: int
    synced_to: int


@dataclass(frozen=True, slots=True)
class RoundHeader:
    """How a round begins."""

    number: int
    position: int
    synced_to: int
    journal_id: int
    content_bytes: int
    envelopes: int

    @property
    def end_position(self) -> int:
        """The position after the round."""
        return self.position + HEADER_BYTES + self.content_bytes


@dataclass(frozen=True, slots=True)
class FirstFile:
    """Where a journal begins whose first files were removed."""

    journal_id: int
    sequence: int
    base_position: int
    rounds_before: int


def file_name(sequence: int) -> str:
    """The name of a journal file within the journal's folder."""
    return f"{sequence:010d}.journal"


def file_sequence(name: str) -> int | None:
    """The sequence of the journal file with this name, or None when it is none."""
    match = _NAME.fullmatch(name)
    return int(match[1]) if match else None


def index_name(sequence: int) -> str:
    """The name of the index of a journal file."""
    return f"{sequence:010d}.index"


def index_sequence(name: str) -> int | None:
    """The sequence of the file that the index with this name is of, or None when it is none."""
    match = _INDEX_NAME.fullmatch(name)
    return int(match[1]) if match else None


def encode_file_header(header: FileHeader) -> bytes:
    """The first bytes of a file."""
    return with_crc(
        _FILE.pack(
            FILE_MAGIC,
            VERSION,
            _RESERVED,
            header.journal_id,
            header.broker_id,
            header.sequence,
            header.base_position,
            header.synced_to,
        )
    )


def decode_file_header(encoded: bytes) -> FileHeader | None:
    """The header of a file that begins with `encoded`, or None when that is not a valid one."""
    encoded = encoded[:HEADER_BYTES]
    if len(encoded) < HEADER_BYTES or not is_intact(encoded):
        return None
    magic, version, reserved, *fields = _FILE.unpack_from(encoded)
    if magic != FILE_MAGIC or version != VERSION or reserved != _RESERVED:
        return None
    return FileHeader(*fields)


def newer_version(encoded: bytes) -> int | None:
    """The version of a file written by a later Danube, which this one cannot read; None when it is not one."""
    if encoded[:4] == FILE_MAGIC and len(encoded) > len(FILE_MAGIC) and encoded[4] > VERSION:
        return encoded[4]
    return None


def encode_round_header(header: RoundHeader) -> bytes:
    """The first bytes of a round."""
    return with_crc(
        _ROUND.pack(
            ROUND_MAGIC,
            VERSION,
            _RESERVED,
            header.number,
            header.position,
            header.synced_to,
            header.journal_id,
            header.content_bytes,
            header.envelopes,
        )
    )


def decode_round_header(buffer: bytes, at: int = 0) -> RoundHeader | None:
    """The round header at `at`, or None when the bytes there are not a valid one."""
    encoded = buffer[at : at + HEADER_BYTES]
    if len(encoded) < HEADER_BYTES or not is_intact(encoded):
        return None
    magic, version, reserved, *fields = _ROUND.unpack_from(encoded)
    if magic != ROUND_MAGIC or version != VERSION or reserved != _RESERVED:
        return None
    return RoundHeader(*fields)


def encode_first(first: FirstFile) -> bytes:
    """The bytes of the file `first`."""
    return with_crc(
        _FIRST.pack(
            FIRST_MAGIC,
            VERSION,
            _RESERVED,
            first.journal_id,
            first.sequence,
            first.base_position,
            first.rounds_before,
        )
    )


def decode_first(encoded: bytes) -> FirstFile | None:
    """What the file `first` says, or None when it is not a valid one."""
    if len(encoded) != FIRST_BYTES or not is_intact(encoded):
        return None
    magic, version, reserved, *fields = _FIRST.unpack_from(encoded)
    if magic != FIRST_MAGIC or version != VERSION or reserved != _RESERVED:
        return None
    return FirstFile(*fields)
