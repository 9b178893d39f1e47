"""The one checksum of everything stored: CRC-32C, written after what it covers, little-endian. Pure."""

import struct
from collections.abc import Iterable

import google_crc32c

CRC_BYTES = 4

_CRC = struct.Struct("<I")
_RESIDUE = 0x48674BC7  # the CRC-32C of any bytes followed by their own CRC-32C: one pass, no copy


def with_crc(content: bytes) -> bytes:
    """`content` with its checksum behind it."""
    return content + _CRC.pack(google_crc32c.value(content))


def checksum(chunks: Iterable[bytes]) -> bytes:
    """The checksum of all chunks one after the other, which are not joined for it."""
    crc = 0
    for chunk in chunks:
        crc = google_crc32c.extend(crc, chunk)
    return crc.to_bytes(CRC_BYTES, "little")


def extended(crc: int, chunk: bytes) -> int:
    """The checksum so far, which begins with 0, with `chunk` behind it."""
    return int(google_crc32c.extend(crc, chunk))


def is_intact(content_and_crc: bytes) -> bool:
    """True if the last 4 bytes are the checksum of all the others."""
    return bool(google_crc32c.value(content_and_crc) == _RESIDUE)
