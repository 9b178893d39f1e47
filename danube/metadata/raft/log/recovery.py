"""Reading Raft's log at a start: what its files hold together, and what of them is torn, damaged or left over.

A record that is not what was written is *damaged* when it is not in the last file (the next one is begun only after a
sync), or when a sound record behind it says that more was synced. Otherwise it is *torn*: it was being written when the
power went. The file is then put in place anew without it: nothing is ever cut off or written over, so no old bytes can
come back between new ones. A crash in here changes nothing of what the next start finds.

The sound records have to reach the position that the file `mark` names (`log_mark.py`), or their end was lost.
"""

import contextlib
import logging
from dataclasses import dataclass, field, replace

from danube.metadata.raft.folder.damage import damaged, of_another, too_new
from danube.metadata.raft.log.format import (
    FILE_HEADER_BYTES,
    Entry,
    FileHeader,
    Owner,
    decode_file_header,
    file_name,
    file_sequence,
    newer_version,
)
from danube.metadata.raft.log.mark import LogMark, LogMarkFile
from danube.metadata.raft.log.scan import Scan, scan_file
from danube.runtime.disk import Disk

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class RecoveredLog:
    """What the files hold together."""

    entries: list[Entry] = field(default_factory=list)
    first_index: int = 1
    """Of what the files can hold entries from; all before is gone, and has to be in an image."""
    headers: list[FileHeader] = field(default_factory=list)
    """Of the files that count, oldest first."""
    leftovers: list[int] = field(default_factory=list)
    """Sequences of files that were about to be removed: files after them are gone already."""
    begun: int | None = None
    """Sequence of a file that had just been begun, without a whole header; it holds nothing."""
    last: Scan | None = None
    """The newest file, the one that is appended to."""
    mark: LogMark | None = None
    """How far the log was known to be synced."""

    @property
    def next_index(self) -> int:
        """Of the entry that would follow."""
        return self.first_index + len(self.entries)

    def term_of(self, index: int) -> int | None:
        """The term of an entry, or None when it is not here."""
        inside = self.first_index <= index < self.next_index
        return self.entries[index - self.first_index][2] if inside else None


class LogRecovery:
    """One reading of the log in a folder. All of it blocks, and raises OSError besides what it says."""

    def __init__(self, disk: Disk, folder: str, owner: Owner) -> None:
        self._disk = disk
        self._folder = folder
        self._owner = owner
        self._found = RecoveredLog()

    def run(self) -> RecoveredLog:
        """Read everything; changes nothing.

        Raises DamagedDataError, DataFolderError.
        """
        sequences = self._sequences()
        for sequence in sequences:
            self._read_file(sequence, is_last=sequence == sequences[-1])
        self._check_end()
        return self._found

    def settle(self) -> None:
        """Make durable what was found, and remove what is left over: before anything is shown to anybody."""
        last = self._found.last
        if last is not None and last.is_whole:
            self._disk.rewrite(self._path(last.header.sequence), last.claimed)  # a sync of it may have failed
        elif last is not None:
            self._put_anew(last)
        for sequence in (*self._found.leftovers, *([self._found.begun] if self._found.begun else ())):
            self._disk.remove(self._path(sequence))
        self._disk.sync_folder(self._folder)

    def _sequences(self) -> list[int]:
        """The files that count: the newest ones, without a gap."""
        found = sorted(
            sequence for name in self._disk.list(self._folder) if (sequence := file_sequence(name)) is not None
        )
        if found and self._is_begun_only(found[-1]):
            self._found.begun = found.pop()
        run = found[-1:]
        while run and run[0] - 1 in found:
            run.insert(0, run[0] - 1)
        self._found.leftovers = found[: len(found) - len(run)]
        return run

    def _is_begun_only(self, sequence: int) -> bool:
        """Whether a newest file has no whole header and nothing else: a header is synced before anything follows it."""
        content = self._content(sequence)
        return len(content) <= FILE_HEADER_BYTES and not decode_file_header(content) and not newer_version(content)

    def _content(self, sequence: int) -> bytes:
        with contextlib.closing(self._disk.open_read(self._path(sequence))) as file:
            return file.read(0, file.size())

    def _read_file(self, sequence: int, *, is_last: bool) -> None:
        content = self._content(sequence)
        scan = scan_file(self._header(sequence, content), content)
        if not scan.is_whole and (not is_last or scan.claimed_beyond is not None):
            known = f"byte {scan.claimed_beyond} says that it was synced" if is_last else "there is a newer file"
            raise damaged(self._path(sequence), scan.end, f"a record is not what was written, and {known}")
        self._take(scan)
        self._found.last = scan

    def _check_end(self) -> None:
        """Raise DamagedDataError when the log ends before the position up to which it was synced."""
        last, mark = self._found.last, LogMarkFile(self._disk, self._folder).read()
        if mark is None or mark.node_id != self._owner.node_id:
            return
        self._found.mark = mark
        name, known = self._path(mark.sequence), f"and it was synced up to byte {mark.synced_to}"
        if last is None or last.header.sequence < mark.sequence:
            raise damaged(name, 0, f"the file is missing, or its header is, {known}")
        if last.header.sequence > mark.sequence:
            return
        if last.header.file_id != mark.file_id:
            raise damaged(name, 0, f"another file stands in its place, {known}")
        if last.end < mark.synced_to:
            raise damaged(name, last.end, f"a record is missing or is not what was written, {known}")

    def _header(self, sequence: int, content: bytes) -> FileHeader:
        name = self._path(sequence)
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

    def _take(self, scan: Scan) -> None:
        """Go on with a file: it may say that the end of what was before does not count."""
        found, header = self._found, scan.header
        if header.voids or not found.headers or header.first_index < found.first_index:
            found.entries, found.first_index = [], header.first_index
        if header.first_index > found.next_index:
            raise damaged(
                self._path(header.sequence), 0, f"entries {found.next_index} to {header.first_index - 1} are missing"
            )
        del found.entries[header.first_index - found.first_index :]
        if scan.entries and found.entries and scan.entries[0][2] < found.entries[-1][2]:
            raise damaged(self._path(header.sequence), FILE_HEADER_BYTES, "its terms go back")
        found.entries += scan.entries
        found.headers.append(header)

    def _put_anew(self, last: Scan) -> None:
        """The newest file up to its last sound record."""
        name = self._path(last.header.sequence)
        _log.warning("%s: leaving out %d bytes that were never synced", name, last.size - last.end)
        self._disk.replace_file(name, self._content(last.header.sequence)[: last.end])
        self._found.last = replace(last, size=last.end)

    def _path(self, sequence: int) -> str:
        return f"{self._folder}/{file_name(sequence)}"
