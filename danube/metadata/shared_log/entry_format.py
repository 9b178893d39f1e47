"""Entries and snapshots of a shared log as bytes.

    entry      u8 format (1)  u8 codec (0 none, 1 zlib)  u16 0  u64 author  u64 link  body
    snapshot   "DNBS"  u16 version (1)  u16 0  u64 author  u64 link  a snapshot of the state (see `snapshot_format`)

Little-endian. The body is a MessagePack list of requests, compressed where that helps. `author` is the member that made
it, by a number drawn when it started: two members never make the same bytes. `link` is a digest of the entry before
(BLAKE2b, 64 bits; 0 before the first), in a snapshot of the entry that it was taken after: so an entry of another log,
or of a log that was set back and went on differently, does not follow.
"""

import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import chain

from danube.metadata.replication.command_format import inflate, packb, unpackb
from danube.metadata.replication.snapshot_format import decode_state, encode_state
from danube.metadata.state import StateSnapshot
from danube.model.errors import LimitReachedError, MetadataError, NewerRecordError
from danube.model.limits.metadata import (
    METADATA_LOG_BODY_BYTES_MAX,
    METADATA_LOG_COMPRESS_BYTES_MIN,
    METADATA_LOG_SNAPSHOT_PIECES_MAX,
)
from danube.runtime.checksum import told_version

ENTRY_FORMAT = 1
SNAPSHOT_VERSION = 1

_ENTRY = struct.Struct("<BBHQQ")
_SNAPSHOT = struct.Struct("<4sHHQQ")
_MAGIC = b"DNBS"
_PLAIN, _ZLIB = 0, 1
_LIST_BYTES = 5
_REQUEST_BYTES = 5  # what MessagePack puts before the bytes of one, at most
ENTRY_OVERHEAD_BYTES = _ENTRY.size + _LIST_BYTES
"""Bytes of one entry beside its requests."""


@dataclass(frozen=True, slots=True)
class Body:
    """Requests, packed for whatever entry they will stand in."""

    codec: int
    packed: bytes

    @property
    def entry_bytes(self) -> int:
        return _ENTRY.size + len(self.packed)


@dataclass(frozen=True, slots=True)
class LogEntry:
    """An entry as it is read."""

    author: int
    link: int
    """Link of the entry before."""
    requests: Sequence[bytes]


def packed_bytes(request: bytes) -> int:
    """Most bytes that a request takes of an uncompressed entry."""
    return len(request) + _REQUEST_BYTES


def pack_requests(requests: Sequence[bytes]) -> Body:
    """The requests, compressed where that helps."""
    plain = packb(list(requests))
    if len(plain) < METADATA_LOG_COMPRESS_BYTES_MIN:
        return Body(_PLAIN, plain)
    packed = zlib.compress(plain, 1)
    return Body(_ZLIB, packed) if len(packed) < len(plain) else Body(_PLAIN, plain)


def encode_entry(author: int, link: int, body: Body) -> bytes:
    """The entry that follows on the one with this link."""
    return _ENTRY.pack(ENTRY_FORMAT, body.codec, 0, author, link) + body.packed


def decode_entry(entry: bytes) -> LogEntry:
    """The entry that `encode_entry` made. Raises MetadataError, which is a NewerRecordError for another version."""
    if len(entry) < _ENTRY.size:
        raise MetadataError(f"an entry of the shared log has {len(entry)} bytes: it was cut off, or is none of ours")
    entry_format, codec, _, author, link = _ENTRY.unpack_from(entry)
    if entry_format != ENTRY_FORMAT:
        raise NewerRecordError(told_version("an entry of the shared log", entry_format, ENTRY_FORMAT))
    if codec > _ZLIB:
        raise MetadataError(f"an entry of the shared log cannot be read: no codec has the number {codec}")
    packed = entry[_ENTRY.size :]
    try:
        requests = unpackb(inflate(packed, METADATA_LOG_BODY_BYTES_MAX) if codec == _ZLIB else packed)
    except (ValueError, zlib.error) as error:
        raise MetadataError(f"an entry of the shared log cannot be read: {error}") from error
    if not isinstance(requests, list) or not all(isinstance(request, bytes) for request in requests):
        raise MetadataError("an entry of the shared log holds something else than requests")
    return LogEntry(author, link, requests)


def link_of(entry: bytes) -> int:
    """Link that the next entry has to carry."""
    return int.from_bytes(blake2b(entry, digest_size=8).digest(), "little")


def encode_snapshot(author: int, link: int, snapshot: StateSnapshot, piece_bytes_max: int) -> Sequence[bytes]:
    """A snapshot in pieces. Takes its time for a large snapshot: not for the event loop.

    Raises LimitReachedError when it takes more than METADATA_LOG_SNAPSHOT_PIECES_MAX of them.
    """
    header = _SNAPSHOT.pack(_MAGIC, SNAPSHOT_VERSION, 0, author, link)
    pieces: list[bytes] = []
    for piece in _cut(chain((header,), encode_state(snapshot)), piece_bytes_max):
        pieces.append(piece)
        if len(pieces) > METADATA_LOG_SNAPSHOT_PIECES_MAX:
            raise LimitReachedError("the metadata is too large for a snapshot in a shared log: delete topics or plans")
    return pieces


def decode_snapshot(pieces: Sequence[bytes]) -> tuple[int, StateSnapshot]:
    """The snapshot that these are all pieces of, after the link of the entry that it was taken after.

    Not for the event loop. Raises MetadataError, as `decode_entry`.
    """
    packed = memoryview(b"".join(pieces))
    if len(packed) < _SNAPSHOT.size:
        raise MetadataError("a snapshot in the shared log is cut off")
    magic, version, _, _, link = _SNAPSHOT.unpack_from(packed)
    if magic != _MAGIC:
        raise MetadataError("a snapshot in the shared log is not what was written: restore the service's data")
    if version != SNAPSHOT_VERSION:
        raise NewerRecordError(told_version("a snapshot in the shared log", version, SNAPSHOT_VERSION))
    return link, decode_state(packed[_SNAPSHOT.size :])


def _cut(parts: Iterator[bytes], size: int) -> Iterator[bytes]:
    gathered = bytearray()
    for part in parts:
        gathered += part
        while len(gathered) >= size:
            yield bytes(gathered[:size])
            del gathered[:size]
    if gathered:
        yield bytes(gathered)
