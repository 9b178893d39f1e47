"""A block of a segment, version 1: batches in offset order, checked and perhaps compressed as one. Pure.

The layout is drawn in `docs/formats/segment.md`. A block's checksum covers those of its envelopes and bodies, which its
writer had checked. So `batches_of` does not check each again; `encoded_batches_of` does, for batches that are written
again. `take_batches` reads large bodies one by one, so that none is copied, and sums the same bytes.
"""

import struct
from collections.abc import Sequence
from typing import NamedTuple

from danube.model.errors import DamagedDataError, DataFolderError
from danube.model.limits.broker import KIB
from danube.runtime.checksum import CRC_BYTES, checksum, extended, is_intact
from danube.storage.batches.codec import BlockCodec, Codec, CodecSource
from danube.storage.batches.envelope import ENVELOPE_BYTES, Kind, decode, is_body_of
from danube.storage.batches.envelope import MAGIC as ENVELOPE_MAGIC
from danube.storage.batches.envelope import VERSION as ENVELOPE_VERSION
from danube.storage.batches.stored_batch import EncodedBatch, StoredBatch
from danube.storage.segment.block_index import BlockEntry
from danube.storage.segment.format import damaged
from danube.storage.tiers.tier import Take

MAGIC = b"DnSb"
VERSION = 1
HEADER_BYTES = 44
TAKEN_BYTES = 32 * KIB
"""A read for such a body alone costs less than copying it out of its block."""

_HEADER = struct.Struct("<4sBBHQQQIII")
_ENVELOPE = struct.Struct("<8sQ8xQIIQ8x")  # what it is, topic id, base offset, count, length, append time (envelope.py)
_DATA = ENVELOPE_MAGIC + bytes([ENVELOPE_VERSION, Kind.DATA, 0, 0])
_CODECS = frozenset(map(int, Codec))
_NOTHING_ELSE = "there should be a batch with offset {} of topic {}"


class Content(NamedTuple):
    """A checked block: its bytes, and where its batches are in them."""

    entry: BlockEntry
    topic_id: int
    name: str
    """Of the file."""
    plain: bytes
    start: int
    end: int

    def damage(self, what: str) -> DamagedDataError:
        """The error for a fault in it."""
        return damaged(self.name, self.entry.position, what)


def is_described(topic_id: int, batch: EncodedBatch) -> bool:
    """True if the batch's envelope, whose checksum is not computed, says what `batch` says of it."""
    if len(batch.encoded) != ENVELOPE_BYTES + batch.body_bytes:
        return False
    count = batch.end_offset - batch.base_offset
    described = (_DATA, topic_id, batch.base_offset, count, batch.body_bytes, batch.append_time_ms)
    return count > 0 and _ENVELOPE.unpack_from(batch.encoded) == described


def encode_block(
    topic_id: int, position: int, batches: Sequence[EncodedBatch], packing: tuple[Codec, BlockCodec] | None
) -> tuple[list[bytes], BlockEntry]:
    """The block that begins at `position`, in pieces, and what the index says of it. Large batches are not copied."""
    stored = [batch.encoded for batch in batches]
    plain_bytes = stored_bytes = sum(map(len, stored))
    if plain_bytes < len(stored) * TAKEN_BYTES:
        stored = [b"".join(stored)]  # what is done to a piece costs more than copying a small one
    codec = Codec.NONE
    if packing is not None:
        packed = packing[1].compress(b"".join(stored))
        if len(packed) < plain_bytes:
            codec, stored, stored_bytes = packing[0], [packed], len(packed)
    first, last = batches[0], batches[-1]
    numbers = (topic_id, first.base_offset, last.end_offset, len(batches), plain_bytes, stored_bytes)
    pieces = [_HEADER.pack(MAGIC, VERSION, codec, 0, *numbers), *stored]
    pieces.append(checksum(pieces))
    return pieces, BlockEntry(
        first.base_offset,
        last.end_offset,
        first.append_time_ms,
        last.append_time_ms,
        position,
        HEADER_BYTES + stored_bytes + CRC_BYTES,
        plain_bytes,
        len(batches),
    )


def open_block(encoded: bytes, entry: BlockEntry, topic_id: int, name: str, codecs: CodecSource) -> Content:
    """Check a block of the file `name` against its checksum and the index, and decompress it. Raises DamagedDataError.

    Raises StorageUnavailableError when this Python cannot decompress it, DataFolderError when a later version wrote it.
    """
    if len(encoded) != entry.file_bytes:
        raise damaged(name, entry.position + len(encoded), "the file ends")
    if not is_intact(encoded):
        raise damaged(name, entry.position, "the checksum of a block is wrong")
    magic, version, codec, *rest = _HEADER.unpack_from(encoded)
    end = entry.file_bytes - CRC_BYTES
    numbers = [entry.base_offset, entry.end_offset, entry.batches, entry.plain_bytes, end - HEADER_BYTES]
    if (magic, version) != (MAGIC, VERSION) or rest != [0, topic_id, *numbers]:
        raise damaged(name, entry.position, _NOTHING_ELSE.format(entry.base_offset, topic_id))
    if codec == Codec.NONE:
        return Content(entry, topic_id, name, encoded, HEADER_BYTES, end)
    if codec not in _CODECS:
        raise DataFolderError(
            f"{name} is compressed with codec {codec}, which this Danube does not know: use a newer one"
        )
    try:
        plain = codecs(Codec(codec)).decompress(encoded[HEADER_BYTES:end], entry.plain_bytes)
    except ValueError as error:
        raise damaged(name, entry.position, f"a block cannot be decompressed: {error}") from error
    return Content(entry, topic_id, name, plain, 0, len(plain))


def batches_of(content: Content) -> list[StoredBatch]:
    """All batches of a checked block; their own checksums are not computed again. Raises DamagedDataError."""
    plain = content.plain
    return [StoredBatch(base, count, time_ms, plain[at:end]) for base, count, time_ms, at, end in _walk(content)]


def is_taken(entry: BlockEntry) -> bool:
    """True if a block is better read with `take_batches`: stored as it is, and its bodies are large."""
    is_plain = entry.file_bytes == HEADER_BYTES + entry.plain_bytes + CRC_BYTES  # else compression made it smaller
    return is_plain and entry.plain_bytes >= entry.batches * TAKEN_BYTES


def take_batches(take: Take, entry: BlockEntry, topic_id: int) -> list[StoredBatch] | None:
    """All batches of the block that comes next, checked as `open_block` and `batches_of` check them.

    None when anything is not as it should be: those two then say what.
    """
    numbers = (entry.base_offset, entry.end_offset, entry.batches, entry.plain_bytes, entry.plain_bytes)
    header = take(HEADER_BYTES)
    if header != _HEADER.pack(MAGIC, VERSION, Codec.NONE, 0, topic_id, *numbers):
        return None
    crc, found = extended(0, header), []
    offset, time_ms, rest = entry.base_offset, entry.first_append_time_ms, entry.plain_bytes
    while rest >= ENVELOPE_BYTES:
        envelope = take(ENVELOPE_BYTES)
        what, topic, base, count, length, appended_ms = _ENVELOPE.unpack(envelope.ljust(ENVELOPE_BYTES))
        rest -= ENVELOPE_BYTES + length
        if what != _DATA or topic != topic_id or base != offset or not count or appended_ms < time_ms or rest < 0:
            return None
        body = take(length)
        crc = extended(extended(crc, envelope), body)  # while it is in the processor's cache
        found.append(StoredBatch(base, count, appended_ms, body))
        offset, time_ms = offset + count, appended_ms
    ended = (rest, offset, len(found), time_ms)
    is_whole = ended == (0, entry.end_offset, entry.batches, entry.last_append_time_ms)
    return found if is_whole and crc.to_bytes(CRC_BYTES, "little") == take(CRC_BYTES) else None


def encoded_batches_of(content: Content) -> list[EncodedBatch]:
    """All batches of a checked block, envelopes and bodies checked as well. Raises DamagedDataError."""
    found = []
    for base, count, time_ms, at, end in _walk(content):
        encoded = content.plain[at - ENVELOPE_BYTES : end]
        envelope = decode(encoded)
        if envelope is None or not is_body_of(envelope, encoded[ENVELOPE_BYTES:]):
            raise content.damage(f"the checksum of offset {base} is wrong")
        found.append(EncodedBatch(base, base + count, time_ms, end - at, encoded))
    return found


def _walk(content: Content) -> list[tuple[int, int, int, int, int]]:
    """Base offset, count, append time, and the body's first and end byte, of each batch: they must be as indexed."""
    entry, topic_id, _, plain, at, content_end = content
    offset, time_ms = entry.base_offset, entry.first_append_time_ms
    found = []
    unpack, last = _ENVELOPE.unpack_from, content_end - ENVELOPE_BYTES
    while at <= last:
        what, topic, base, count, length, appended_ms = unpack(plain, at)
        if what != _DATA or topic != topic_id or base != offset or not count or appended_ms < time_ms:
            break
        body_at = at + ENVELOPE_BYTES
        at = body_at + length
        found.append((base, count, appended_ms, body_at, at))
        offset, time_ms = offset + count, appended_ms
    ended = (at, offset, len(found), time_ms)
    if ended != (content_end, entry.end_offset, entry.batches, entry.last_append_time_ms):
        raise content.damage(_NOTHING_ELSE.format(offset, topic_id))
    return found
