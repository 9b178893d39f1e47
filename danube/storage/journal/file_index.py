"""The index beside a closed journal file, version 1: what a scan of the file finds, without the bodies. Pure.

It is a cache: one that is missing, or not what was written, is made again from the file. The layout is drawn in
`docs/formats/journal.md`.
"""

import struct
import sys
from array import array
from dataclasses import dataclass

from danube.storage.batches.producer_state import SequencedBatch, StoredNumbers
from danube.storage.checksum import CRC_BYTES, is_intact, with_crc
from danube.storage.journal.contents import FileContents
from danube.storage.journal.index import FileStart, IndexRun
from danube.storage.log.cursors import decode_cursor, encode_cursor

MAGIC = b"DnJx"
VERSION = 1
NOT_LISTED = 2**32 - 1

_HEADER = struct.Struct("<4sB3s8Q3I")
_TOPIC = struct.Struct("<QIQ")
_CURSOR = struct.Struct("<QQI")
_NUMBERS = struct.Struct("<QQQQII")
_RESERVED = bytes(3)


@dataclass(frozen=True, slots=True)
class FileIndex:
    """All that is known of one closed file."""

    journal_id: int
    end_position: int
    last_round: int
    contents: FileContents
    runs: dict[int, IndexRun | None]
    """The batches by topic; None for one that is not listed."""


def encode_index(index: FileIndex) -> bytes:
    """The bytes of the file beside the journal file."""
    contents = index.contents
    numbers = [(key[0], stored) for key, row in contents.rows.items() for stored in row]
    header = _HEADER.pack(
        MAGIC,
        VERSION,
        _RESERVED,
        index.journal_id,
        contents.start.sequence,
        contents.start.base_position,
        index.end_position,
        contents.start.rounds_before,
        index.last_round,
        contents.oldest_append_ms,
        contents.newest_append_ms,
        len(index.runs),
        len(contents.cursors),
        len(numbers),
    )
    parts = [header]
    for topic_id, run in index.runs.items():
        parts += _encode_topic(topic_id, run)
    for (topic_id, subscription_id), (position, cursor) in contents.cursors.items():
        body = encode_cursor(subscription_id, cursor)
        parts += (_CURSOR.pack(topic_id, position, len(body)), body)
    parts += [_NUMBERS.pack(topic_id, one.base_offset, *one.batch) for topic_id, one in numbers]
    return with_crc(b"".join(parts))


def decode_index(encoded: bytes) -> FileIndex | None:
    """Content of an index, or None when it is not a valid one."""
    if len(encoded) < _HEADER.size + CRC_BYTES or not is_intact(encoded):
        return None
    magic, version, reserved, journal_id, *fields = _HEADER.unpack_from(encoded)
    if magic != MAGIC or version != VERSION or reserved != _RESERVED:
        return None
    try:
        return _Decoder(memoryview(encoded)[_HEADER.size : -CRC_BYTES]).decode(journal_id, fields)
    except (ValueError, struct.error):
        return None


class _Decoder:
    """Goes through what follows the header. Raises ValueError, struct.error where that is no index."""

    def __init__(self, content: memoryview) -> None:
        self._content = content
        self._at = 0

    def decode(self, journal_id: int, fields: list[int]) -> FileIndex:
        sequence, base, end, rounds_before, last_round, oldest_ms, newest_ms, topics, cursors, numbers = fields
        contents = FileContents(FileStart(sequence, base, rounds_before))
        contents.oldest_append_ms, contents.newest_append_ms = oldest_ms, newest_ms
        runs = dict(self._topic() for _ in range(topics))
        contents.topics.update(runs)
        contents.unlisted.update(topic_id for topic_id, run in runs.items() if run is None)
        for _ in range(cursors):
            self._cursor(contents)
        for _ in range(numbers):
            self._numbers(contents)
        if self._at != len(self._content):
            raise ValueError("there is more than was announced")
        return FileIndex(journal_id, end, last_round, contents, runs)

    def _topic(self) -> tuple[int, IndexRun | None]:
        topic_id, count, end_offset = _TOPIC.unpack(self._take(_TOPIC.size))
        if count == NOT_LISTED:
            return topic_id, None
        bases, positions, times = (self._column("Q", 8 * count) for _ in range(3))
        return topic_id, IndexRun(bases, positions, times, self._column("I", 4 * count), end_offset)

    def _cursor(self, contents: FileContents) -> None:
        topic_id, position, length = _CURSOR.unpack(self._take(_CURSOR.size))
        decoded = decode_cursor(bytes(self._take(length)))
        if decoded is None:
            raise ValueError("a cursor is not what was written")
        contents.cursors[topic_id, decoded[0]] = (position, decoded[1])

    def _numbers(self, contents: FileContents) -> None:
        topic_id, base_offset, *batch = _NUMBERS.unpack(self._take(_NUMBERS.size))
        contents.note_numbers(topic_id, StoredNumbers(SequencedBatch(*batch), base_offset))

    def _column(self, code: str, length: int) -> "array[int]":
        column: array[int] = array(code)
        column.frombytes(self._take(length))
        return _little_endian(column)

    def _take(self, length: int) -> memoryview:
        taken = self._content[self._at : self._at + length]
        if len(taken) < length:
            raise ValueError("there is less than was announced")
        self._at += length
        return taken


def _encode_topic(topic_id: int, run: IndexRun | None) -> list[bytes]:
    if run is None:
        return [_TOPIC.pack(topic_id, NOT_LISTED, 0)]
    columns = (run.bases, run.positions, run.times, run.lengths)
    return [_TOPIC.pack(topic_id, len(run), run.end_offset), *(_little_endian(one).tobytes() for one in columns)]


def _little_endian(column: "array[int]") -> "array[int]":
    if sys.byteorder == "big":
        column = column[:]
        column.byteswap()
    return column
