"""One way to write a record: magic, version, a body by msgspec, CRC-32C. Pure.

    4 bytes magic   u8 version   u8 codec (0 plain, 1 zlib)   body   u32 CRC-32C of all before it

The body is MessagePack of a dataclass: a map of its fields by their names, without those that have their default. An
object within a tuple is a list of all its fields. Enums are their values. Reading is strict: bytes that are no such
record, and fields that are unknown, missing or of another type, are an UnsealError that names the path.
"""

import struct
import zlib
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache, cached_property, reduce
from operator import or_
from types import UnionType
from typing import Any, Generic, TypeAlias, TypeVar, get_args, get_origin, get_type_hints

import msgspec

from danube.model.errors import InvalidRequestError
from danube.runtime.checksum import CRC_BYTES, is_intact, with_crc

OVERHEAD_BYTES = 6 + CRC_BYTES
"""Bytes of a sealed record beside its body."""

_HEADER = struct.Struct("<4sBB")
_PLAIN, _ZLIB = 0, 1

R = TypeVar("R")
_Type: TypeAlias = Any
"""A type, as annotations have it."""
_Value: TypeAlias = Any


class UnsealError(ValueError):
    """Bytes that are no such record; tells why."""


class OtherVersionError(UnsealError):
    """A sound record of another version."""

    def __init__(self, found: int, known: int) -> None:
        super().__init__(f"format {found} of another version; this one reads {known}")
        self.found, self.known = found, known


class Sealed(Generic[R]):
    """Writes and reads one kind of record."""

    def __init__(
        self, magic: bytes, kind: type[R], *, version: int = 1, compress_from: int | None = None, bytes_max: int = 0
    ) -> None:
        """Bodies of at least `compress_from` bytes are compressed; what is inflated has at most `bytes_max`."""
        self.magic, self.version = magic, version
        self._kind = kind
        self._compress_from = compress_from
        self._bytes_max = bytes_max

    @cached_property
    def _written(self) -> _Type:
        return _mirrored(self._kind, in_row=False)

    @cached_property
    def _decoder(self) -> "msgspec.msgpack.Decoder[Any]":
        return msgspec.msgpack.Decoder(self._written)

    def seal(self, record: R) -> bytes:
        """The record as bytes. Raises ValueError for one that has a field of another type than its class says."""
        body = _ENCODER.encode(record if self._written is self._kind else _converted(record, self._written))
        codec = _PLAIN
        if self._compress_from is not None and len(body) >= self._compress_from:
            packed = zlib.compress(body, 1)
            body, codec = (packed, _ZLIB) if len(packed) < len(body) else (body, _PLAIN)
        return with_crc(_HEADER.pack(self.magic, self.version, codec) + body)

    def unseal(self, packed: bytes | memoryview) -> R:
        """The record that `seal` was given. Raises UnsealError, OtherVersionError."""
        body = self._body(bytes(packed))
        try:
            read = self._decoder.decode(body)
            record: R = read if self._written is self._kind else _converted(read, self._kind)
        except (ValueError, TypeError, InvalidRequestError) as error:
            raise UnsealError(_first_line(error)) from error
        return record

    def shown(self, packed: bytes) -> _Value:
        """The fields as they are written, for people. Raises as `unseal`."""
        try:
            return msgspec.to_builtins(msgspec.msgpack.decode(self._body(packed)))
        except ValueError as error:
            raise UnsealError(_first_line(error)) from error

    def _body(self, packed: bytes) -> bytes:
        if len(packed) < OVERHEAD_BYTES or not is_intact(packed):
            raise UnsealError("it is cut off, or not what was written")
        magic, version, codec = _HEADER.unpack_from(packed)
        if magic != self.magic:
            raise UnsealError(f"it begins with {magic!r} and not with {self.magic!r}")
        if version != self.version:
            raise OtherVersionError(version, self.version)
        body = packed[_HEADER.size : -CRC_BYTES]
        if codec == _PLAIN:
            return body
        if codec != _ZLIB or self._compress_from is None:
            raise UnsealError(f"no codec has the number {codec}")
        return inflated(body, self._bytes_max)


def inflated(packed: bytes, bytes_max: int) -> bytes:
    """Decompress zlib data, up to `bytes_max`. Raises UnsealError for more, or less, or what follows it."""
    inflater = zlib.decompressobj()
    try:
        plain = inflater.decompress(packed, bytes_max)
    except zlib.error as error:
        raise UnsealError(str(error)) from error
    if inflater.unconsumed_tail or inflater.unused_data or not inflater.eof:
        raise UnsealError(f"it is larger than {bytes_max} bytes, cut off, or followed by something")
    return plain


_ENCODER = msgspec.msgpack.Encoder()


def _converted(value: _Value, kind: _Type) -> _Value:
    return msgspec.convert(value, kind, from_attributes=True)


def _mirrored(annotation: _Type, *, in_row: bool) -> _Type:
    """The type that is written in place of this one: a Struct for a dataclass, strict, and without its defaults."""
    if isinstance(annotation, type) and is_dataclass(annotation):
        return _struct_of(annotation, in_row)
    origin: Any = get_origin(annotation)
    args = get_args(annotation)
    if origin is UnionType:
        return reduce(or_, (_mirrored(each, in_row=in_row) for each in args))
    if origin in {tuple, Mapping}:
        return origin[tuple(each if each is ... else _mirrored(each, in_row=True) for each in args)]
    return annotation


@cache
def _struct_of(kind: type, in_row: bool) -> _Type:  # noqa: FBT001 - a cache is faster without keywords
    types = get_type_hints(kind)
    shape: list[tuple[str, Any] | tuple[str, Any, Any]] = []
    for each in fields(kind):
        written = _mirrored(types[each.name], in_row=in_row)
        if each.default is MISSING:
            shape.append((each.name, written))
        else:
            default = _converted(each.default, written) if is_dataclass(each.default) else each.default
            shape.append((each.name, written, default))
    return msgspec.defstruct(
        kind.__name__,
        shape,
        frozen=True,
        kw_only=True,
        array_like=in_row,
        omit_defaults=not in_row,
        forbid_unknown_fields=True,
    )


def _first_line(error: Exception) -> str:
    return str(error).split("\n", 1)[0]


_LENGTH = struct.Struct("<I")
FRAME_BYTES = _LENGTH.size


def framed(packed: bytes) -> bytes:
    """A sealed record with its length before it, for files that have more than one."""
    return _LENGTH.pack(len(packed)) + packed


def unframed(content: bytes | memoryview, at: int = 0) -> tuple[bytes, int]:
    """The sealed record whose frame is at `at`, and the position after it. Raises UnsealError where it is cut off."""
    start = at + FRAME_BYTES
    end = start + _LENGTH.unpack_from(content, at)[0] if start <= len(content) else start
    if end > len(content):
        raise UnsealError("it is cut off, or something follows it")
    return bytes(content[start:end]), end


def one_of(record: object) -> Any:  # noqa: ANN401 - whatever its fields are
    """The one field of a dataclass that is not None, of those that are None by default. Raises UnsealError."""
    optional = (getattr(record, each.name) for each in fields(record) if each.default is None)  # type: ignore[arg-type]
    found = [value for value in optional if value is not None]
    if len(found) != 1:
        raise UnsealError(f"{len(found)} of its alternatives are there, and not one")
    return found[0]
