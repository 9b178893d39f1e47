"""The file `mark` of a journal, version 1: how far the journal is synced at least. Pure. See `docs/formats/journal.md`.

What headers say of syncs goes with the bytes that they stand in. This stands beside them, so an end that is missing is
noticed. Positions only grow: an old mark says less, and never anything wrong.

Little-endian, no padding, 36 bytes:

    at  bytes  field
    0   4      magic "DnJm"
    4   1      version, 1
    5   3      reserved, 0
    8   8      journal id
    16  8      file sequence: the file that holds the position's last byte, which is there with its header
    24  8      synced to: the position up to which everything is synced
    32  4      CRC-32C of the 32 bytes before it
"""

import struct
from dataclasses import dataclass

from danube.storage.checksum import is_intact, with_crc

MARK_NAME = "mark"
MARK_BYTES = 36

_MAGIC = b"DnJm"
_VERSION = 1
_MARK = struct.Struct("<4sB3sQQQ")
_RESERVED = bytes(3)


@dataclass(frozen=True, slots=True)
class Mark:
    """How far a journal is synced at least."""

    journal_id: int
    sequence: int
    synced_to: int


def encode_mark(mark: Mark) -> bytes:
    """The bytes of the file `mark`."""
    return with_crc(_MARK.pack(_MAGIC, _VERSION, _RESERVED, mark.journal_id, mark.sequence, mark.synced_to))


def decode_mark(encoded: bytes) -> Mark | None:
    """What the file `mark` says, or None when it is not a valid one."""
    if len(encoded) != MARK_BYTES or not is_intact(encoded):
        return None
    magic, version, reserved, *fields = _MARK.unpack_from(encoded)
    if magic != _MAGIC or version != _VERSION or reserved != _RESERVED:
        return None
    return Mark(*fields)
