"""The body of a record batch, version 1: clients send it, the journal stores it, consumers get it. Pure.

The layout is drawn in `docs/formats/batch.md`. A body never changes: offsets, epoch and append time stand in the
broker's envelope (`envelope.py`).
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import accumulate
from operator import sub

from danube.model.errors import InvalidBatchError
from danube.model.limits.broker import BATCH_BYTES_MAX, BATCH_RECORDS_MAX
from danube.runtime.checksum import CRC_BYTES, is_intact, with_crc
from danube.storage.batches.compression import BatchCodec, compress, decompress

MAGIC = b"DnBt"
VERSION = 1
HEADER_BYTES = 48
LENGTH_BYTES = 4

_HEADER = struct.Struct("<4sBBBBQQQQII")
_PLAIN_BYTES = struct.Struct("<I")
_CODEC_AT = 5
_CODECS = {int(codec): codec for codec in BatchCodec}
_NONE = BatchCodec.NONE


class RecordKind(IntEnum):
    """Kind of a batch's records."""

    PAYLOADS = 0
    """Payloads; the rest of the message is shared by all."""
    MESSAGES = 1
    """Each a whole encoded StreamMessage."""


_KINDS = tuple(RecordKind)  # by number


class CheckedBody(bytes):
    """A body that `check` has accepted, made by the caller that checked it."""

    __slots__ = ()


@dataclass(slots=True)
class BatchHeader:
    """Header of a body. Never changed; frozen, it would cost five times as much to make."""

    kind: RecordKind
    producer_id: int
    base_sequence: int
    first_publish_ms: int
    last_publish_ms: int
    count: int
    shared_bytes: int
    codec: BatchCodec = BatchCodec.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchOrigin:
    """Producer and times of a batch; all zero when the records have their own."""

    producer_id: int = 0
    base_sequence: int = 0
    first_publish_ms: int = 0
    last_publish_ms: int = 0


_NO_ORIGIN = BatchOrigin()


def encode_messages(
    records: Sequence[bytes], origin: BatchOrigin = _NO_ORIGIN, codec: BatchCodec = BatchCodec.NONE
) -> bytes:
    """A body of encoded StreamMessages. Raises InvalidBatchError when they are none, too many or too large."""
    return _encode(RecordKind.MESSAGES, b"", records, origin, codec)


def encode_payloads(
    shared: bytes,
    payloads: Sequence[bytes],
    origin: BatchOrigin = _NO_ORIGIN,
    codec: BatchCodec = BatchCodec.NONE,
) -> bytes:
    """A body of payloads and what they share. Raises InvalidBatchError when they are none, too many or too large."""
    return _encode(RecordKind.PAYLOADS, shared, payloads, origin, codec)


def body_bytes(shared_bytes: int, count: int, records_bytes: int) -> int:
    """Length of a body."""
    return HEADER_BYTES + shared_bytes + LENGTH_BYTES * count + records_bytes + CRC_BYTES


def check(body: bytes) -> BatchHeader:
    """Check every byte of a body that comes from outside. Raises InvalidBatchError."""
    if len(body) > BATCH_BYTES_MAX:
        raise InvalidBatchError(
            f"a record batch has {len(body)} bytes, the limit is {BATCH_BYTES_MAX}: send smaller ones"
        )
    header = read_header(body)
    if not is_intact(body):
        raise InvalidBatchError("the checksum of a record batch is wrong: send it again")
    _check_counts(header, body)
    return header


def read_header(body: bytes) -> BatchHeader:
    """The header alone, in constant time, without the checksum. Raises InvalidBatchError."""
    if len(body) < HEADER_BYTES + CRC_BYTES:
        raise InvalidBatchError(f"a record batch of {len(body)} bytes is shorter than its header")
    magic, version, codec, kind, reserved, producer, sequence, first, last, count, shared = _HEADER.unpack_from(body)
    if magic != MAGIC or version != VERSION or reserved:
        raise InvalidBatchError(f"this is not a record batch of version {VERSION}, or it is damaged")
    if codec not in _CODECS:
        raise InvalidBatchError(f"record batches with codec {codec} are not supported: send them uncompressed")
    if kind >= len(_KINDS):
        raise InvalidBatchError(f"record kind {kind} of a record batch is unknown")
    return BatchHeader(_KINDS[kind], producer, sequence, first, last, count, shared, _CODECS[codec])


def records(body: bytes, first: int, last: int) -> list[bytes]:
    """Records `[first, last)` of a body that was checked. For repeated slices use a `RecordView`."""
    return RecordView(body).slice(first, last)


def plain_body(body: bytes) -> bytes:
    """The body with its records uncompressed: itself as a rule, else one without a valid checksum.

    Raises InvalidBatchError, and UnsupportedError where the library of its codec is not there.
    """
    if body[_CODEC_AT] == _NONE:
        return body
    header = read_header(body)
    start = HEADER_BYTES + header.shared_bytes
    end = len(body) - CRC_BYTES
    if start + _PLAIN_BYTES.size > end:
        raise InvalidBatchError("a record batch is shorter than its counts say")
    (plain_bytes,) = _PLAIN_BYTES.unpack_from(body, start)
    if start + plain_bytes + CRC_BYTES > BATCH_BYTES_MAX:
        raise InvalidBatchError(f"a record batch has more than {BATCH_BYTES_MAX} bytes uncompressed: send smaller ones")
    records_part = decompress(header.codec, body[start + _PLAIN_BYTES.size : end], plain_bytes)
    head = bytearray(body[:start])
    head[_CODEC_AT] = _NONE
    return b"".join((head, records_part, body[end:]))


def part_of(body: bytes, first: int, last: int) -> bytes:
    """A body of records `[first, last)` of one that was checked, with their sequence numbers and its times."""
    view = RecordView(body)
    header = view.header
    origin = BatchOrigin(
        producer_id=header.producer_id,
        base_sequence=header.base_sequence + first,
        first_publish_ms=header.first_publish_ms,
        last_publish_ms=header.last_publish_ms,
    )
    return _encode(header.kind, view.shared, view.slice(first, last), origin)


class RecordView:
    """A body that was checked, sliced into its records on demand; the index is built at the first slice."""

    __slots__ = ("_body", "_ends", "header")

    def __init__(self, body: bytes) -> None:
        self.header = read_header(body)
        self._body = plain_body(body)
        self._ends: list[int] | None = None

    @property
    def shared(self) -> bytes:
        """The shared part of the records."""
        return self._body[HEADER_BYTES : HEADER_BYTES + self.header.shared_bytes]

    @property
    def longest(self) -> int:
        """Bytes of the longest record."""
        ends = self._ends or self._index()
        return int(max(map(sub, ends[1:], ends)))

    def slice(self, first: int, last: int) -> list[bytes]:
        """Records `[first, last)`. Raises IndexError for a range outside the batch."""
        if not 0 <= first <= last <= self.header.count:
            raise IndexError(f"records {first} to {last} of a batch of {self.header.count}")
        ends = self._ends or self._index()
        body = self._body
        return [body[start:end] for start, end in zip(ends[first:last], ends[first + 1 : last + 1], strict=True)]

    def _index(self) -> list[int]:
        count = self.header.count
        start = HEADER_BYTES + self.header.shared_bytes
        lengths = struct.unpack_from(f"<{count}I", self._body, start)
        self._ends = list(accumulate(lengths, initial=start + LENGTH_BYTES * count))
        return self._ends


def _encode(
    kind: RecordKind, shared: bytes, chunks: Sequence[bytes], origin: BatchOrigin, codec: BatchCodec = BatchCodec.NONE
) -> bytes:
    count = len(chunks)
    if not 1 <= count <= BATCH_RECORDS_MAX:
        raise InvalidBatchError(f"a record batch holds 1 to {BATCH_RECORDS_MAX} records, not {count}")
    lengths = [len(chunk) for chunk in chunks]
    size = body_bytes(len(shared), count, sum(lengths))
    if size > BATCH_BYTES_MAX:
        raise InvalidBatchError(f"a record batch has {size} bytes, the limit is {BATCH_BYTES_MAX}: make smaller ones")
    header = _HEADER.pack(
        MAGIC,
        VERSION,
        codec,
        kind,
        0,
        origin.producer_id,
        origin.base_sequence,
        origin.first_publish_ms,
        origin.last_publish_ms,
        count,
        len(shared),
    )
    if codec is BatchCodec.NONE:
        return with_crc(b"".join([header, shared, struct.pack(f"<{count}I", *lengths), *chunks]))
    plain = b"".join([struct.pack(f"<{count}I", *lengths), *chunks])
    packed = compress(codec, plain)
    if len(packed) + _PLAIN_BYTES.size >= len(plain):
        return _encode(kind, shared, chunks, origin)
    return with_crc(b"".join([header, shared, _PLAIN_BYTES.pack(len(plain)), packed]))


def _check_counts(header: BatchHeader, body: bytes) -> None:
    if not 1 <= header.count <= BATCH_RECORDS_MAX:
        raise InvalidBatchError(f"a record batch holds 1 to {BATCH_RECORDS_MAX} records, not {header.count}")
    if header.kind is RecordKind.MESSAGES and header.shared_bytes:
        raise InvalidBatchError("a record batch of whole messages shares nothing, but this one says it does")
    if header.first_publish_ms > header.last_publish_ms:
        raise InvalidBatchError("the first publish time of a record batch is later than its last")
    body = plain_body(body)
    records_bytes = len(body) - body_bytes(header.shared_bytes, header.count, 0)
    if records_bytes < 0:
        raise InvalidBatchError("a record batch is shorter than its counts say")
    lengths = struct.unpack_from(f"<{header.count}I", body, HEADER_BYTES + header.shared_bytes)
    if sum(lengths) != records_bytes:
        raise InvalidBatchError("the lengths of the records of a batch do not add up to its size")
