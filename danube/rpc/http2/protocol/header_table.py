"""Tables of header compression, and what a block is made of: indices, integers and strings (RFC 7541, 2.3, 5 and 6).

Decoded field by field on the table as it is: clients that send a deadline put another `grpc-timeout` into the table
with each call, which shifts every other entry, so that no two of their blocks are alike. The property test holds this
against the `hpack` package, whose static table and Huffman code it uses.
"""

from collections import deque
from collections.abc import Iterable
from typing import Final, TypeAlias

from hpack.exceptions import HPACKDecodingError, InvalidTableIndexError, InvalidTableSizeError
from hpack.huffman_table import decode_huffman
from hpack.table import HeaderTable

from danube.model.limits import http2 as limits

Field: TypeAlias = tuple[bytes, bytes]

TIMEOUT: Final = b"grpc-timeout"
ENTRY_BYTES: Final = 32
"""Counted for each field beside its text."""

_STATIC: Final[tuple[Field, ...]] = tuple(HeaderTable.STATIC_TABLE)
_FIRST_DYNAMIC: Final = len(_STATIC) + 1
_INTEGER_BYTES_MAX: Final = 5
"""Bytes of an integer behind its prefix: enough for any length that a block has room for."""


class FieldReader:
    """The dynamic table of one peer, and the fields of its blocks. After an error nothing more can be read."""

    __slots__ = ("_bytes_max", "_entries", "_size_bytes", "changes")

    def __init__(self) -> None:
        self.changes = 0
        """Insertions, and changes of the bound, so far: while it stays, equal blocks mean equal fields."""
        self._entries: deque[Field] = deque()
        """Newest first."""
        self._size_bytes = 0
        self._bytes_max = limits.HTTP2_HEADER_TABLE_BYTES

    def read(self, block: bytes) -> list[Field]:
        """The fields of a block; a name `grpc-timeout` is the object TIMEOUT. Raises HPACKError and IndexError."""
        fields: list[Field] = []
        entries = self._entries
        position, size = 0, len(block)
        while position < size:
            first = block[position]
            position += 1
            if first >= 0x80:
                index = first & 0x7F
                if index == 0x7F:
                    index, position = _integer(block, position, index)
                if index >= _FIRST_DYNAMIC:
                    fields.append(entries[index - _FIRST_DYNAMIC])
                else:
                    fields.append(_static(index))
            elif first >= 0x40:
                field, position = self._literal(block, position, first & 0x3F, 0x3F)
                self._insert(field)
                fields.append(field)
            elif first >= 0x20:
                if fields:
                    raise HPACKDecodingError("a change of the table's size follows a field")
                position = self._resize(block, position, first & 0x1F)
            else:
                field, position = self._literal(block, position, first & 0x0F, 0x0F)
                fields.append(field)
        return fields

    def _literal(self, block: bytes, position: int, index: int, prefix: int) -> tuple[Field, int]:
        if index == 0:
            name, position = _string(block, position)
            if name == TIMEOUT:
                name = TIMEOUT
        else:
            if index == prefix:
                index, position = _integer(block, position, index)
            name = (_static(index) if index < _FIRST_DYNAMIC else self._entries[index - _FIRST_DYNAMIC])[0]
        value, position = _string(block, position)
        return (name, value), position

    def _insert(self, field: Field) -> None:
        self.changes += 1
        size_bytes = len(field[0]) + len(field[1]) + ENTRY_BYTES
        if size_bytes > self._bytes_max:
            self._entries.clear()
            self._size_bytes = 0
            return
        self._entries.appendleft(field)
        self._size_bytes += size_bytes
        if self._size_bytes > self._bytes_max:
            self._evict()

    def _resize(self, block: bytes, position: int, bytes_max: int) -> int:
        if bytes_max == 0x1F:
            bytes_max, position = _integer(block, position, bytes_max)
        if bytes_max > limits.HTTP2_HEADER_TABLE_BYTES:
            raise InvalidTableSizeError("the table would be larger than this end keeps")
        self.changes += 1
        self._bytes_max = bytes_max
        self._evict()
        return position

    def _evict(self) -> None:
        while self._size_bytes > self._bytes_max:
            name, value = self._entries.pop()
            self._size_bytes -= len(name) + len(value) + ENTRY_BYTES


def list_bytes(fields: Iterable[Field]) -> int:
    """Bytes of a list of fields as HTTP/2 counts them."""
    return sum(len(name) + len(value) + ENTRY_BYTES for name, value in fields)


def _static(index: int) -> Field:
    if index == 0:
        raise InvalidTableIndexError("the tables begin at 1")
    return _STATIC[index - 1]


def _string(block: bytes, position: int) -> tuple[bytes, int]:
    first = block[position]
    position += 1
    length = first & 0x7F
    if length == 0x7F:
        length, position = _integer(block, position, length)
    end = position + length
    if end > len(block):
        raise HPACKDecodingError("a string ends behind its block")
    text = block[position:end]
    return (decode_huffman(text) if first >= 0x80 else text), end


def _integer(block: bytes, position: int, prefix: int) -> tuple[int, int]:
    """An integer whose prefix is full, and the position behind it."""
    number = prefix
    for count in range(_INTEGER_BYTES_MAX):
        byte = block[position + count]
        number += (byte & 0x7F) << 7 * count
        if byte < 0x80:
            return number, position + count + 1
    raise HPACKDecodingError("an integer has too many bytes")
