"""The envelope, version 1: the broker's 56 bytes in front of each body. Pure.

The layout is drawn in `docs/formats/batch.md`. Every body of any kind ends with the CRC-32C of all its other bytes, so
envelope and body together cover every byte.
"""

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from danube.runtime.checksum import CRC_BYTES, is_intact, with_crc

MAGIC = b"DnEv"
VERSION = 1
ENVELOPE_BYTES = 56

_FIELDS = struct.Struct("<4sBBHQQQIIQ")
_FIELDS_AND_CRC = struct.Struct("<4sBBHQQQIIQ4s")


class Kind(IntEnum):
    """Kind of the body."""

    DATA = 1
    """A record batch."""
    CURSOR = 2
    """A subscription's cursor (`cursors.py`)."""
    CONTROL = 3
    """Reserved for seals and fences."""


_KINDS = {int(kind): kind for kind in Kind}
_DATA = int(Kind.DATA)
_DATA_START = MAGIC + bytes([VERSION, _DATA, 0, 0])
_DATA_FIELDS = struct.Struct("<8sQ8xQIIQ")  # all but the epoch


@dataclass(slots=True)
class Envelope:
    """A decoded envelope. Never changed; frozen, it would cost five times as much to make."""

    kind: Kind
    topic_id: int
    epoch: int
    base_offset: int
    count: int
    body_bytes: int
    append_time_ms: int
    body_crc: int

    @property
    def total_bytes(self) -> int:
        """Envelope and body together."""
        return ENVELOPE_BYTES + self.body_bytes


class DataFields(NamedTuple):
    """Expected fields of a record batch's envelope, but for its epoch."""

    topic_id: int
    base_offset: int
    records: int
    body_bytes: int
    append_time_ms: int


_LENGTH = DataFields._fields.index("body_bytes")


def encode_data(topic_id: int, epoch: int, offsets: range, append_time_ms: int, body: bytes) -> bytes:
    """The envelope of a record batch whose records get `offsets`."""
    start = offsets.start
    numbers = (topic_id, epoch, start, offsets.stop - start, len(body), append_time_ms, body[-CRC_BYTES:])
    return with_crc(_FIELDS_AND_CRC.pack(MAGIC, VERSION, _DATA, 0, *numbers))


def encode_other(kind: Kind, topic_id: int, epoch: int, append_time_ms: int, body: bytes) -> bytes:
    """The envelope of a body that holds no records."""
    numbers = (topic_id, epoch, 0, 0, len(body), append_time_ms)
    return with_crc(_FIELDS.pack(MAGIC, VERSION, kind, 0, *numbers) + body[-CRC_BYTES:])


def decode(buffer: bytes, at: int = 0) -> Envelope | None:
    """The envelope at `at`, or None when the bytes there are not a valid one."""
    encoded = buffer[at : at + ENVELOPE_BYTES]
    if len(encoded) < ENVELOPE_BYTES or not is_intact(encoded):
        return None
    magic, version, kind, reserved, topic_id, epoch, base, count, length, time_ms = _FIELDS.unpack_from(encoded)
    if magic != MAGIC or version != VERSION or kind not in _KINDS or reserved:
        return None
    body_crc = int.from_bytes(encoded[48:52], "little")
    return Envelope(_KINDS[kind], topic_id, epoch, base, count, length, time_ms, body_crc)


Said = DataFields | tuple[int, int, int, int, int]
"""The same; a plain tuple costs less to make."""


def body_of_data(buffer: bytes, at: int, says: Said) -> bytes | None:
    """The body of the record batch at `at` when every byte is intact and the envelope says just this; else None.

    It judges as `decode` and `is_body_of` do, at less cost: for who reads many batches and knows what they should be.
    """
    body_at = at + ENVELOPE_BYTES
    body = buffer[body_at : body_at + says[_LENGTH]]
    return body if is_data(buffer[at:body_at], body, says) else None


def is_data(envelope: bytes, body: bytes, says: Said) -> bool:
    """The same of an envelope and a body that were read one by one."""
    if len(envelope) < ENVELOPE_BYTES or _DATA_FIELDS.unpack_from(envelope) != (_DATA_START, *says):
        return False
    return body[-CRC_BYTES:] == envelope[48:52] and is_intact(body) and is_intact(envelope)


def is_body_of(envelope: Envelope, body: bytes) -> bool:
    """True if `body` is, byte for byte, what the envelope was written around."""
    if len(body) != envelope.body_bytes or not is_intact(body):
        return False
    return int.from_bytes(body[-CRC_BYTES:], "little") == envelope.body_crc
