"""Records of fixed length: magic, version, 3 reserved bytes, fields, and the CRC-32C of all before it. Pure."""

import struct
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

from danube.storage.checksum import CRC_BYTES, is_intact, with_crc

T = TypeVar("T", bound=tuple[Any, ...])

_RESERVED = bytes(3)


class FixedRecord(Generic[T]):
    """Encodes and decodes one kind of record; `fields` are format characters of `struct`, little-endian."""

    def __init__(self, magic: bytes, version: int, fields: str, make: Callable[[Iterable[Any]], T]) -> None:
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
