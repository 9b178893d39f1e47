"""A snapshot of the metadata as bytes: what a snapshot of Raft, of a shared log, and a backup hold.

    "DNBI"  u16 version  u8 compression (0 none, 1 zlib)  u8 0
    blocks: u32 length, u32 CRC-32C of the bytes that follow, the bytes (compressed each for itself)
    a block of length 0 ends the snapshot

Little-endian. A block, read, is MessagePack: first [revision, last lease id, count of keys, of leases, of outcomes],
then lists of [key, value, created revision, revision, lease id], sorted by key over all blocks, then lists of leases
[id, ttl, renewals], then lists of outcomes [id, kind, fields ...], oldest first. Without its last block it is no
snapshot.
"""

import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple
from itertools import islice
from typing import Any, TypeVar

from danube.metadata.commands import Lease, outcome_fields, outcome_of
from danube.metadata.replication.command_format import inflate, packb, unpackb
from danube.metadata.state import StateSnapshot
from danube.metadata.store import Entry
from danube.model.errors import MetadataError, NewerRecordError
from danube.model.limits.metadata import METADATA_SNAPSHOT_BLOCK_BYTES_MAX
from danube.runtime.checksum import crc_of, told_version

SNAPSHOT_VERSION = 1

_HEADER = struct.Struct("<4sHBB")
_BLOCK = struct.Struct("<II")
_MAGIC = b"DNBI"
_ZLIB = 1
_ENTRIES_A_BLOCK = 256
_OTHERS_A_BLOCK = 2_000

T = TypeVar("T")


def encode_state(snapshot: StateSnapshot) -> Iterator[bytes]:
    """The snapshot in pieces of bounded work: put together they are what `decode_state` takes."""
    yield _HEADER.pack(_MAGIC, SNAPSHOT_VERSION, _ZLIB, 0)
    counts = [len(snapshot.entries), len(snapshot.leases), len(snapshot.outcomes)]
    yield _block([snapshot.revision, snapshot.last_lease_id, *counts])
    for entries in _slices(snapshot.entries, _ENTRIES_A_BLOCK):
        yield _block([astuple(entry) for entry in entries])
    for leases in _slices(snapshot.leases, _OTHERS_A_BLOCK):
        yield _block([astuple(lease) for lease in leases])
    for outcomes in _slices(snapshot.outcomes, _OTHERS_A_BLOCK):
        yield _block([[command_id, *outcome_fields(outcome)] for command_id, outcome in outcomes])
    yield _BLOCK.pack(0, 0)


def decode_state(packed: bytes | memoryview) -> StateSnapshot:
    """The snapshot whose pieces these are. Raises MetadataError, which is a NewerRecordError for another version."""
    blocks = _blocks(memoryview(packed))
    try:
        revision, last_lease_id, *counts = next(blocks)
        entries = tuple(Entry(*row) for row in _rows(blocks, counts[0]))
        leases = tuple(Lease(*row) for row in _rows(blocks, counts[1]))
        outcomes = tuple((row[0], outcome_of(row[1:])) for row in _rows(blocks, counts[2]))
        _expect_end(blocks)
    except (ValueError, TypeError, KeyError, IndexError, StopIteration, zlib.error) as error:
        raise MetadataError(f"a snapshot of the metadata cannot be read ({error}): take another copy of it") from error
    return StateSnapshot(revision, last_lease_id, entries, leases, outcomes)


def _block(rows: Sequence[Any]) -> bytes:
    packed = zlib.compress(packb(rows), 1)
    return _BLOCK.pack(len(packed), crc_of(packed)) + packed


def _slices(values: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    for start in range(0, len(values), size):
        yield values[start : start + size]


def _blocks(packed: memoryview) -> Iterator[Any]:
    """Contents of each block. Raises ValueError, also when the last one is missing or something follows it."""
    if len(packed) < _HEADER.size:
        raise ValueError("it is cut off")
    magic, version, compression, _ = _HEADER.unpack_from(packed)
    if magic != _MAGIC:
        raise ValueError("it is none")
    if version != SNAPSHOT_VERSION:
        raise NewerRecordError(told_version("a snapshot of the metadata", version, SNAPSHOT_VERSION))
    if compression != _ZLIB:
        raise ValueError(f"no compression has the number {compression}")
    position = _HEADER.size
    while True:
        if position + _BLOCK.size > len(packed):
            raise ValueError("it is cut off")
        size, checksum = _BLOCK.unpack_from(packed, position)
        position += _BLOCK.size
        if size == 0:
            break
        body = bytes(packed[position : position + size])
        if len(body) < size or crc_of(body) != checksum:
            raise ValueError(f"it is damaged or cut off at byte {position}")
        yield unpackb(inflate(body, METADATA_SNAPSHOT_BLOCK_BYTES_MAX))
        position += size
    if checksum or position != len(packed):
        raise ValueError("something follows its end")


def _expect_end(blocks: Iterator[Any]) -> None:
    if next(blocks, None) is not None:
        raise ValueError("it has more than it says")


def _rows(blocks: Iterator[Any], count: int) -> Iterable[Any]:
    """Rows from the blocks that follow, until there are `count` of them."""
    taken = 0
    while taken < count:
        rows = next(blocks, None)
        if rows is None:
            raise ValueError("it has less than it says")
        yield from islice(rows, count - taken)
        taken += len(rows)
    if taken != count:
        raise ValueError("it has other counts than it says")
