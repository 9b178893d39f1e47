"""The checksum of what Raft keeps: CRC-32C, little-endian, written after the bytes that it covers. Pure."""

import struct

import google_crc32c

CRC_BYTES = 4

_CRC = struct.Struct("<I")


def crc_of(content: bytes) -> int:
    """The CRC-32C (Castagnoli) of these bytes."""
    return int(google_crc32c.value(content))


def sealed(content: bytes) -> bytes:
    """`content` with its checksum behind it."""
    return content + _CRC.pack(google_crc32c.value(content))


def is_sealed(packed: bytes) -> bool:
    """Whether the last 4 bytes are the checksum of all the others."""
    if len(packed) < CRC_BYTES:
        return False
    return bool(_CRC.unpack(packed[-CRC_BYTES:])[0] == google_crc32c.value(packed[:-CRC_BYTES]))
