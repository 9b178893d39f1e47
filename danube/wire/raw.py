"""Protobuf by hand, where a message class costs too much for each message."""

from functools import lru_cache

from danube.model.limits.broker import VARINT_CACHE_ENTRIES_MAX

_UINT64_BITS = 64
_ONE_BYTE = tuple(bytes((low,)) for low in range(0x80))
_CONTINUED = tuple(bytes((low | 0x80,)) for low in range(0x80))
_VARINT, _FIXED64, _DELIMITED, _GROUP_START, _GROUP_END, _FIXED32 = range(6)
_FIXED_SIZES = {_FIXED64: 8, _FIXED32: 4, _GROUP_START: 0, _GROUP_END: 0}
_DEPTHS = {_GROUP_START: 1, _GROUP_END: -1}


def varint(number: int) -> bytes:
    """A number as protobuf writes it: seven bits to a byte, lowest first. Raises ValueError outside of uint64."""
    if number >> 7:
        return _CONTINUED[number & 0x7F] + _upper_varint(number >> 7)
    return _ONE_BYTE[number]


@lru_cache(VARINT_CACHE_ENTRIES_MAX)
def _upper_varint(number: int) -> bytes:
    if number < 0 or number >> (_UINT64_BITS - 7):
        raise ValueError("a number on the wire is from 0 to 2**64 - 1")
    return varint(number)


def delimited_size(message: bytes, field: int) -> int:
    """Size in bytes of a top-level string, bytes or message field of a valid message: of the last one; 0 for none.

    It touches the fields' headers only, so a large payload is measured without being copied. What stands in a group (an
    old form that parsers still skip) is not top-level.
    """
    size = position = depth = 0
    while position < len(message):
        tag, position = _read_varint(message, position)
        kind = tag & 7
        if kind == _DELIMITED:
            length, position = _read_varint(message, position)
            size = length if tag >> 3 == field and not depth else size
            position += length
        elif kind == _VARINT:
            _, position = _read_varint(message, position)
        else:
            position += _FIXED_SIZES[kind]
            depth += _DEPTHS.get(kind, 0)
    return size


def _read_varint(message: bytes, position: int) -> tuple[int, int]:
    number = shift = 0
    while (byte := message[position]) & 0x80:
        number |= (byte & 0x7F) << shift
        shift += 7
        position += 1
    return number | byte << shift, position + 1
