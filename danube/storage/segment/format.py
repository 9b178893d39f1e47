"""Encoding of a segment file around its blocks, version 1. Pure. The layout is drawn in `docs/formats/segment.md`.

    segment = file header, block, block, ..., index, footer

A later version keeps the footer's length, its first 5 bytes and its own checksum where they are.
"""

from dataclasses import dataclass

from danube.model.errors import DamagedDataError
from danube.runtime.checksum import CRC_BYTES, FixedRecord, checksum, is_intact
from danube.storage.damage import next_step
from danube.storage.segment.manifest import Segment

VERSION = 1
FILE_MAGIC = b"DnSg"
FOOTER_MAGIC = b"DnSf"
FILE_HEADER_BYTES = 36
FOOTER_BYTES = 88

_FILE: FixedRecord[tuple[int, ...]] = FixedRecord(FILE_MAGIC, VERSION, "QQQ", tuple)
_FOOTER: FixedRecord[tuple[int, ...]] = FixedRecord(FOOTER_MAGIC, VERSION, "QQQQQQQQIII", tuple)


@dataclass(frozen=True, slots=True)
class Footer:
    """Footer of a segment file."""

    topic_id: int
    segment: Segment
    index_position: int
    blocks: int
    index_crc: bytes


def encode_file_header(topic_id: int, base_offset: int, manifest_version: int) -> bytes:
    """The first bytes of a segment."""
    return _FILE.encode((topic_id, base_offset, manifest_version))


refuse_other_header = _FILE.refuse_other_version


def encode_footer(topic_id: int, segment: Segment, index_position: int, index: bytes, blocks: int) -> bytes:
    """The last bytes of a segment whose index begins at `index_position`."""
    crc = int.from_bytes(checksum([index]), "little")
    numbers = (
        topic_id,
        segment.base_offset,
        segment.end_offset,
        segment.manifest_version,
        segment.first_append_time_ms,
        segment.last_append_time_ms,
        segment.body_bytes,
        index_position,
        segment.batches,
        blocks,
        crc,
    )
    return _FOOTER.encode(numbers)


def decode_footer(encoded: bytes, name: str, file_bytes: int) -> Footer:
    """The footer of the file `name` of this length, of which `encoded` are the last bytes.

    Raises DamagedDataError, and NewerDataFolderError when another version wrote the file.
    """
    at = file_bytes - FOOTER_BYTES
    if at < FILE_HEADER_BYTES or len(encoded) != FOOTER_BYTES or not is_intact(encoded):
        raise damaged(name, max(at, 0), "there should be a footer")
    _FOOTER.refuse_other_version(name, encoded)
    fields = _FOOTER.decode(encoded)
    if fields is None:
        raise damaged(name, at, "there should be a footer")
    topic_id, base, end, manifest_version, first_ms, last_ms, body_bytes, index_position, batches, blocks, _ = fields
    segment = Segment(base, end, manifest_version, first_ms, last_ms, batches, body_bytes, file_bytes)
    index_crc = encoded[-2 * CRC_BYTES : -CRC_BYTES]
    return Footer(topic_id, segment, index_position, blocks, index_crc)


def damaged(name: str, at: int, what: str) -> DamagedDataError:
    """The error for bytes of a segment that cannot be what was written."""
    return DamagedDataError(
        f"{name} is damaged at byte {at}: {what}. Its topic cannot be read there, all others can. {next_step(name)}"
    )
