"""Commands and snapshots of the state as bytes: what stands in Raft's log and in the shared logs of etcd and ZooKeeper.

MessagePack of plain data (https://github.com/msgpack/msgpack/blob/master/spec.md), no extension types:

    request   [request id, version, kind, fields ...]
        T   transaction id, [[key, revision] ...], [write ...]
            a write: [p, key, value, lease id], [d, key] or [x, prefix]
        g   command id, seconds
        r   lease id                                              renew
        v   lease id                                              revoke
        e   lease id, renewals                                    expire

What is read is untrusted: it is checked for kinds, counts and limits before it becomes a value.
"""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeVar

import msgpack

from danube.metadata.commands import (
    Command,
    ExpireLease,
    GrantLease,
    RenewLease,
    RevokeLease,
    Transact,
    check_command,
)
from danube.metadata.store import Condition, Delete, DeletePrefix, Put, Transaction, Write
from danube.model.errors import InvalidRequestError, MetadataError
from danube.model.limits.metadata import METADATA_REQUEST_BYTES_MAX


@dataclass(frozen=True, slots=True)
class Request:
    """One submission of a command."""

    request_id: str
    """Unique per submission: by it the submitter knows its own request in the sequence."""
    command: Command


def encode_request(request: Request) -> bytes:
    """The request as bytes. Raises InvalidRequestError when no sequence could hold it, or it is too large for one."""
    command = request.command
    try:
        packed = packb([request.request_id, command.version, *_fields_of(command)])
    except (OverflowError, UnicodeEncodeError) as error:
        raise InvalidRequestError(
            f"a metadata change cannot be written down ({error}): use whole text, and numbers of 64 bits"
        ) from error
    if len(packed) > METADATA_REQUEST_BYTES_MAX:
        raise InvalidRequestError(
            f"a metadata change of {len(packed)} bytes is too large: split it, {METADATA_REQUEST_BYTES_MAX} is the most"
        )
    return packed


def decode_request(packed: bytes) -> Request:
    """The request that `encode_request` was given. Raises MetadataError for anything else."""
    try:
        request_id, version, kind, *values = unpackb(packed)
        command = _decode_command(version, kind, values)
        check_command(command)
    except (ValueError, TypeError, KeyError, InvalidRequestError) as error:
        raise MetadataError(f"a request in the sequence of metadata changes cannot be read: {error}") from error
    if not isinstance(request_id, str) or not isinstance(version, int):
        raise MetadataError("a request in the sequence of metadata changes has no id or no version")
    return Request(request_id, command)


def packb(value: Any) -> bytes:  # noqa: ANN401 - plain data
    """Plain data (None, bool, int, float, str, bytes, lists, dicts) as MessagePack."""
    packed: bytes = msgpack.packb(value, use_bin_type=True)
    return packed


def unpackb(packed: bytes) -> Any:  # noqa: ANN401 - plain data
    """Plain data from MessagePack, extension types refused. Raises ValueError."""
    try:
        return msgpack.unpackb(packed, raw=False, strict_map_key=True, ext_hook=_refuse_extension)
    except (msgpack.UnpackException, ValueError, UnicodeDecodeError) as error:
        raise ValueError(f"no plain data: {error}") from error


def inflate(packed: bytes, bytes_max: int) -> bytes:
    """Decompress zlib data, up to `bytes_max`. Raises ValueError for more, or less, or what follows it; zlib.error."""
    inflater = zlib.decompressobj()
    plain = inflater.decompress(packed, bytes_max)
    if inflater.unconsumed_tail or inflater.unused_data or not inflater.eof:
        raise ValueError(f"it is larger than {bytes_max} bytes, cut off, or followed by something")
    return plain


def _refuse_extension(code: int, data: bytes) -> Any:  # noqa: ANN401 - as the library wants it
    raise ValueError(f"extension type {code} of {len(data)} bytes")


def _fields_of(command: Command) -> Sequence[Any]:
    if isinstance(command, Transact):
        transaction = command.transaction
        conditions = [_values_of(condition) for condition in transaction.conditions]
        writes = [(_WRITE_KINDS[type(write)], *_values_of(write)) for write in transaction.writes]
        return ("T", transaction.transaction_id, conditions, writes)
    return (_COMMAND_KINDS[type(command)], *_values_of(command))


def _decode_command(version: int, kind: Any, values: Sequence[Any]) -> Command:  # noqa: ANN401 - read
    if kind == "T":
        transaction_id, conditions, writes = values
        read = tuple(_decoded(Condition, condition) for condition in conditions)
        changes = tuple(_decoded(_WRITES[write_kind], fields) for write_kind, *fields in writes)
        return Transact(Transaction(_checked(str, transaction_id), read, changes), version)
    return _decoded(_COMMANDS[kind], values, version=version)


T = TypeVar("T")

_COMMANDS: dict[str, type[GrantLease | RenewLease | RevokeLease | ExpireLease]] = {
    "g": GrantLease,
    "r": RenewLease,
    "v": RevokeLease,
    "e": ExpireLease,
}
_COMMAND_KINDS: dict[type, str] = {kind: letter for letter, kind in _COMMANDS.items()}
_WRITES: dict[str, type[Write]] = {"p": Put, "d": Delete, "x": DeletePrefix}
_WRITE_KINDS: dict[type, str] = {kind: letter for letter, kind in _WRITES.items()}


_FIELDS: dict[type, list[tuple[str, Any]]] = {
    kind: [(field.name, field.type) for field in fields(kind) if field.name != "version"]
    for kind in (Condition, *_COMMANDS.values(), *_WRITES.values())
}


def _values_of(value: object) -> list[Any]:
    return [getattr(value, name) for name, _ in _FIELDS[type(value)]]


def _decoded(kind: type[T], values: Sequence[Any], **more: int) -> T:
    """An object of this dataclass, whose fields are checked by their types. Raises ValueError, TypeError."""
    checked = {name: _checked(type_, value) for (name, type_), value in zip(_FIELDS[kind], values, strict=True)}
    return kind(**checked, **more)


def _checked(kind: Any, value: Any) -> Any:  # noqa: ANN401 - read
    """Negative numbers pass: they match nothing, which is for the rules to say and not for the reader."""
    if kind is float:
        return float(value)
    if not isinstance(value, kind) or isinstance(value, bool):
        raise TypeError(f"a value that is no {kind.__name__}")
    return value
