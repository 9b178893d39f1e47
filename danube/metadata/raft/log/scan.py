"""Reading the records of one file of Raft's log, up to where they are what was written. Pure."""

from dataclasses import dataclass, field

from danube.metadata.raft.log.checksum import crc_of
from danube.metadata.raft.log.format import (
    FILE_HEADER_BYTES,
    RECORD_HEADER_BYTES,
    Entry,
    FileHeader,
    RecordHeader,
    RecordKind,
    decode_record_header,
    record_headers,
)


@dataclass(slots=True)
class Scan:
    """What was found in a file."""

    header: FileHeader
    size: int
    entries: list[Entry] = field(default_factory=list)
    end: int = FILE_HEADER_BYTES
    """After the last sound record."""
    claimed: int = 0
    """Up to where the sound records say that the file was synced."""
    is_marked: bool = False
    """Whether the last sound record is a mark."""
    claimed_beyond: int | None = None
    """Where, behind what is not sound, a record says that more was synced: then it is damage, and no torn end."""

    @property
    def is_whole(self) -> bool:
        """Whether everything in the file is sound."""
        return self.end == self.size

    @property
    def next_index(self) -> int:
        """Of the entry that would follow."""
        return self.header.first_index + len(self.entries)


def scan_file(header: FileHeader, content: bytes) -> Scan:
    """Read the records behind a file's header."""
    scan = Scan(header, len(content))
    while (found := _sound_record(scan, content)) is not None:
        record, command = found
        if record.kind is RecordKind.ENTRY:
            scan.entries.append((command, record.index, record.term))
        scan.claimed = record.synced_to
        scan.is_marked = record.kind is RecordKind.MARK
        scan.end = record.end
    if not scan.is_whole:
        claims = (
            each.position for each in record_headers(content, scan.end + 1, header.file_id) if _claims(each, scan)
        )
        scan.claimed_beyond = next(claims, None)
    return scan


def _claims(record: RecordHeader, scan: Scan) -> bool:
    return record.synced_to > scan.end


def _sound_record(scan: Scan, content: bytes) -> tuple[RecordHeader, bytes] | None:
    record = decode_record_header(content, scan.end)
    if record is None or record.file_id != scan.header.file_id or not _follows(record, scan):
        return None
    command = content[scan.end + RECORD_HEADER_BYTES : record.end]
    if len(command) != record.command_bytes or crc_of(command) != record.command_crc:
        return None
    return record, command


def _follows(record: RecordHeader, scan: Scan) -> bool:
    """Whether a record goes on where those before it ended."""
    if not scan.claimed <= record.synced_to <= record.position:
        return False
    if scan.entries and record.term < scan.entries[-1][2]:
        return False
    return record.index == scan.next_index - (record.kind is RecordKind.MARK)
