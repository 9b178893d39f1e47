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

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

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
        request_id, version, kind, *fields = unpackb(packed)
        command = _DECODERS[kind](version, *fields)
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


def _refuse_extension(code: int, data: bytes) -> Any:  # noqa: ANN401 - as the library wants it
    raise ValueError(f"extension type {code} of {len(data)} bytes")


def _fields_of(command: Command) -> Sequence[Any]:
    match command:
        case Transact(transaction):
            conditions = [[condition.key, condition.revision] for condition in transaction.conditions]
            return (
                "T",
                transaction.transaction_id,
                conditions,
                [_fields_of_write(each) for each in transaction.writes],
            )
        case GrantLease(command_id, ttl_s):
            return ("g", command_id, ttl_s)
        case RenewLease(lease_id):
            return ("r", lease_id)
        case RevokeLease(lease_id):
            return ("v", lease_id)
        case ExpireLease(lease_id, renewals):
            return ("e", lease_id, renewals)


def _fields_of_write(write: Write) -> Sequence[Any]:
    match write:
        case Put(key, value, lease_id):
            return ("p", key, value, lease_id)
        case Delete(key):
            return ("d", key)
        case DeletePrefix(prefix):
            return ("x", prefix)


def _decode_transact(version: int, transaction_id: Any, conditions: Any, writes: Any) -> Transact:  # noqa: ANN401 - read
    read = tuple(Condition(_text(key), _number(revision)) for key, revision in conditions)
    return Transact(Transaction(_text(transaction_id), read, tuple(_decode_write(*each) for each in writes)), version)


def _decode_write(kind: Any, *fields: Any) -> Write:  # noqa: ANN401 - read
    if kind == "p":
        key, value, lease_id = fields
        if not isinstance(value, bytes):
            raise TypeError("a value that is no bytes")
        return Put(_text(key), value, _number(lease_id))
    (key,) = fields
    removals: dict[str, type[Delete | DeletePrefix]] = {"d": Delete, "x": DeletePrefix}
    return removals[kind](_text(key))


def _decode_grant(version: int, command_id: Any, ttl_s: Any) -> GrantLease:  # noqa: ANN401 - read
    return GrantLease(_text(command_id), float(ttl_s), version)


def _decode_renew(version: int, lease_id: Any) -> RenewLease:  # noqa: ANN401 - read
    return RenewLease(_number(lease_id), version)


def _decode_revoke(version: int, lease_id: Any) -> RevokeLease:  # noqa: ANN401 - read
    return RevokeLease(_number(lease_id), version)


def _decode_expire(version: int, lease_id: Any, renewals: Any) -> ExpireLease:  # noqa: ANN401 - read
    return ExpireLease(_number(lease_id), _number(renewals), version)


_DECODERS: dict[str, Callable[..., Command]] = {
    "T": _decode_transact,
    "g": _decode_grant,
    "r": _decode_renew,
    "v": _decode_revoke,
    "e": _decode_expire,
}


def _text(value: Any) -> str:  # noqa: ANN401 - read
    if not isinstance(value, str):
        raise TypeError("a text that is none")
    return value


def _number(value: Any) -> int:  # noqa: ANN401 - read
    """Negative ones included: they match nothing, which is for the rules to say and not for the reader."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError("a number that is none")
    return value
