"""Entries and snapshots of a shared log as bytes: sealed records.

The body of an entry, a record of its own, is made once, whatever entry it will stand in. `author` is the member that
made an entry, by a number drawn when it started: two members never make the same bytes. `link` is a digest of the
entry before (BLAKE2b, 64 bits; 0 before the first), in a snapshot of the entry that it was taken after: so an entry of
another log, or of a log that was set back and went on differently, does not follow.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import chain

from danube.metadata.replication.snapshot_format import decode_state, encode_state
from danube.metadata.state import StateSnapshot
from danube.model.errors import LimitReachedError, MetadataError, NewerRecordError
from danube.model.limits.metadata import (
    METADATA_LOG_BODY_BYTES_MAX,
    METADATA_LOG_COMPRESS_BYTES_MIN,
    METADATA_LOG_SNAPSHOT_PIECES_MAX,
)
from danube.runtime.checksum import told_version
from danube.runtime.sealed import OVERHEAD_BYTES, OtherVersionError, Sealed, UnsealError, framed, unframed

_REQUEST_BYTES = 5  # what MessagePack puts before the bytes of one, at most
ENTRY_OVERHEAD_BYTES = 2 * OVERHEAD_BYTES + 60
"""Bytes of one entry beside its requests, at most."""


@dataclass(frozen=True, slots=True)
class LogEntry:
    """An entry as it is read."""

    author: int
    link: int
    """Link of the entry before."""
    requests: Sequence[bytes]


@dataclass(frozen=True, slots=True)
class _Body:
    requests: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class _Entry:
    author: int
    link: int
    body: bytes


@dataclass(frozen=True, slots=True)
class _Snapshot:
    """Before a snapshot of the state."""

    author: int
    link: int


_BODY = Sealed(b"DnLb", _Body, compress_from=METADATA_LOG_COMPRESS_BYTES_MIN, bytes_max=METADATA_LOG_BODY_BYTES_MAX)
_ENTRY = Sealed(b"DnLe", _Entry)
_SNAPSHOT = Sealed(b"DnLs", _Snapshot)


def packed_bytes(request: bytes) -> int:
    """Most bytes that a request takes of an uncompressed entry."""
    return len(request) + _REQUEST_BYTES


def pack_requests(requests: Sequence[bytes]) -> bytes:
    """The requests as the body of an entry, compressed where that helps."""
    return _BODY.seal(_Body(tuple(requests)))


def entry_bytes(body: bytes) -> int:
    """Most bytes of an entry with this body."""
    return OVERHEAD_BYTES + 45 + len(body)


def encode_entry(author: int, link: int, body: bytes) -> bytes:
    """The entry that follows on the one with this link."""
    return _ENTRY.seal(_Entry(author, link, body))


def decode_entry(entry: bytes) -> LogEntry:
    """The entry that `encode_entry` made. Raises MetadataError, which is a NewerRecordError for another version."""
    try:
        read = _ENTRY.unseal(entry)
        return LogEntry(read.author, read.link, _BODY.unseal(read.body).requests)
    except UnsealError as error:
        raise _unreadable("an entry of the shared log", error) from error


def link_of(entry: bytes) -> int:
    """Link that the next entry has to carry."""
    return int.from_bytes(blake2b(entry, digest_size=8).digest(), "little")


def encode_snapshot(author: int, link: int, snapshot: StateSnapshot, piece_bytes_max: int) -> Sequence[bytes]:
    """A snapshot in pieces. Takes its time for a large snapshot: not for the event loop.

    Raises LimitReachedError when it takes more than METADATA_LOG_SNAPSHOT_PIECES_MAX of them.
    """
    head = framed(_SNAPSHOT.seal(_Snapshot(author, link)))
    pieces: list[bytes] = []
    for piece in _cut(chain((head,), encode_state(snapshot)), piece_bytes_max):
        pieces.append(piece)
        if len(pieces) > METADATA_LOG_SNAPSHOT_PIECES_MAX:
            raise LimitReachedError("the metadata is too large for a snapshot in a shared log: delete topics or plans")
    return pieces


def decode_snapshot(pieces: Sequence[bytes]) -> tuple[int, StateSnapshot]:
    """The snapshot that these are all pieces of, after the link of the entry that it was taken after.

    Not for the event loop. Raises MetadataError, as `decode_entry`.
    """
    packed = memoryview(b"".join(pieces))
    try:
        head, end = unframed(packed)
        return _SNAPSHOT.unseal(head).link, decode_state(packed[end:])
    except UnsealError as error:
        raise _unreadable("a snapshot in the shared log", error) from error


def _unreadable(name: str, error: UnsealError) -> MetadataError:
    if isinstance(error, OtherVersionError):
        return NewerRecordError(told_version(name, error.found, error.known))
    return MetadataError(f"{name} cannot be read ({error}): restore the service's data")


def _cut(parts: Iterator[bytes], size: int) -> Iterator[bytes]:
    gathered = bytearray()
    for part in parts:
        gathered += part
        while len(gathered) >= size:
            yield bytes(gathered[:size])
            del gathered[:size]
    if gathered:
        yield bytes(gathered)
