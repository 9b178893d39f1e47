"""The index of a segment: position and content of its blocks. Pure. Drawn in `docs/formats/segment.md`."""

import struct
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from danube.storage.batches.envelope import ENVELOPE_BYTES
from danube.storage.segment.format import FILE_HEADER_BYTES, Footer

ENTRY_BYTES = 52

_ENTRY = struct.Struct("<QQQQQIII")
_KEPT_BYTES = 700  # what a kept index costs besides its entries, roughly
_KEPT_ENTRY_BYTES = ENTRY_BYTES + 2 * 8


class BlockEntry(NamedTuple):
    """Entry of one block."""

    base_offset: int
    end_offset: int
    first_append_time_ms: int
    last_append_time_ms: int
    position: int
    """Byte of the file at which it begins."""
    file_bytes: int
    """Of the whole block."""
    plain_bytes: int
    """Of its batches before compression, envelopes included."""
    batches: int


class BlockIndex:
    """The blocks of one segment in offset order: 68 bytes each."""

    __slots__ = ("_bases", "_encoded", "_end_offset", "_last_times")

    def __init__(self, encoded: bytes, entries: Sequence[BlockEntry]) -> None:
        self._encoded = encoded
        self._bases = array("Q", [entry.base_offset for entry in entries])
        self._last_times = array("Q", [entry.last_append_time_ms for entry in entries])
        self._end_offset = entries[-1].end_offset

    def __len__(self) -> int:
        return len(self._bases)

    def __getitem__(self, number: int) -> BlockEntry:
        return BlockEntry._make(_ENTRY.unpack_from(self._encoded, number * ENTRY_BYTES))

    @property
    def cost_bytes(self) -> int:
        """Memory that it uses, roughly."""
        return _KEPT_BYTES + _KEPT_ENTRY_BYTES * len(self._bases)

    def find(self, offset: int) -> int:
        """The number of the block that holds `offset`. Raises IndexError when none does."""
        if not self._bases[0] <= offset < self._end_offset:
            raise IndexError(offset)
        return bisect_right(self._bases, offset) - 1

    def find_time(self, append_time_ms: int) -> int:
        """The number of the first block with a batch appended at this time or later; how many there are when none."""
        return bisect_left(self._last_times, append_time_ms)


def encode_index(entries: Sequence[BlockEntry]) -> bytes:
    """The index of these blocks."""
    return b"".join(_ENTRY.pack(*entry) for entry in entries)


def decode_index(encoded: bytes, footer: Footer) -> BlockIndex | None:
    """The index whose checksum was right, or None when it is not one of the blocks that the footer speaks of."""
    if not encoded or len(encoded) != footer.blocks * ENTRY_BYTES:
        return None
    entries = [BlockEntry._make(fields) for fields in _ENTRY.iter_unpack(encoded)]
    segment = footer.segment
    offset, position, time_ms = segment.base_offset, FILE_HEADER_BYTES, segment.first_append_time_ms
    batches = plain_bytes = 0
    for entry in entries:
        is_next = (entry.base_offset, entry.position) == (offset, position) and entry.end_offset > offset
        if not is_next or not time_ms <= entry.first_append_time_ms <= entry.last_append_time_ms:
            return None
        offset, position, time_ms = entry.end_offset, position + entry.file_bytes, entry.last_append_time_ms
        batches, plain_bytes = batches + entry.batches, plain_bytes + entry.plain_bytes
    body_bytes = plain_bytes - batches * ENVELOPE_BYTES
    found = (entries[0].first_append_time_ms, offset, position, time_ms, batches, body_bytes)
    wanted = (segment.first_append_time_ms, segment.end_offset, footer.index_position, segment.last_append_time_ms)
    return BlockIndex(encoded, entries) if found == (*wanted, segment.batches, segment.body_bytes) else None
