"""CRC-32C, the one checksum of what is stored: little-endian, behind what it covers. Records of fixed length. Pure."""

import struct
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

import google_crc32c

from danube.model.errors import NewerDataFolderError

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


def crc_of(content: bytes) -> int:
    """The checksum of these bytes, as a number."""
    return int(google_crc32c.value(content))


def extended(crc: int, chunk: bytes) -> int:
    """The checksum so far, which begins with 0, with `chunk` behind it."""
    return int(google_crc32c.extend(crc, chunk))


def is_intact(content_and_crc: bytes) -> bool:
    """True if the last 4 bytes are the checksum of all the others."""
    return bool(google_crc32c.value(content_and_crc) == _RESIDUE)


def told_version(name: str, found: int, known: int) -> str:
    """The refusal of what has another version of its format than this Danube reads, with the next step."""
    return f"{name} was written by another version (format {found}; this one reads {known}): use that version"


def other_version(name: str, found: int, known: int) -> NewerDataFolderError:
    """The error for the file `name`, which has another version of its format than this Danube reads."""
    return NewerDataFolderError(told_version(name, found, known))


def refuse_other_version(name: str, content: bytes, magic: bytes, known: int) -> None:
    """Raise NewerDataFolderError for a sound file or record of another version.

    All versions begin with the magic and one byte of version, and end with the checksum.
    """
    if content[:4] == magic and len(content) > len(magic) + CRC_BYTES and content[4] != known and is_intact(content):
        raise other_version(name, content[4], known)


T = TypeVar("T", bound=tuple[Any, ...])

_RESERVED = bytes(3)


class FixedRecord(Generic[T]):
    """Encodes and decodes one kind of record; `fields` are format characters of `struct`, little-endian."""

    def __init__(self, magic: bytes, version: int, fields: str, make: Callable[[Iterable[Any]], T]) -> None:
        self.magic = magic
        self._struct = struct.Struct(f"<4sB3s{fields}")
        self._start = (magic, version, _RESERVED)
        self._make = make
        self.length = self._struct.size + CRC_BYTES

    def encode(self, record: T) -> bytes:
        """The bytes of a record."""
        return with_crc(self._struct.pack(*self._start, *record))

    def decode(self, buffer: bytes, at: int = 0) -> T | None:
        """The record at `at`, or None when the bytes there are not a valid one."""
        encoded = buffer[at : at + self.length]
        if len(encoded) < self.length or not is_intact(encoded):
            return None
        fields = self._struct.unpack_from(encoded)
        return self._make(fields[3:]) if fields[:3] == self._start else None

    def newer_version(self, encoded: bytes) -> int | None:
        """The version of a record of a later Danube, which this one cannot read; None when it is not one."""
        magic, version, _ = self._start
        is_newer = encoded[:4] == magic and len(encoded) > len(magic) and encoded[4] > version
        return encoded[4] if is_newer else None

    def refuse_other_version(self, name: str, content: bytes) -> None:
        """As the function, for a record of this kind in the file `name`."""
        magic, version, _ = self._start
        refuse_other_version(name, content, magic, version)
