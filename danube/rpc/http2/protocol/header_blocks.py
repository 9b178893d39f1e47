"""Header blocks: decoding with a cache, and encoding without a state.

A peer that repeats its calls repeats the bytes of their headers. A block means the same as long as the dynamic table
stays as it is, so decoded blocks are kept, by their bytes, until the table changes: the table counts insertions. (To
compare its length and newest entry is not enough: an entry that is inserted twice shifts the others unseen.)
"""

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

import hpack
from hpack.table import HeaderTable

from danube.model.limits import http2 as limits
from danube.rpc.http2.protocol.frames import ErrorCode, ProtocolError

H = TypeVar("H")
Field = tuple[bytes, bytes]


class CountedTable(HeaderTable):
    """A dynamic table that counts what is inserted."""

    def __init__(self) -> None:
        self.insertions = 0
        super().__init__()

    @property
    def state(self) -> tuple[int, int, int]:
        """Differs from any earlier one once the table, or its bound, has changed."""
        return self.insertions, len(self.dynamic_entries), self.maxsize

    def add(self, name: bytes, value: bytes) -> None:
        self.insertions += 1
        super().add(name, value)


class HeaderDecoder(Generic[H]):
    """Blocks of one connection to heads, by a function of the fields."""

    def __init__(self, parse: Callable[[list[Field]], H], list_bytes_max: int) -> None:
        self._parse = parse
        self._table = CountedTable()
        self._decoder = hpack.Decoder(max_header_list_size=list_bytes_max)
        self._decoder.header_table = self._table
        self._cache: dict[bytes, H] = {}

    @property
    def cached(self) -> int:
        """Blocks in the cache."""
        return len(self._cache)

    def decode(self, block: bytes) -> H:
        """The head of a block. Raises ProtocolError."""
        head = self._cache.get(block)
        if head is not None:
            return head
        state = self._table.state
        try:
            fields = self._decoder.decode(block, raw=True)
        except hpack.OversizedHeaderListError as error:
            raise ProtocolError(
                ErrorCode.ENHANCE_YOUR_CALM, "the headers are far larger than this end takes"
            ) from error
        except (hpack.HPACKError, IndexError, ValueError) as error:
            raise ProtocolError(ErrorCode.COMPRESSION_ERROR, "a header block cannot be decoded") from error
        head = self._parse([(bytes(name), bytes(value)) for name, value in fields])
        if self._table.state != state:
            self._cache.clear()
        elif len(block) <= limits.HTTP2_HEADER_CACHE_BLOCK_BYTES:
            if len(self._cache) >= limits.HTTP2_HEADER_CACHE_BLOCKS:
                self._cache.clear()
            self._cache[block] = head
        return head


def encode(fields: Iterable[Field]) -> bytes:
    """A block that changes no table and needs none: literals that are not indexed."""
    return b"".join(b"\0" + _string(name) + _string(value) for name, value in fields)


def encode_secret(name: bytes, value: bytes) -> bytes:
    """A field that no one on the way may index."""
    return b"\x10" + _string(name) + _string(value)


def _string(text: bytes) -> bytes:
    size = len(text)
    if size < 127:
        return bytes((size,)) + text
    left = size - 127
    prefix = bytearray(b"\x7f")
    while left >= 128:
        prefix.append(left & 127 | 128)
        left >>= 7
    prefix.append(left)
    return bytes(prefix) + text
