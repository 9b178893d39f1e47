"""What stands in a segment file around its blocks, version 1. Pure. The rest: `docs/formats/segment.md`.

    segment = file header, block, block, ..., index, footer

Little-endian, no padding. A file begins with 36 bytes:

    at  bytes  field
    0   4      magic "DnSg"
    4   1      version, 1
    5   3      reserved, 0
    8   8      topic id
    16  8      base offset: of the first record
    24  8      generation of the manifest that listed it first
    32  4      CRC-32C of the 32 bytes before it

Then come the blocks (`block.py`), each right after the one before it. The index has 52 bytes for each of them:

    at  bytes  field
    0   8      base offset
    8   8      end offset: after the last record
    16  8      append time of the first batch, ms since 1970
    24  8      append time of the last batch
    32  8      position: byte of the file at which the block begins
    40  4      length of the whole block in the file
    44  4      plain length: of its batches before compression, envelopes included
    48  4      how many batches

The last 88 bytes are the footer:

    at  bytes  field
    0   4      magic "DnSf"
    4   1      version, 1
    5   3      reserved, 0
    8   8      topic id
    16  8      base offset
    24  8      end offset
    32  8      generation
    40  8      append time of the first batch
    48  8      append time of the last batch
    56  8      length of all bodies together, before compression
    64  8      position of the index
    72  4      how many batches
    76  4      how many blocks
    80  4      CRC-32C of the index
    84  4      CRC-32C of the 84 bytes before it

A later version keeps the footer's length, its first 5 bytes and its own checksum where they are.
"""

import struct
from dataclasses import dataclass
from typing import NamedTuple

from danube.model.errors import DamagedDataError, DataFolderError
from danube.storage.checksum import CRC_BYTES, checksum, is_intact, with_crc
from danube.storage.damage import next_step
from danube.storage.segment.manifest import Segment

VERSION = 1
FILE_MAGIC = b"DnSg"
FOOTER_MAGIC = b"DnSf"
FILE_HEADER_BYTES = 36
FOOTER_BYTES = 88

_FILE = struct.Struct("<4sB3sQQQ")
_FOOTER = struct.Struct("<4sB3sQQQQQQQQIII")
_RESERVED = bytes(3)


class EncodedBatch(NamedTuple):
    """One record batch with its envelope, byte for byte as they stand in the journal and in a segment."""

    base_offset: int
    end_offset: int
    """The offset after the last record."""
    append_time_ms: int
    body_bytes: int
    encoded: bytes
    """Envelope and body."""


@dataclass(frozen=True, slots=True)
class Footer:
    """How a segment file ends."""

    topic_id: int
    segment: Segment
    index_position: int
    blocks: int
    index_crc: bytes


def encode_file_header(topic_id: int, base_offset: int, generation: int) -> bytes:
    """The first bytes of a segment."""
    return with_crc(_FILE.pack(FILE_MAGIC, VERSION, _RESERVED, topic_id, base_offset, generation))


def encode_footer(topic_id: int, segment: Segment, index_position: int, index: bytes, blocks: int) -> bytes:
    """The last bytes of a segment whose index begins at `index_position`."""
    crc = int.from_bytes(checksum([index]), "little")
    numbers = (
        topic_id,
        segment.base_offset,
        segment.end_offset,
        segment.generation,
        segment.first_append_time_ms,
        segment.last_append_time_ms,
        segment.body_bytes,
        index_position,
        segment.batches,
        blocks,
        crc,
    )
    return with_crc(_FOOTER.pack(FOOTER_MAGIC, VERSION, _RESERVED, *numbers))


def decode_footer(encoded: bytes, name: str, file_bytes: int) -> Footer:
    """The footer of the file `name` of this length, of which `encoded` are the last bytes.

    Raises DamagedDataError, and DataFolderError when a later version wrote the file.
    """
    at = file_bytes - FOOTER_BYTES
    if at < FILE_HEADER_BYTES or len(encoded) != FOOTER_BYTES or not is_intact(encoded):
        raise damaged(name, max(at, 0), "there should be a footer")
    magic, version, reserved, topic_id, base, end, generation, first_ms, last_ms, body_bytes, *rest = (
        _FOOTER.unpack_from(encoded)
    )
    if magic == FOOTER_MAGIC and version > VERSION:
        raise DataFolderError(
            f"{name} has format version {version}, this Danube reads up to {VERSION}: use a newer one"
        )
    if (magic, version, reserved) != (FOOTER_MAGIC, VERSION, _RESERVED):
        raise damaged(name, at, "there should be a footer")
    index_position, batches, blocks, _ = rest
    segment = Segment(base, end, generation, first_ms, last_ms, batches, body_bytes, file_bytes)
    index_crc = encoded[-2 * CRC_BYTES : -CRC_BYTES]
    return Footer(topic_id, segment, index_position, blocks, index_crc)


def damaged(name: str, at: int, what: str) -> DamagedDataError:
    """The error for bytes of a segment that cannot be what was written."""
    return DamagedDataError(
        f"{name} is damaged at byte {at}: {what}. Its topic cannot be read there, all others can. {next_step(name)}"
    )
