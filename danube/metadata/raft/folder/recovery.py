"""Recovery of Raft's log at a start: scans its files, finds what is torn, damaged or left over, checks it all together.

A record that is not what was written is damaged or torn by the rules of `danube/logfile/frames.py`. A file with a torn
end is replaced by one without it. Nothing is cut off or written over, so no old bytes come back
between new ones, and a crash during recovery changes nothing of what the next start finds.

The sound records have to reach the position that the file `mark` names, or their end was lost.
"""

import contextlib
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from danube.logfile.frames import Fault, FrameReader, Known
from danube.metadata.raft.folder.format import (
    FILE_HEADER_BYTES,
    FOLDER,
    RECORD,
    Entry,
    FileHeader,
    Owner,
    RecordHeader,
    damaged,
    decode_file_header,
    file_sequence,
    log_path,
    newer_version,
    of_another,
    too_new,
)
from danube.metadata.raft.folder.small_files import LogMark, Vote, log_mark
from danube.metadata.raft.folder.snapshot import HeldSnapshot
from danube.metadata.raft.values.encoding import EncodingError, loads
from danube.metadata.raft.values.entries import MEMBERSHIP
from danube.model.errors import MetadataError
from danube.runtime.checksum import crc_of
from danube.runtime.disk import Disk, File, content_of


@dataclass(slots=True)
class Scan:
    """Result of scanning a file."""

    header: FileHeader
    size: int
    entries: list[Entry] = field(default_factory=list)
    end: int = FILE_HEADER_BYTES
    """After the last sound record."""
    claimed: int = 0
    """Position up to which the sound records say that the file was synced."""
    fault: Fault | None = None
    """Damage behind the last sound record; None for a torn end, too."""

    @property
    def is_whole(self) -> bool:
        return self.end == self.size

    @property
    def next_index(self) -> int:
        return self.header.first_index + len(self.entries)


def scan_file(header: FileHeader, file: File, *, is_last: bool = True) -> Scan:
    """Read the records behind a file's header."""
    reader: FrameReader[RecordHeader] = FrameReader(
        file, RECORD, lambda record: record.file_id == header.file_id, start=FILE_HEADER_BYTES
    )
    scan = Scan(header, reader.size)
    while (record := reader.header()) is not None and _follows(record, scan):
        content, at = reader.content(record)
        command = content[at : at + record.content_bytes]
        if len(command) != record.content_bytes or crc_of(command) != record.command_crc:
            break
        scan.entries.append((command, record.entry_index, record.term))
        scan.claimed = record.synced_to
        reader.go_past(record)
        scan.end = reader.at
    if not scan.is_whole:
        scan.fault = reader.fault(is_last=is_last)
    return scan


def _follows(record: RecordHeader, scan: Scan) -> bool:
    """True if a record goes on where those before it ended."""
    if not scan.claimed <= record.synced_to <= record.position:
        return False
    if scan.entries and record.term < scan.entries[-1][2]:
        return False
    return record.entry_index == scan.next_index


_log = logging.getLogger(__name__)


@dataclass(slots=True)
class RecoveredLog:
    """Contents of all files together."""

    entries: list[Entry] = field(default_factory=list)
    first_index: int = 1
    """First index that the files can have; all before it has to be in a snapshot."""
    headers: list[FileHeader] = field(default_factory=list)
    """Headers of the files that count, oldest first."""
    leftovers: list[int] = field(default_factory=list)
    """Sequences of files that were about to be removed: files after them are gone already."""
    begun: int | None = None
    """Sequence of a file that had just been begun, without a whole header; it holds nothing."""
    last: Scan | None = None
    """The newest file, the one that is appended to."""
    mark: LogMark | None = None

    @property
    def next_index(self) -> int:
        return self.first_index + len(self.entries)

    def term_of(self, index: int) -> int | None:
        """The term of an entry, or None when it is not here."""
        inside = self.first_index <= index < self.next_index
        return self.entries[index - self.first_index][2] if inside else None


class LogRecovery:
    """One reading of the log in a folder. All of it blocks, and raises OSError besides what it says."""

    def __init__(self, disk: Disk, owner: Owner) -> None:
        self._disk = disk
        self._owner = owner
        self._found = RecoveredLog()

    def run(self) -> RecoveredLog:
        """Read everything; changes nothing. Raises DamagedDataError, DataFolderError."""
        sequences = self._sequences()
        for sequence in sequences:
            self._read_file(sequence, is_last=sequence == sequences[-1])
        self._check_end()
        return self._found

    def settle(self) -> None:
        """Make durable what was found, and remove what is left over: before anything is shown to anybody."""
        last = self._found.last
        if last is not None and last.is_whole:
            mark = self._found.mark
            is_marked = mark is not None and mark.sequence == last.header.sequence
            claimed = max(last.claimed, mark.synced_to if mark is not None and is_marked else 0)
            self._disk.rewrite(log_path(last.header.sequence), claimed)  # a sync of what is behind may have failed
        elif last is not None:
            self._put_anew(last)
        for sequence in (*self._found.leftovers, *([self._found.begun] if self._found.begun else ())):
            self._disk.remove(log_path(sequence))
        self._disk.sync_folder(FOLDER)

    def _sequences(self) -> list[int]:
        """The files that count: the newest ones, without a gap."""
        found = sorted(sequence for name in self._disk.list(FOLDER) if (sequence := file_sequence(name)) is not None)
        if found and self._is_begun_only(found[-1]):
            self._found.begun = found.pop()
        run = found[-1:]
        while run and run[0] - 1 in found:
            run.insert(0, run[0] - 1)
        self._found.leftovers = found[: len(found) - len(run)]
        return run

    def _is_begun_only(self, sequence: int) -> bool:
        """True if a newest file has no whole header and nothing else: a header is synced before anything follows it."""
        content = self._content(sequence)
        return len(content) <= FILE_HEADER_BYTES and not decode_file_header(content) and not newer_version(content)

    def _content(self, sequence: int) -> bytes:
        return content_of(self._disk, log_path(sequence))

    def _read_file(self, sequence: int, *, is_last: bool) -> None:
        name = log_path(sequence)
        with contextlib.closing(self._disk.open_read(name)) as file:
            header = self._header(sequence, file.read(0, FILE_HEADER_BYTES))
            scan = scan_file(header, file, is_last=is_last)
        if scan.fault is not None:
            is_claimed = scan.fault.known is Known.LATER_FRAME
            known = f"byte {scan.fault.synced_to} was synced" if is_claimed else "there is a newer file"
            raise damaged(name, scan.end, f"a record is not what was written, and {known}")
        self._add(scan)
        self._found.last = scan

    def _check_end(self) -> None:
        """Raise DamagedDataError when the log ends before the position up to which it was synced."""
        last, mark = self._found.last, log_mark(self._disk).read()
        if mark is None or mark.node_id != self._owner.node_id:
            return
        self._found.mark = mark
        name, known = log_path(mark.sequence), f"and it was synced up to byte {mark.synced_to}"
        if last is None or last.header.sequence < mark.sequence:
            raise damaged(name, 0, f"the file is missing, or its header is, {known}")
        if last.header.sequence > mark.sequence:
            return
        if last.header.file_id != mark.file_id:
            raise damaged(name, 0, f"another file stands in its place, {known}")
        if last.end < mark.synced_to:
            raise damaged(name, last.end, f"a record is missing or is not what was written, {known}")

    def _header(self, sequence: int, content: bytes) -> FileHeader:
        name = log_path(sequence)
        version = newer_version(content)
        if version is not None:
            raise too_new(name, version)
        header = decode_file_header(content)
        if header is None or header.sequence != sequence:
            raise damaged(name, 0, "its header is not what was written")
        if header.node_id != self._owner.node_id:
            raise of_another(name, header.node_id, self._owner.node_id)
        if header.cluster_mark not in (0, self._owner.cluster_mark):
            raise damaged(name, 0, "it belongs to another cluster than the file identity")
        return header

    def _add(self, scan: Scan) -> None:
        """Go on with a file: it may say that the end of what was before does not count."""
        found, header = self._found, scan.header
        if header.voids or not found.headers or header.first_index < found.first_index:
            found.entries, found.first_index = [], header.first_index
        if header.first_index > found.next_index:
            missing = f"entries {found.next_index} to {header.first_index - 1} are missing"
            raise damaged(log_path(header.sequence), 0, missing)
        del found.entries[header.first_index - found.first_index :]
        if scan.entries and found.entries and scan.entries[0][2] < found.entries[-1][2]:
            raise damaged(log_path(header.sequence), FILE_HEADER_BYTES, "its terms go back")
        found.entries += scan.entries
        found.headers.append(header)

    def _put_anew(self, last: Scan) -> None:
        """The newest file up to its last sound record."""
        name = log_path(last.header.sequence)
        _log.warning("%s: leaving out %d bytes that were never synced", name, last.size - last.end)
        self._disk.replace_file(name, self._content(last.header.sequence)[: last.end])
        self._found.last = replace(last, size=last.end)


def check_together(found: RecoveredLog, snapshot: HeldSnapshot | None, vote: Vote) -> None:
    """Raise DamagedDataError when something is missing that was there: no crash leaves files like this."""
    covered = snapshot.index if snapshot is not None else 0
    if snapshot is None and any(header.voids for header in found.headers):
        raise damaged(f"{FOLDER}/image-*", 0, "the snapshot that the log begins with is missing")
    if found.headers and found.first_index > max(covered, 1):
        missing = f"entries {covered + 1} to {found.first_index - 1} are missing, and no snapshot has them"
        raise damaged(f"{FOLDER}/log-*", 0, missing)
    if vote.synced_index > covered and found.term_of(vote.synced_index) != vote.synced_term:
        raise damaged(f"{FOLDER}/log-*", 0, f"entry {vote.synced_index} was synced and is not there any more")
    newest = max((snapshot.term if snapshot is not None else 0, *(term for _, _, term in found.entries[-1:])))
    if vote.term < newest:
        raise damaged(f"{FOLDER}/vote", 0, f"it says term {vote.term}, and the log is in term {newest} already")


def aligned(found: RecoveredLog, snapshot: HeldSnapshot | None) -> list[Entry] | None:
    """The log as Raft goes on from the snapshot: its two entries and what follows them. None when the files hold
    nothing that goes on from the snapshot: the log is those two entries then, and has to be written anew.

    A snapshot that another member sent is on the disk before the log begins anew with it; the crash may come between.
    """
    if snapshot is None:
        return list(found.entries)
    if found.term_of(snapshot.index) != snapshot.term:
        return None
    return [snapshot.prev, snapshot.last, *found.entries[snapshot.index + 1 - found.first_index :]]


def members_after(members: Sequence[str], entries: Iterable[Entry]) -> tuple[str, ...]:
    """Voters after these entries, sorted, if they were `members` before them.

    The newest configuration in the log counts, committed or not (Ongaro, Consensus: Bridging Theory and Practice, 4.1).
    Raises MetadataError for an entry that changes the members and cannot be read.
    """
    voters = set(members)
    for command, index, _ in entries:
        if command[:1] == MEMBERSHIP:
            kind, member = _change_of(command, index)
            voters = voters | {member} if kind == "add" else voters - {member}
    return tuple(sorted(voters))


def _change_of(command: bytes, index: int) -> tuple[str, str]:
    try:
        kind, member, *_ = loads(command[1:])
    except (EncodingError, TypeError, ValueError) as error:
        raise MetadataError(f"entry {index} changes the members and cannot be read: {error}") from error
    if kind not in ("add", "rem") or not isinstance(member, str):
        raise MetadataError(f"entry {index} changes the members in a way that this Danube does not know")
    return kind, member
