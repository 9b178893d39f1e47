"""Header blocks: decoding with two caches, and encoding without a state.

1. A block means the same as long as the dynamic table stays as it is, so heads are kept by the bytes of their blocks
   until the table changes.
2. Equal fields mean equal heads, whatever the table. A deadline differs from call to call: `grpc-timeout` is taken out
   of the fields, and given beside the head.
"""

from collections.abc import Callable, Iterable
from typing import Final, Generic, TypeVar

from hpack.exceptions import HPACKError

from danube.model.limits import http2 as limits
from danube.rpc.http2.protocol.frames import ErrorCode, ProtocolError
from danube.rpc.http2.protocol.header_table import TIMEOUT, Field, FieldReader, list_bytes

H = TypeVar("H")
K = TypeVar("K")
V = TypeVar("V")

_TIMEOUT_BYTES_MAX: Final = 9
_ANY_TIMEOUT: Final[Field] = (TIMEOUT, b"99999999n")
"""Stands for every timeout that is written as gRPC has it, and is as long as the longest."""


class HeaderDecoder(Generic[H]):
    """Blocks of one connection to heads, by a function of the fields."""

    def __init__(self, parse: Callable[[list[Field]], H], list_bytes_max: int) -> None:
        self._parse = parse
        self._list_bytes_max = list_bytes_max
        self._reader = FieldReader()
        self._changes = 0
        self._by_block: dict[bytes, tuple[H, bytes | None]] = {}
        self._by_fields: dict[tuple[Field, ...], H] = {}

    @property
    def cached(self) -> int:
        """Heads in the caches."""
        return len(self._by_block) + len(self._by_fields)

    def decode(self, block: bytes) -> tuple[H, bytes | None]:
        """The head of a block, and its `grpc-timeout` where that is digits and a unit. Raises ProtocolError."""
        found = self._by_block.get(block)
        if found is not None:
            return found
        try:
            fields = self._reader.read(block)
        except (HPACKError, IndexError) as error:
            raise ProtocolError(ErrorCode.COMPRESSION_ERROR, "a header block cannot be decoded") from error
        timeout = _take_timeout(fields)
        key = tuple(fields)
        head = self._by_fields.get(key)
        is_small = head is not None
        if head is None:
            head, is_small = self._head(fields)
            if is_small:
                _keep(self._by_fields, key, head)
        found = head, timeout
        if self._reader.changes != self._changes:
            self._changes = self._reader.changes
            self._by_block.clear()
        elif is_small:
            _keep(self._by_block, block, found)
        return found

    def _head(self, fields: list[Field]) -> tuple[H, bool]:
        """A head, and True if it may be kept: a short block can name large entries of the table again and again."""
        size = list_bytes(fields)
        if size > self._list_bytes_max:
            raise ProtocolError(ErrorCode.ENHANCE_YOUR_CALM, "the headers are far larger than this end takes")
        return self._parse(fields), size <= limits.HTTP2_HEADER_CACHE_LIST_BYTES


def _keep(cache: dict[K, V], key: K, value: V) -> None:
    if len(cache) >= limits.HTTP2_HEADER_CACHE_HEADS:
        cache.clear()
    cache[key] = value


def _take_timeout(fields: list[Field]) -> bytes | None:
    """The only timeout, taken out of the fields; None if there is none, several, or one that gRPC does not write."""
    at = -1
    for number, field in enumerate(fields):
        if field[0] is TIMEOUT:
            if at >= 0:
                return None
            at = number
    if at < 0:
        return None
    value = fields[at][1]
    if not (2 <= len(value) <= _TIMEOUT_BYTES_MAX and value[:-1].isdigit() and value[-1:] in b"HMSmun"):
        return None
    fields[at] = _ANY_TIMEOUT
    return value


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
