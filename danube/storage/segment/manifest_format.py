"""Encoding of manifests, version 1. Pure. The layout is drawn in `docs/formats/manifest.md`."""

import struct
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import TypeVar

from danube.model.errors import LimitReachedError
from danube.model.limits.broker import (
    CURSOR_RANGES_MAX,
    MANIFEST_CURSOR_RANGES_MAX,
    MANIFEST_JOURNALS_MAX,
    MANIFEST_SEGMENTS_MAX,
    SUBSCRIPTIONS_PER_TOPIC_MAX,
)
from danube.model.limits.stream import DEDUPLICATION_BATCHES_MAX, DEDUPLICATION_PRODUCERS_MAX
from danube.model.ranges import OffsetRange
from danube.model.subscription import Cursor, FailedRange
from danube.runtime.checksum import CRC_BYTES, is_intact, refuse_other_version, with_crc
from danube.storage.batches.cursors import decode_failed, encode_failed, failed_bytes
from danube.storage.batches.producer_state import SequencedBatch, StoredNumbers
from danube.storage.segment.manifest import Manifest, Segment

T = TypeVar("T")

MAGIC = b"DnMf"
VERSION = 1
SEGMENT_ROW_BYTES = 52
"""Bytes that each segment adds to every later manifest version of its topic's manifest."""

_HEADER = struct.Struct("<4sB3sQQQQQIIII")
_SEGMENT = struct.Struct("<QQQQQQI")
_CURSOR = struct.Struct("<QQI")
_ROW = struct.Struct("<QI")
_BATCH = struct.Struct("<QQII")
_JOURNAL = struct.Struct("<QQ")
_RANGE_BYTES = 16
_RESERVED = bytes(3)
_BOUNDS = {
    "segments": MANIFEST_SEGMENTS_MAX,
    "cursors": SUBSCRIPTIONS_PER_TOPIC_MAX,
    "rows of numbered batches": DEDUPLICATION_PRODUCERS_MAX,
    "journals": MANIFEST_JOURNALS_MAX,
}


def encode_manifest(manifest: Manifest) -> bytes:
    """A manifest as it is stored.

    Of a cursor with very many ranges the lowest are kept: what the others held is delivered again after a restart.
    Raises LimitReachedError when it has more segments or other parts than a manifest may have, and ValueError for one
    that is not valid.
    """
    manifest.validate()
    _require_bounds(manifest)
    return with_crc(
        b"".join(
            chain(
                (_encoded_header(manifest),),
                map(_encoded_segment, manifest.segments),
                _encoded_cursors(manifest.cursors),
                chain.from_iterable(map(_encoded_row, manifest.producer_states)),
                (_JOURNAL.pack(*journal) for journal in sorted(manifest.journals.items())),
            )
        )
    )


def decode_manifest(data: bytes) -> Manifest | None:
    """The manifest that was stored as `data`, or None when that is not a whole and undamaged one of this version."""
    if len(data) < _HEADER.size + CRC_BYTES or not is_intact(data):
        return None
    magic, version, reserved, *_ = _HEADER.unpack_from(data)
    if magic != MAGIC or version != VERSION or reserved != _RESERVED:
        return None
    try:
        return _Parser(data).manifest()
    except (struct.error, ValueError):
        return None


def refuse_other_manifest(name: str, data: bytes) -> None:
    """Raise NewerDataFolderError for a manifest of another version."""
    refuse_other_version(name, data, MAGIC, VERSION)


def _require_bounds(manifest: Manifest) -> None:
    for (what, most), count in zip(_BOUNDS.items(), _counts(manifest), strict=True):
        if count > most:
            raise LimitReachedError(
                f"topic {manifest.topic_id} has {count} {what} and {most} is the most that its manifest holds"
            )
    for row in manifest.producer_states:
        if not 0 < len(row) <= DEDUPLICATION_BATCHES_MAX:
            raise ValueError(f"a row of {len(row)} numbered batches cannot be: 1 to {DEDUPLICATION_BATCHES_MAX} can")


def _counts(manifest: Manifest) -> tuple[int, int, int, int]:
    return len(manifest.segments), len(manifest.cursors), len(manifest.producer_states), len(manifest.journals)


def _encoded_header(manifest: Manifest) -> bytes:
    return _HEADER.pack(
        MAGIC,
        VERSION,
        _RESERVED,
        manifest.topic_id,
        manifest.version,
        manifest.start_offset,
        manifest.end_offset,
        manifest.last_append_time_ms,
        *_counts(manifest),
    )


def _encoded_segment(segment: Segment) -> bytes:
    return _SEGMENT.pack(
        segment.end_offset,
        segment.manifest_version,
        segment.first_append_time_ms,
        segment.last_append_time_ms,
        segment.body_bytes,
        segment.file_bytes,
        segment.batches,
    )


def _encoded_cursors(cursors: Mapping[int, Cursor]) -> Iterator[bytes]:
    ranges_max = _ranges_of_each(cursors)
    for subscription_id, cursor in sorted(cursors.items()):
        ranges = cursor.beyond[:ranges_max]
        yield _CURSOR.pack(subscription_id, cursor.position, len(ranges))
        yield struct.pack(f"<{2 * len(ranges)}Q", *chain.from_iterable(ranges))
        yield encode_failed(cursor.failed)


def _ranges_of_each(cursors: Mapping[int, Cursor]) -> int:
    total = sum(min(len(cursor.beyond), CURSOR_RANGES_MAX) for cursor in cursors.values())
    if total <= MANIFEST_CURSOR_RANGES_MAX:
        return CURSOR_RANGES_MAX
    return MANIFEST_CURSOR_RANGES_MAX // len(cursors)


def _encoded_row(row: tuple[StoredNumbers, ...]) -> Iterator[bytes]:
    numbering_id = row[0].batch.numbering_id
    yield _ROW.pack(numbering_id, len(row))
    for batch, base_offset in row:
        if batch.numbering_id != numbering_id:
            raise ValueError(f"a row of batches that {numbering_id} numbered has one of {batch.numbering_id}")
        yield _BATCH.pack(batch.base_sequence, base_offset, batch.records, batch.body_crc)


class _Parser:
    """Reads a manifest from front to back. Raises ValueError or struct.error for what cannot be."""

    def __init__(self, data: bytes) -> None:
        self._data = memoryview(data)[:-CRC_BYTES]
        self._at = 0

    def manifest(self) -> Manifest:
        _, _, _, topic_id, version, start, end, last_append_ms, *counts = self._take(_HEADER)
        if any(count > most for count, most in zip(counts, _BOUNDS.values(), strict=True)):
            raise ValueError("more than a manifest may have")
        segments, cursors, rows, journals = counts
        parsed = Manifest(
            topic_id=topic_id,
            version=version,
            start_offset=start,
            end_offset=end,
            last_append_time_ms=last_append_ms,
            segments=self._segments(segments, start),
            cursors=_unique(self._cursor() for _ in range(cursors)),
            producer_states=tuple(self._row() for _ in range(rows)),
            journals=_unique((row[0], row[1]) for row in self._many(_JOURNAL, journals)),
        )
        parsed.validate()
        if self._at != len(self._data):
            raise ValueError("more bytes than announced")
        return parsed

    def _segments(self, count: int, base_offset: int) -> tuple[Segment, ...]:
        segments = []
        for end_offset, manifest_version, first_ms, last_ms, body, file, batches in self._many(_SEGMENT, count):
            segments.append(Segment(base_offset, end_offset, manifest_version, first_ms, last_ms, batches, body, file))
            base_offset = end_offset
        return tuple(segments)

    def _cursor(self) -> tuple[int, Cursor]:
        subscription_id, position, count = self._take(_CURSOR)
        if count > CURSOR_RANGES_MAX:
            raise ValueError("more ranges than a cursor may have")
        numbers = self._take(struct.Struct(f"<{2 * count}Q"))
        ranges = tuple(OffsetRange(start, end) for start, end in zip(numbers[::2], numbers[1::2], strict=True))
        return subscription_id, Cursor(position, ranges, self._failed())

    def _failed(self) -> tuple[FailedRange, ...]:
        failed = decode_failed(self._data[self._at :])
        if failed is None:
            raise ValueError("not as many ranges of messages that failed as announced")
        self._at += failed_bytes(len(failed))
        return failed

    def _row(self) -> tuple[StoredNumbers, ...]:
        numbering_id, count = self._take(_ROW)
        if not 0 < count <= DEDUPLICATION_BATCHES_MAX:
            raise ValueError("not as many batches as a row may have")
        return tuple(
            StoredNumbers(SequencedBatch(numbering_id, base_sequence, records, body_crc), base_offset)
            for base_sequence, base_offset, records, body_crc in self._many(_BATCH, count)
        )

    def _take(self, fields: struct.Struct) -> tuple[int, ...]:
        taken = fields.unpack_from(self._data, self._at)
        self._at += fields.size
        return taken

    def _many(self, fields: struct.Struct, count: int) -> Iterator[tuple[int, ...]]:
        start = self._at
        self._at += count * fields.size
        return fields.iter_unpack(self._data[start : self._at])


def _unique(pairs: Iterable[tuple[int, T]]) -> dict[int, T]:
    found: dict[int, T] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"{key} is there twice")
        found[key] = value
    return found
