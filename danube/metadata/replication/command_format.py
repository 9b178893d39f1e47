"""Commands as bytes: what stands in Raft's log and in the shared logs of etcd and ZooKeeper, sealed.

What is read is untrusted: it is checked for kinds, counts and limits before it becomes a value.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

from danube.metadata.commands import (
    COMMANDS_VERSION,
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
from danube.runtime.sealed import Sealed, one_of


@dataclass(frozen=True, slots=True)
class Request:
    """One submission of a command."""

    request_id: str
    """Unique per submission: by it the submitter knows its own request in the sequence."""
    command: Command


class _Write(NamedTuple):
    kind: Literal["put", "delete", "delete_prefix"]
    key: str
    value: bytes = b""
    lease_id: int = 0


@dataclass(frozen=True, slots=True)
class _Transact:
    transaction_id: str
    conditions: tuple[Condition, ...]
    writes: tuple[_Write, ...]
    version: int = COMMANDS_VERSION


@dataclass(frozen=True, slots=True)
class _Request:
    """One of its commands is there."""

    request_id: str
    transact: _Transact | None = None
    grant: GrantLease | None = None
    renew: RenewLease | None = None
    revoke: RevokeLease | None = None
    expire: ExpireLease | None = None


_REQUEST = Sealed(b"DnMq", _Request)
_FIELDS: dict[type, str] = {GrantLease: "grant", RenewLease: "renew", RevokeLease: "revoke", ExpireLease: "expire"}


def encode_request(request: Request) -> bytes:
    """The request as bytes. Raises InvalidRequestError when no sequence could hold it, or it is too large for one."""
    command = request.command
    try:
        if isinstance(command, Transact):
            packed = _REQUEST.seal(_Request(request.request_id, transact=_written(command)))
        else:
            packed = _REQUEST.seal(_Request(request.request_id, **{_FIELDS[type(command)]: command}))  # type: ignore[arg-type]
    except (ValueError, OverflowError) as error:
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
        request = _REQUEST.unseal(packed)
        found = one_of(request)
        command = _read(found) if isinstance(found, _Transact) else found
        check_command(command)
    except (ValueError, InvalidRequestError) as error:
        raise MetadataError(f"a request in the sequence of metadata changes cannot be read: {error}") from error
    return Request(request.request_id, command)


def _written(command: Transact) -> _Transact:
    transaction = command.transaction
    writes = tuple(map(_row, transaction.writes))
    return _Transact(transaction.transaction_id, transaction.conditions, writes, command.version)


def _row(write: Write) -> _Write:
    if isinstance(write, Put):
        return _Write("put", write.key, write.value, write.lease_id)
    return _Write("delete", write.key) if isinstance(write, Delete) else _Write("delete_prefix", write.prefix)


def _read(command: _Transact) -> Transact:
    writes = tuple(map(_write, command.writes))
    return Transact(Transaction(command.transaction_id, command.conditions, writes), command.version)


def _write(row: _Write) -> Write:
    if row.kind == "put":
        return Put(row.key, row.value, row.lease_id)
    return Delete(row.key) if row.kind == "delete" else DeletePrefix(row.key)
